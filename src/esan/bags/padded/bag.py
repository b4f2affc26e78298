"""`PaddedBag`: a batch of a fixed shape as a bag; the padding graph at its end counts for nothing."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from esan.bags.bag import Bag
from esan.bags.layer_view import Differences, Stage
from esan.bags.padded.shapes import Shape
from esan.bags.padded.views import Fields, LaidArcs, LaidGrouping
from esan.bags.rows import Rows
from esan.bags.shared import ADJACENCIES, SharedArcs
from esan.checks import device_here
from esan.counted import counted
from esan.graphs import Graphs
from esan.ops.edges import Arcs
from esan.ops.real import Real
from esan.ops.segments import Grouping
from esan.policies import Selection


@dataclass(frozen=True, eq=False, repr=False)
class PaddedBag(Bag):
    """A batch whose tensors have the sizes of a `Shape`, whatever graphs it holds; the last graph is padding.

    A model takes it as any other bag, and predicts for the graphs alone. It may be the batch of several networks (an
    `esan.Ensemble`), one after the other; then each of them has a padding graph.

    Attributes:
        fields: its tensors by name.
        shape: their sizes.
        networks: how many networks the batch is for.
        side: a stream that layers may do independent work on.
        drawn_from: a seed per network of what is drawn in this step, `[S]`; None if nothing is drawn.
        real_only: whether padding rows are neither written nor read, since operators which know them do all the work.
        origin: where the batch is from; None for one that was made by hand.
        covered: whether every edge of every graph is in some subgraph of it.
        loopless: whether no graph has a self-loop.
        whole_output: whether predictions for padding graphs are given too.
    """

    fields: Fields | None = None
    shape: Shape | None = None
    networks: int = 1
    side: "torch.cuda.Stream | None" = None
    drawn_from: Tensor | None = None
    real_only: bool = False
    origin: "Origin | None" = None
    covered: bool = False
    loopless: bool = False
    whole_output: bool = False

    @staticmethod
    def over(
        fields: Fields, shape: Shape, like: Bag, networks: int = 1, side: "torch.cuda.Stream | None" = None
    ) -> "PaddedBag":
        """The bag of these fields, views of memory that the next batch may overwrite.

        Args:
            fields: as `Padder.lay_out` makes them.
            shape: what they were laid out for.
            like: the bag that the graphs are from.
            networks: how many networks the batch is for.
            side: a stream that layers may do independent work on.
        """
        none = fields["node_graph"].new_empty(0)
        graphs = Graphs(
            num_nodes=fields["num_nodes"],
            num_edges=none,
            num_arcs=none,
            edges=none.reshape(2, 0),
            edge_index=torch.stack([fields["edge_source"], fields["edge_target"]]),
            arc_edge=none,
            column=none,
            x=fields.get("x"),
            edge_attr=fields.get("edge_attr"),
            y=fields.get("y"),
        )
        graphs.__dict__["node_graph"] = fields["node_graph"]
        selection = Selection(fields["num_subgraphs"], like.selection.keeps_edges, none, none, like.marked, none, none)
        selection.__dict__["subgraph_graph"] = fields["subgraph_graph"]
        rows = Rows(none, none, none, none, none, none, none, none)
        rows.__dict__.update(row_ends=_ends(shape.rows), arc_ends=_ends(shape.row_arcs))
        return PaddedBag(
            graphs, selection, rows, like.num_layers, like.policy, like.strict, None, fields, shape, networks, side
        )

    def __getattr__(self, name: str) -> Any:
        if hasattr(type(self), name):
            return object.__getattribute__(self, name)  # a property that failed: its own error is the right one
        raise AttributeError(
            f"'PaddedBag' object has no attribute {name!r}: padded batches have no extra fields. Use Loader(..., "
            "padded=False) for those of the graphs.",
            name=name,
            obj=self,
        )

    @property
    def y(self) -> Tensor | None:
        """The targets, one per graph; of several networks, `[networks, graphs, ...]`."""
        y = self.graphs.y
        return y if y is None or self.networks == 1 else y.view(self.networks, -1, *y.shape[1:])

    @property
    def num_graphs(self) -> int:
        """Graphs of the batch (of each network), padding left out."""
        return cast(Shape, self.shape).graphs

    def __len__(self) -> int:
        return self.num_graphs

    def __repr__(self) -> str:
        networks = "" if self.networks == 1 else f", for {self.networks} networks"
        kind = "literal" if self.num_layers is None else f"compact for {counted(self.num_layers, 'layer')}"
        held = counted(self.num_graphs, "graph")
        return f"PaddedBag({kind}, policy={self.policy!r}: {held} in {self.rows.row_ends[-1]} rows{networks})"

    @property
    def seeds(self) -> Tensor | None:
        return self.drawn_from

    @property
    def graph_weight(self) -> Tensor:
        """1 for each graph of the batch, 0 for padding, and for the graphs that a last batch lacks."""
        return cast(Fields, self.fields)["graph_weight"]

    @property
    def node_weight(self) -> Tensor | None:
        return cast(Fields, self.fields)["node_weight"]

    @cached_property
    def by_graph(self) -> Grouping:
        return LaidGrouping(cast(Fields, self.fields), "subgraphs", "subgraph_graph", ordered=True)

    @property
    def plain(self) -> bool:
        return False

    def without_filler(self) -> Bag:
        return replace(self, real_only=True)

    def without_padding_graph(self, predictions: Tensor) -> Tensor:
        if self.whole_output:
            return predictions
        split = predictions.view(self.networks, -1, *predictions.shape[1:])[:, :-1]
        return split[0] if self.networks == 1 else split

    def to_literal(self) -> "Bag":
        return self if self.literal else self._origin("to_literal").literal(self)

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
        raise _unpadded("single graphs of a batch")

    def only(self, kept: Tensor) -> "Bag":  # noqa: ARG002
        raise _unpadded("some subgraphs of a batch")

    def subgraph(self, i: int) -> Data:  # noqa: ARG002
        raise _unpadded("subgraphs as PyG data")

    def resample(self, generator: torch.Generator | None = None) -> "Bag":  # noqa: ARG002
        raise _unpadded("another sample of a batch")

    def save(self, path: str | Path) -> None:  # noqa: ARG002
        raise _unpadded("writing a batch to a file")

    def stage_of_slot(self, slot: int) -> Stage:
        if slot not in self._stages:
            self._stages[slot] = PaddedStage(self, slot)
        return self._stages[slot]

    @cached_property
    def shared(self) -> SharedArcs:
        return PaddedShared(self)


class Origin(Protocol):
    """Where padded batches are from, and what else they can be had as."""

    def literal(self, bag: PaddedBag) -> Bag:
        """The same batch with a row for every pair."""


def _unpadded(what: str) -> ValueError:
    return ValueError(f"Expected a bag without padding for {what} (got a padded batch). Use Loader(..., padded=False).")


def _ends(room: tuple[int, ...]) -> list[int]:
    return torch.tensor(room).cumsum(0).tolist()


class PaddedStage(Stage):
    """A stage whose orders were all found when the batch was laid out."""

    plain = False

    def __init__(self, bag: PaddedBag, slot: int) -> None:
        super().__init__(bag.graphs, bag.selection, bag.rows, slot)
        self._fields, self._name, self.networks = cast(Fields, bag.fields), f"stage{slot}", bag.networks
        # Not the bag itself: it holds its stages, and neither would be freed before the collector comes.
        self._real_only, self._room = (
            bag.real_only,
            tuple(room for room in cast(Shape, bag.shape).rows[: slot + 1] if room),
        )
        self.num_rows *= bag.networks
        self.side = bag.side

    def _field(self, name: str) -> Tensor:
        return self._fields[f"{self._name}.{name}"]

    def _laid(self, name: str, owner: str, real: Real | None = None) -> Grouping:
        return LaidGrouping(self._fields, f"{self._name}.{name}", f"{self._name}.{owner}", real=real)

    @cached_property
    def real(self) -> Real | None:  # type: ignore[override]
        return Real(self._field("real"), self._room) if self._real_only else None

    @cached_property
    def node(self) -> Tensor:
        return self._field("node")

    @cached_property
    def multiplicity(self) -> Tensor:
        return self._field("weight")

    @cached_property
    def marked(self) -> Tensor:
        return self._field("marked").bool()

    def bag_weight(self, reduce: str, kind: torch.dtype) -> Tensor | None:
        if reduce == "sum":
            return self.multiplicity_in(kind)
        if kind == torch.float32:
            return self._field("mean")
        subgraphs = self._selection.num_subgraphs[self._graphs.node_graph].clamp(min=1)
        return self.multiplicity.to(kind) / subgraphs.index_select(0, self.node)

    @property
    def subgraph(self) -> Tensor:
        return self._field("stored_subgraph")

    @cached_property
    def by_node(self) -> Grouping:
        return self._laid("by_node", "node", self.real)

    @cached_property
    def by_subgraph(self) -> Grouping:
        # Where there is no background, the stored pairs are the rows.
        return self._laid("by_subgraph", "stored_subgraph", None if self.background else self.real)

    @cached_property
    def by_graph(self) -> Grouping:
        return LaidGrouping(self._fields, "nodes", "node_graph", ordered=True)

    @cached_property
    def subgraphs_by_graph(self) -> Grouping:
        return LaidGrouping(self._fields, "subgraphs", "subgraph_graph", ordered=True)

    @cached_property
    def stored_by_node(self) -> Grouping:
        grouping = self._laid("stored_by_node", "node")
        # The nodes of the stored pairs are behind those of the background, network by network.
        node = self.node.view(self.networks, -1)[:, self.background :].reshape(-1)
        grouping.__dict__["owner"] = node
        return grouping

    @cached_property
    def background_by_graph(self) -> Grouping:
        by_graph = LaidGrouping(self._fields, "nodes", "node_graph", ordered=True)
        by_graph.__dict__["order"] = self._field("background")
        return by_graph

    @cached_property
    def differences(self) -> Differences:
        parts = (self._field(f"differences{part}") for part in ("", ".sign", ".first", ".count"))
        return Differences(*parts)

    @cached_property
    def subgraph_of_stored(self) -> Tensor:
        return self._field("subgraph_of_stored")

    @cached_property
    def pooled_into(self) -> Tensor:
        return self._field("pooled_into")

    def _arcs_from(self, known: int) -> Arcs:  # noqa: ARG002
        return LaidArcs(self._fields, self._name, self.num_rows, real=self.real)

    def lift_index(self, rows: int) -> Tensor:
        earlier, of_node = rows // self.networks, self.node.view(self.networks, -1)
        network = torch.arange(self.networks, device=of_node.device)[:, None]
        own = torch.arange(earlier, device=of_node.device) + network * earlier
        # In the earlier stage each network's rows begin elsewhere: nodes there are its first rows.
        added = of_node[:, earlier:] + network * (earlier - self.background)
        return torch.cat([own, added], 1).reshape(-1)

    def background_first(self, h: Tensor) -> Tensor:
        split = h.view(self.networks, -1, h.size(1))
        parts = split[:, : self.background], split[:, self.background :]
        return torch.cat([part.reshape(-1, h.size(1)) for part in parts])


class PaddedShared(SharedArcs):
    """The adjacency of a padded bag; an arc that no subgraph holds stays, with the factor 0."""

    def __init__(self, bag: PaddedBag) -> None:
        super().__init__(bag.graphs, bag.selection, bag.literal)
        self._fields, self._covered = cast(Fields, bag.fields), bag.covered

    def between_nodes(self, adjacency: str) -> Arcs:
        if adjacency not in ADJACENCIES:
            return super().between_nodes(adjacency)
        if adjacency not in self._nodes:
            every = adjacency == "original" or (adjacency == "max" and self._covered)
            held = None if every else self._fields["held"]
            held = (held > 0).float() if held is not None and adjacency == "max" else held
            self._nodes[adjacency] = LaidArcs(self._fields, "graph", self._graphs.node_graph.numel(), held)
        return self._nodes[adjacency]

    def between_rows(self, adjacency: str) -> Arcs:  # noqa: ARG002
        raise _unpadded("bag_pool='others'")
