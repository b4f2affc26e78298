"""Groupings and arcs whose orders were found when a batch was laid out, read from its fields."""

from collections.abc import Iterator, Mapping
from functools import cached_property

from torch import Tensor

from esan.bags.arcs import Arcs
from esan.bags.sums import Grouping
from esan.kernels.real import Real

#: The tensors of a batch by name.
Fields = Mapping[str, Tensor]


class Noted(Mapping[str, Tensor]):
    """Fields that note which of them are read; whole numbers are given in 64 bits, as work on a batch reads them."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._read: dict[str, Tensor] = {}

    @property
    def read(self) -> frozenset[str]:
        return frozenset(self._read)

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._read:
            field = self._fields[name]
            self._read[name] = field if field.is_floating_point() else field.long()
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


class LaidGrouping(Grouping):
    """A grouping that was found when the batch was laid out; its fields are read when they are asked for.

    Args:
        fields: of the batch.
        name: of the grouping among them.
        owner: the name of the field of owners.
        real: where its lines lie that are not filler; None if all are, or filler is read too.
    """

    def __init__(self, fields: Fields, name: str, owner: str, real: Real | None = None) -> None:
        self._fields, self._name, self._owner, self.real = fields, name, owner, real
        self._ordered = False

    @cached_property
    def owner(self) -> Tensor:  # type: ignore[override]
        return self._fields[self._owner]

    @cached_property
    def size(self) -> int:  # type: ignore[override]
        return self.first.numel()

    @cached_property
    def order(self) -> Tensor:
        return self._fields[f"{self._name}.order"]

    @cached_property
    def first(self) -> Tensor:
        return self._fields[f"{self._name}.first"]

    @cached_property
    def count(self) -> Tensor:  # type: ignore[override]
        return self._fields[f"{self._name}.count"]


class LaidArcs(Arcs):
    """Arcs whose orders were found when the batch was laid out."""

    def found(self, fields: Fields, name: str) -> "LaidArcs":
        self.__dict__.update(_fields=fields, _name=name)
        return self

    def _field(self, name: str) -> Tensor:
        return self.__dict__["_fields"][f"{self.__dict__['_name']}.{name}"]

    @cached_property
    def into(self) -> Grouping:
        into = Grouping(self.edge_index[1], self.num_rows, ordered=True, count=self._field("into.count"))
        into.__dict__["first"] = self._field("into.first")
        return into

    @cached_property
    def out_of(self) -> Grouping:
        out = LaidGrouping(self.__dict__["_fields"], f"{self.__dict__['_name']}.out", "")
        out.__dict__["owner"] = self.edge_index[0]
        return out

    @cached_property
    def out_target(self) -> Tensor:
        return self._field("out.target")

    @cached_property
    def out_arc(self) -> Tensor:
        # The arcs of the graphs themselves are copies of nothing else.
        return self._field("out.order") if self.__dict__["_name"] == "graph" else self._field("out.arc")

    def _types_of(self, types: Tensor) -> tuple[Tensor, Tensor]:
        if types is not self.__dict__["_fields"].get("edge_attr"):
            return super()._types_of(types)
        # The arcs of the graphs themselves have theirs.
        of = types.reshape(-1) if self.__dict__["_name"] == "graph" else self._field("type")
        return of, self._field("out.type")

    @cached_property
    def copy_ends(self) -> tuple[Tensor, Tensor]:
        if self.__dict__["_name"] == "graph":
            return self.edge_index[0], self.edge_index[1]
        return self._field("copies.source"), self._field("copies.target")
