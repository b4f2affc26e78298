"""`PaddedBag`: a batch of a fixed shape as a bag; the filler graph at its end weighs nothing in norms and losses."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import torch
from torch import Tensor

from esan.bags.arcs import Arcs
from esan.bags.bag import Bag
from esan.bags.gathered import Differences, Lifted
from esan.bags.laid import Fields, LaidArcs, LaidGrouping
from esan.bags.padded_layout.shapes import Shape
from esan.bags.rows import Rows
from esan.bags.shared import ADJACENCIES, SharedArcs
from esan.bags.stage import Stage
from esan.bags.sums import Grouping
from esan.graphs import Graphs
from esan.ops.real import Real
from esan.policies import Selection


@dataclass(frozen=True, eq=False, repr=False)
class PaddedBag(Bag):
    """A bag whose tensors have the sizes of a `Shape`, whatever graphs it holds; the last graph is the filler.

    It may be the batch of several networks, one behind the other; then every network has a filler.
    """

    fields: Fields | None = None
    shape: Shape | None = None
    networks: int = 1
    side: "torch.cuda.Stream | None" = None
    #: Of what each network draws in this step, `[S]`; None if nothing is drawn.
    seeds: Tensor | None = None
    #: Whether filler rows are neither written nor read: all that is done with rows is done by kernels which know them.
    real_only: bool = False

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

    @property
    def graph_weight(self) -> Tensor:
        """1 for each graph of the batch, 0 for the filler, and for the graphs that a last batch lacks."""
        return cast(Fields, self.fields)["graph_weight"]

    @property
    def node_weight(self) -> Tensor | None:
        return cast(Fields, self.fields)["node_weight"]

    @cached_property
    def by_graph(self) -> Grouping:
        return LaidGrouping(cast(Fields, self.fields), "subgraphs", "subgraph_graph", ordered=True)

    def without_filler(self) -> Bag:
        return replace(self, real_only=True)

    def stage(self, t: int) -> Stage:
        slot = self.rows.slot_of_layer(t)
        if slot not in self._stages:
            self._stages[slot] = PaddedStage(self, slot)
        return self._stages[slot]

    @cached_property
    def shared(self) -> SharedArcs:
        return PaddedShared(self)


def _ends(room: tuple[int, ...]) -> list[int]:
    return torch.tensor(room).cumsum(0).tolist()


class PaddedStage(Stage):
    """A stage whose orders were all found when the batch was laid out."""

    plain = False

    def __init__(self, bag: PaddedBag, slot: int) -> None:
        super().__init__(bag.graphs, bag.selection, bag.rows, slot)
        self._fields, self._name, self.networks = cast(Fields, bag.fields), f"stage{slot}", bag.networks
        self._bag, self._room = bag, tuple(room for room in cast(Shape, bag.shape).rows[: slot + 1] if room)
        self.num_rows *= bag.networks

    def _field(self, name: str) -> Tensor:
        return self._fields[f"{self._name}.{name}"]

    def _laid(self, name: str, owner: str, real: Real | None = None) -> Grouping:
        return LaidGrouping(self._fields, f"{self._name}.{name}", f"{self._name}.{owner}", real=real)

    @cached_property
    def real(self) -> Real | None:  # type: ignore[override]
        return Real(self._field("real"), self._room) if self._bag.real_only else None

    @cached_property
    def node(self) -> Tensor:
        return self._field("node")

    @cached_property
    def weight(self) -> Tensor:
        return self._field("weight")

    @property
    def norm_weight(self) -> Tensor:
        return self.weight

    @cached_property
    def marked(self) -> Tensor:
        return self._field("marked").bool()

    @cached_property
    def _mean_weight(self) -> Tensor:
        return self._field("mean")

    @property
    def _subgraph(self) -> Tensor:
        return self._field("stored_subgraph")

    @cached_property
    def by_node(self) -> Grouping:
        return self._laid("by_node", "node", self.real)

    @cached_property
    def _by_subgraph(self) -> Grouping:
        # Where there is no background, the stored pairs are the rows.
        return self._laid("by_subgraph", "stored_subgraph", None if self._background else self.real)

    @cached_property
    def _by_graph(self) -> Grouping:
        return LaidGrouping(self._fields, "nodes", "node_graph", ordered=True)

    @property
    def subgraphs_by_graph(self) -> Grouping:
        return self._bag.by_graph

    @cached_property
    def stored_by_node(self) -> Grouping:
        grouping = self._laid("stored_by_node", "node")
        # The nodes of the stored pairs are behind those of the background, network by network.
        node = self.node.view(self.networks, -1)[:, self._background :].reshape(-1)
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

    @cached_property
    def arcs(self) -> Arcs:
        return LaidArcs(self._fields, self._name, self.num_rows, real=self.real)

    def _lifted_plainly(self, h: Tensor) -> Tensor:
        earlier, of_node = h.size(0) // self.networks, self.node.view(self.networks, -1)
        network = torch.arange(self.networks, device=h.device)[:, None]
        own = torch.arange(earlier, device=h.device) + network * earlier
        # In the earlier stage each network's rows begin elsewhere: nodes there are its first rows.
        added = of_node[:, earlier:] + network * (earlier - self._background)
        return h.index_select(0, torch.cat([own, added], 1).reshape(-1))

    def _background_first(self, h: Tensor) -> Tensor:
        split = h.view(self.networks, -1, h.size(1))
        parts = split[:, : self._background], split[:, self._background :]
        return torch.cat([part.reshape(-1, h.size(1)) for part in parts])

    def _lift_from(self, rows: int) -> Lifted:
        return Lifted(self.by_node, rows // self.networks, self._background, self.networks)


class PaddedShared(SharedArcs):
    """The adjacency of a padded bag; an arc that no subgraph holds stays, with the factor 0."""

    def __init__(self, bag: PaddedBag) -> None:
        super().__init__(bag.graphs, bag.selection, bag.literal)
        self._fields = cast(Fields, bag.fields)

    def between_nodes(self, adjacency: str) -> Arcs:
        if adjacency not in ADJACENCIES:
            return super().between_nodes(adjacency)
        if adjacency not in self._nodes:
            held = None if adjacency == "original" else self._fields["held"]
            held = (held > 0).float() if held is not None and adjacency == "max" else held
            self._nodes[adjacency] = LaidArcs(self._fields, "graph", self._graphs.node_graph.numel(), held)
        return self._nodes[adjacency]

    def between_rows(self, adjacency: str) -> Arcs:
        raise NotImplementedError("Expected a pool over the bag that needs no other rows (got 'others').")
