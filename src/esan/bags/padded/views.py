"""Groupings and arcs whose orders were found when a batch was laid out, read from its fields."""

from collections.abc import Mapping
from functools import cached_property

import torch
from torch import Tensor

from esan.ops.edges import Arcs
from esan.ops.real import Real
from esan.ops.segments import Grouping

#: The tensors of a batch by name.
Fields = Mapping[str, Tensor]


class LaidGrouping(Grouping):
    """A grouping that was found when the batch was laid out; its fields are read when they are asked for.

    Args:
        fields: of the batch.
        name: of the grouping among them.
        owner: the name of the field of owners.
        ordered: whether the owners are sorted.
        real: where its lines lie that are not filler; None if all are, or filler is read too.
    """

    def __init__(
        self, fields: Fields, name: str, owner: str, *, ordered: bool = False, real: Real | None = None
    ) -> None:
        self._fields, self._name, self._owner, self._ordered, self.real = fields, name, owner, ordered, real

    @cached_property
    def owner(self) -> Tensor:  # type: ignore[override]
        return self._fields[self._owner]

    @cached_property
    def size(self) -> int:  # type: ignore[override]
        return self.first.numel()

    @cached_property
    def order(self) -> Tensor:
        return super().order if self._ordered else self._fields[f"{self._name}.order"]

    @cached_property
    def first(self) -> Tensor:
        return self._fields[f"{self._name}.first"]

    @cached_property
    def count(self) -> Tensor:  # type: ignore[override]
        return self._fields[f"{self._name}.count"]


class LaidArcs(Arcs):
    """Arcs whose orders were found when the batch was laid out; its fields are read when they are asked for.

    Args:
        fields: of the batch.
        name: that of the stage between whose rows they are, or `graph` for those of the graphs themselves.
        num_rows: how many rows there are.
        weight: a factor a message, or None for 1.
        real: which rows are not filler; None if all are, or filler is read too.
    """

    def __init__(
        self, fields: Fields, name: str, num_rows: int, weight: Tensor | None = None, real: Real | None = None
    ) -> None:
        self.__dict__.update(_fields=fields, _name=name, _types=None)
        self.__dict__.update(num_rows=num_rows, weight=weight, real=real)
        self.__dict__["_ends"] = [f"edge_{end}" if name == "graph" else f"{name}.{end}" for end in ("source", "target")]

    def _field(self, name: str) -> Tensor:
        return self.__dict__["_fields"][f"{self.__dict__['_name']}.{name}"]

    def _grouping(self, name: str, owner: str, ordered: bool = False) -> Grouping:
        return LaidGrouping(self.__dict__["_fields"], f"{self.__dict__['_name']}.{name}", owner, ordered=ordered)

    @property
    def _of_graphs(self) -> bool:
        return self.__dict__["_name"] == "graph"

    @cached_property
    def source(self) -> Tensor:
        return self.__dict__["_fields"][self.__dict__["_ends"][0]]

    @cached_property
    def edge_index(self) -> Tensor:
        return torch.stack([self.source, self.__dict__["_fields"][self.__dict__["_ends"][1]]])

    @cached_property
    def copies(self) -> Grouping:
        if not self._of_graphs:
            return self._grouping("copies", f"{self.__dict__['_name']}.arc")
        # Arcs of the graphs themselves are copies of nothing else.
        every = torch.arange(self.source.numel(), device=self.source.device)
        return Grouping.known(every, every.numel(), every, every, torch.ones_like(every))

    @cached_property
    def into(self) -> Grouping:
        return self._grouping("into", self.__dict__["_ends"][1], ordered=True)

    @cached_property
    def out_of(self) -> Grouping:
        return self._grouping("out", self.__dict__["_ends"][0])

    @cached_property
    def out_target(self) -> Tensor:
        return self._field("out.target")

    @cached_property
    def out_arc(self) -> Tensor:
        return self._field("out.order") if self._of_graphs else self._field("out.arc")

    def _types_of(self, types: Tensor) -> tuple[Tensor, Tensor]:
        own = self.__dict__["_fields"].get("edge_attr")
        if own is None or types.is_floating_point() or types.data_ptr() != own.data_ptr():
            return super()._types_of(types)
        return types.reshape(-1) if self._of_graphs else self._field("type"), self._field("out.type")

    @cached_property
    def copy_ends(self) -> tuple[Tensor, Tensor]:
        if self._of_graphs:
            return self.edge_index[0], self.edge_index[1]
        return self._field("copies.source"), self._field("copies.target")
