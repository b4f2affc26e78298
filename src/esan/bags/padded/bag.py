"""`PaddedBag`: a batch of a fixed shape as a bag; the padding graph at its end has multiplicity 0."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from esan.bags.bag import Bag
from esan.bags.layer_view import LayerView
from esan.bags.padded.axes import TARGETS
from esan.bags.padded.fields import extra_axis, extra_name
from esan.bags.padded.shapes import Shape
from esan.bags.padded.views import Fields, PaddedCSR, PaddedLayerView, PaddedSharedEdges, needs_unpadded
from esan.bags.rows import Rows
from esan.bags.shared_edges import SharedEdges
from esan.checks import device_here
from esan.graphs import Graphs
from esan.graphs.extra_fields import ExtraFields, ListField
from esan.ops.caching import cached
from esan.ops.segments import CSR
from esan.plural import counted
from esan.policies import Selection


@dataclass(frozen=True, eq=False, repr=False)
class PaddedBag(Bag):
    """A batch whose tensors have the sizes of a `Shape`, whichever graphs it holds; the last graph is padding.

    A model takes it like any other bag, and predicts for the real graphs only. It may hold the batches of several
    networks (an `esan.Ensemble`), concatenated; then each of them has a padding graph.

    Attributes:
        fields: its tensors by name.
        shape: their sizes.
        networks: how many networks the batch is for.
        side: a CUDA stream for independent work.
        step_seeds: one random seed per network for this step, `[S]`; None if nothing is drawn.
        skips_padding: whether padding rows are neither read nor written; all operators used must support it.
        origin: where the batch comes from; None for one that was made by hand.
        covered: whether every edge of every graph is in some subgraph of it.
        loopless: whether no graph has a self-loop.
        keeps_padding: whether predictions include those for padding graphs.
        like: the bag of the dataset. Graphs, selection and rows are None where they are made of the fields, when
            somebody reads them: a captured step never does.
    """

    fields: Fields | None = None
    shape: Shape | None = None
    networks: int = 1
    side: "torch.cuda.Stream | None" = None
    step_seeds: Tensor | None = None
    skips_padding: bool = False
    origin: "Origin | None" = None
    covered: bool = False
    loopless: bool = False
    keeps_padding: bool = False
    like: Bag | None = None

    def __post_init__(self) -> None:
        for name in ("graphs", "selection", "rows"):
            if self.__dict__[name] is None:
                del self.__dict__[name]  # the cached property of this name makes it

    @staticmethod
    def of_fields(fields: Fields | None, shape: Shape | None, like: Bag, networks: int = 1, **more: Any) -> "PaddedBag":
        """The bag of these fields, which may be views of memory that the next batch overwrites.

        Args:
            fields: as `Padder.lay_out` makes them; None if they come later (`with_fields`).
            shape: their shape; likewise.
            like: the bag of the dataset.
            networks: how many networks the batch is for.
            more: other attributes of the bag.
        """
        lazy: Any = None
        return PaddedBag(
            lazy,
            lazy,
            lazy,
            like.num_layers,
            like.policy,
            like.strict,
            fields=fields,
            shape=shape,
            networks=networks,
            like=like,
            **more,
        )

    def with_fields(self, fields: Fields, shape: Shape) -> "PaddedBag":
        """This bag, of which nothing has been read, with other fields: once per batch, so without `__init__`."""
        bag = object.__new__(PaddedBag)
        bag.__dict__.update(self.__dict__, fields=fields, shape=shape, _layer_views={})
        return bag

    @cached  # type: ignore[misc]
    def graphs(self) -> Graphs:
        fields = cast(Fields, self.fields)
        none = fields["node_graph"].new_empty(0)
        graphs = Graphs(
            num_nodes=fields["num_nodes"],
            num_edges=none,
            num_directed_edges=none,
            edges=none.reshape(2, 0),
            edge_index=torch.stack([fields["edge_source"], fields["edge_target"]]),
            undirected_edge=none,
            column=none,
            x=fields.get("x"),
            edge_attr=fields.get("edge_attr"),
            y=fields.get("y"),
            extra=self._extra_fields,
        )
        graphs.__dict__["node_graph"] = fields["node_graph"]
        return graphs

    @cached  # type: ignore[misc]
    def selection(self) -> Selection:
        fields, like = cast(Fields, self.fields), cast(Bag, self.like)
        number, owner = fields["num_subgraphs"], fields["subgraph_graph"]
        none = owner.new_empty(0)
        selection = Selection(number, like.selection.keeps_edges, none, none, like.marked, none, none)
        selection.__dict__["subgraph_graph"] = owner
        return selection

    @cached  # type: ignore[misc]
    def rows(self) -> Rows:
        shape, none = cast(Shape, self.shape), cast(Fields, self.fields)["node_graph"].new_empty(0)
        rows = Rows(none, none, none, none, none, none, none, none)
        rows.__dict__.update(row_ends=_ends(shape.rows), edge_ends=_ends(shape.row_edges))
        return rows

    @property
    def device(self) -> torch.device:
        device = getattr(self.fields, "device", None)
        return self.graphs.device if device is None else device

    @property
    def marked(self) -> bool:
        return cast(Bag, self.like).marked

    @property
    def _extra_fields(self) -> ExtraFields:
        like = self.__dict__.get("like")
        return ExtraFields() if like is None else _PaddedExtraFields(like, cast(Fields, self.fields), self.networks)

    @property
    def y(self) -> Tensor | None:
        """The targets, one per graph; for several networks, `[networks, graphs, ...]`."""
        y, given = cast(Fields, self.fields).get("y"), cast(Bag, self.like).y  # graphs would be made in every step
        if y is None or given is None:
            return None
        y = y if y.dtype == given.dtype else y.to(given.dtype)
        return y if self.networks == 1 else y.unflatten(0, (self.networks, -1))

    @property
    def edge_index(self) -> Tensor:
        raise self._without_order("edge_index")

    @property
    def edge_attr(self) -> Tensor | None:
        if cast(Bag, self.like).graphs.edge_attr is None:
            return None
        raise self._without_order("edge_attr")

    def _without_order(self, name: str) -> AttributeError:
        """Edges of padded batches have forgotten the order of the data, which edges of a bag have."""
        return AttributeError(
            f"Expected a bag without padding for {name} (got a padded batch). Use bag.graphs.{name}, sorted by target "
            "and with padding at its end, or bag.without_padding()."
        )

    @property
    def edge_weight(self) -> None:
        """Bags of graphs with edge weights are not padded."""

    @property
    def num_graphs(self) -> int:
        """The number of graphs (of each network), without padding."""
        return cast(Shape, self.shape).graphs

    def __len__(self) -> int:
        return self.num_graphs

    def __repr__(self) -> str:
        networks = "" if self.networks == 1 else f", for {self.networks} networks"
        kind = "literal" if self.num_layers is None else f"compact for {counted(self.num_layers, 'layer')}"
        graphs = counted(self.num_graphs, "graph")
        return f"PaddedBag({kind}, policy={self.policy!r}: {graphs} in {self.rows.row_ends[-1]} rows{networks})"

    @property
    def seeds(self) -> Tensor | None:
        return self.step_seeds

    @property
    def graph_multiplicity(self) -> Tensor:
        """1 for each graph, 0 for padding graphs, such as those that complete the last batch."""
        return cast(Fields, self.fields)["graph_multiplicity"]

    @property
    def node_multiplicity(self) -> Tensor | None:
        return cast(Fields, self.fields)["node_multiplicity"]

    @cached_property
    def by_graph(self) -> CSR:
        return PaddedCSR(cast(Fields, self.fields), "subgraphs", "subgraph_graph", is_sorted=True)

    @property
    def plain(self) -> bool:
        return False

    def skipping_padding(self) -> Bag:
        return replace(self, skips_padding=True)

    def drop_padding(self, predictions: Tensor) -> Tensor:
        if self.keeps_padding:
            return predictions
        by_network = predictions.view(self.networks, -1, *predictions.shape[1:])[:, :-1]
        return by_network[0] if self.networks == 1 else by_network

    def to_literal(self) -> "Bag":
        return self if self.literal else self._origin("to_literal").literal(self)

    def without_padding(self) -> "Bag":
        return self._origin("without_padding").plain(self)

    def to_compact(self, num_layers: int) -> "Bag":
        if self.num_layers is not None and self.num_layers >= num_layers:
            return self
        raise ValueError(
            f"Expected a bag built for {num_layers} layers (got padded batches of one for {self.num_layers}). Build "
            f"the bag that the loader takes with num_layers={num_layers}."
        )

    def _origin(self, what: str) -> "Origin":
        if self.origin is None:
            raise ValueError(f"Expected a batch of a Loader for {what} (got one that was padded by hand).")
        return self.origin

    def to(self, device: torch.device | str) -> "Bag":
        if device_here(device) == self.device:
            return self
        raise ValueError(
            f"Expected padded batches to stay on {self.device} (got {device}). "
            f"Pass Loader(..., device={str(device)!r})."
        )

    def __getitem__(self, ids: Any) -> "Bag":
        raise needs_unpadded("single graphs of a batch")

    def only(self, mask: Tensor) -> "Bag":  # noqa: ARG002
        raise needs_unpadded("some subgraphs of a batch")

    def subgraph(self, i: int) -> Data:  # noqa: ARG002
        raise needs_unpadded("subgraphs as PyG data")

    def resample(self, generator: torch.Generator | None = None) -> "Bag":  # noqa: ARG002
        raise needs_unpadded("another sample of a batch")

    def save(self, path: str | Path) -> None:  # noqa: ARG002
        raise needs_unpadded("writing a batch to a file")

    def draw(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        raise needs_unpadded("a picture of a batch")

    def layer_view_of_block(self, block: int) -> LayerView:
        if block not in self._layer_views:
            self._layer_views[block] = PaddedLayerView(
                self.graphs,
                self.selection,
                self.rows,
                block,
                fields=cast(Fields, self.fields),
                shape=cast(Shape, self.shape),
                networks=self.networks,
                skips_padding=self.skips_padding,
                side=self.side,
            )
        return self._layer_views[block]

    @cached_property
    def shared(self) -> SharedEdges:
        return PaddedSharedEdges(self.graphs, self.selection, self.literal, cast(Fields, self.fields), self.covered)


class _PaddedExtraFields(ExtraFields):
    """The extra fields of a padded batch, each read when it is asked for.

    They do not refer to the batch, which refers to them: its memory would then wait for the garbage collector.

    Args:
        like: the bag of the dataset.
        of_batch: the fields of the batch.
        networks: how many networks the batch is for.
    """

    def __init__(self, like: Bag, of_batch: Fields, networks: int) -> None:
        super().__init__()
        self._like, self._of_batch, self._networks = like, of_batch, networks

    def __getitem__(self, name: str) -> Any:
        """A list, one entry per graph, or as `y`, or one per node of `graphs` as `x`."""
        if name not in [*self]:
            raise KeyError(name)
        like = self._like
        field = like.graphs.extra.fields[name]
        if not isinstance(field, ListField):
            values = self._of_batch[extra_name(name)].to(field.local.dtype)
            if self._networks == 1:
                return values
            # Kept, since looking at the values waits for the device, which a captured step cannot.
            of_graphs = like.cache.setdefault("extra fields of graphs", {})
            if name not in of_graphs:
                of_graphs[name] = extra_axis(like.graphs, field) is TARGETS
            return values.unflatten(0, (self._networks, -1)) if of_graphs[name] else values
        ids = getattr(self._of_batch, "ids", None)
        if ids is None:
            raise RuntimeError(
                f"Expected numbers in a step that is captured as a CUDA graph (got {name}, which is a list). Read it "
                "outside of the step."
            )
        of_networks = [[field.value[i] for i in some if i >= 0] for some in ids.tolist()]
        return of_networks[0] if len(of_networks) == 1 else of_networks

    def __iter__(self) -> Iterator[str]:
        return iter(self._like.graphs.extra)

    def __len__(self) -> int:
        return len(self._like.graphs.extra)


class Origin(Protocol):
    """Where padded batches come from."""

    def literal(self, bag: PaddedBag) -> Bag:
        """The same batch with one row per pair."""

    def plain(self, bag: PaddedBag) -> Bag:
        """The same graphs without padding."""


def _ends(capacities: tuple[int, ...]) -> list[int]:
    return torch.tensor(capacities).cumsum(0).tolist()
