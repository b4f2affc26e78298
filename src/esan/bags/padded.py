"""`PaddedBag`: a batch of a fixed shape as a bag; the filler graph at its end weighs nothing in norms and losses."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor

from esan.bags.arcs import Arcs
from esan.bags.bag import Bag
from esan.bags.padding import Shape
from esan.bags.rows import Rows
from esan.bags.shared import ADJACENCIES, SharedArcs
from esan.bags.stage import Differences, Lifted, Stage
from esan.bags.sums import Grouping
from esan.graphs import Graphs
from esan.policies import Selection

Fields = dict[str, Tensor]


@dataclass(frozen=True, eq=False, repr=False)
class PaddedBag(Bag):
    """A bag whose tensors have the sizes of a `Shape`, whatever graphs it holds; the last graph is the filler.

    It may be the batch of several networks, one behind the other; then every network has a filler.
    """

    fields: Fields | None = None
    shape: Shape | None = None
    networks: int = 1

    @staticmethod
    def over(fields: Fields, shape: Shape, like: Bag, networks: int = 1) -> "PaddedBag":
        """The bag of these fields, views of memory that the next batch may overwrite."""
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
            graphs, selection, rows, like.num_layers, like.policy, like.strict, None, fields, shape, networks
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
        fields = cast(Fields, self.fields)
        return Grouping(fields["subgraph_graph"], len(self.graphs), ordered=True, count=fields["real_subgraphs"])

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

    def __init__(self, bag: PaddedBag, slot: int) -> None:
        super().__init__(bag.graphs, bag.selection, bag.rows, slot)
        fields, name = cast(Fields, bag.fields), f"stage{slot}"
        self._fields, self._name, self.networks = fields, name, bag.networks
        self.num_rows *= bag.networks
        subgraph = fields[f"{name}.stored_subgraph"]
        given = {
            "node": fields[f"{name}.node"],
            "weight": fields[f"{name}.weight"],
            "norm_weight": fields[f"{name}.weight"],
            "_mean_weight": fields[f"{name}.mean"],
            "by_node": grouping(fields, f"{name}.by_node", fields[f"{name}.node"]),
            "_by_subgraph": grouping(fields, f"{name}.by_subgraph", subgraph),
            "_by_graph": Grouping(fields["node_graph"], len(bag.graphs), ordered=True, count=fields["real_nodes"]),
            "subgraphs_by_graph": bag.by_graph,
        }
        if self._background:
            given |= self._with_background(fields, name, bag)
        self.__dict__.update(given)

    def _with_background(self, fields: Fields, name: str, bag: PaddedBag) -> dict[str, Any]:
        by_graph = Grouping(fields["node_graph"], len(bag.graphs), ordered=True, count=fields["real_nodes"])
        by_graph.__dict__["order"] = fields[f"{name}.background"]
        at = f"{name}.differences"
        # The nodes of the stored pairs are behind those of the background, network by network.
        node = fields[f"{name}.node"].view(bag.networks, -1)[:, self._background :].reshape(-1)
        return {
            "stored_by_node": grouping(fields, f"{name}.stored_by_node", node),
            "background_by_graph": by_graph,
            "differences": Differences(fields[at], fields[f"{at}.sign"], fields[f"{at}.first"], fields[f"{at}.count"]),
            "subgraph_of_stored": fields[f"{name}.subgraph_of_stored"],
            "pooled_into": fields[f"{name}.pooled_into"],
        }

    @property
    def _subgraph(self) -> Tensor:
        return self._fields[f"{self._name}.stored_subgraph"]

    @cached_property
    def marked(self) -> Tensor:
        return self._fields[f"{self._name}.marked"].bool()

    @cached_property
    def arcs(self) -> Arcs:
        fields, name = self._fields, self._name
        edge_index = torch.stack([fields[f"{name}.source"], fields[f"{name}.target"]])
        arcs = Arcs(edge_index, grouping(fields, f"{name}.copies", fields[f"{name}.arc"]), self.num_rows)
        arcs.__dict__.update(
            into=_into(fields, f"{name}.into", edge_index[1], self.num_rows),
            out_of=grouping(fields, f"{name}.out", edge_index[0]),
            out_target=fields[f"{name}.out.target"],
            out_arc=fields[f"{name}.out.arc"],
            copy_ends=(fields[f"{name}.copies.source"], fields[f"{name}.copies.target"]),
        )
        return arcs

    def _lift_from(self, rows: int) -> Lifted:
        networks = self.networks
        earlier, now = rows // networks, self.num_rows // networks
        of_node = self.node.view(networks, now)
        known = torch.zeros_like(self.by_node.first).scatter_add_(
            0, of_node[:, :earlier].reshape(-1), torch.ones_like(self.node[:rows])
        )
        # Filler rows are left out of the counts, as their gradients are nothing.
        count = (cast(Tensor, self.by_node.count) - known).clamp_(min=0)
        nodes = of_node.size(1) if not self._background else self._background
        start = torch.arange(networks, device=of_node.device)[:, None]
        # In the earlier stage each network's rows begin elsewhere: nodes there are its first rows.
        own = torch.arange(earlier, device=of_node.device) + start * earlier
        added = of_node[:, earlier:] + start * (earlier - nodes)
        index = torch.cat([own, added], 1).reshape(-1)
        return Lifted(index, self.by_node.order, self.by_node.first + known, count, networks)


class PaddedShared(SharedArcs):
    """The adjacency of a padded bag; an arc that no subgraph holds stays, with the factor 0."""

    def __init__(self, bag: PaddedBag) -> None:
        super().__init__(bag.graphs, bag.selection, bag.literal)
        self._fields = cast(Fields, bag.fields)

    def between_nodes(self, adjacency: str) -> Arcs:
        if adjacency not in ADJACENCIES:
            return super().between_nodes(adjacency)
        if adjacency not in self._nodes:
            fields, edge_index = self._fields, self._graphs.edge_index
            every = torch.arange(edge_index.size(1), device=edge_index.device)
            one = torch.ones_like(every)
            held = {"original": None, "sum": fields["held"], "max": (fields["held"] > 0).float()}[adjacency]
            nodes = fields["node_graph"].numel()
            arcs = Arcs(edge_index, Grouping.known(every, every.numel(), every, every, one), nodes, held)
            order = fields["graph.out.order"]
            arcs.__dict__.update(
                into=_into(fields, "graph.into", edge_index[1], nodes),
                out_of=grouping(fields, "graph.out", edge_index[0]),
                out_target=fields["graph.out.target"],
                out_arc=order,
                copy_ends=(edge_index[0], edge_index[1]),
            )
            self._nodes[adjacency] = arcs
        return self._nodes[adjacency]

    def between_rows(self, adjacency: str) -> Arcs:
        raise NotImplementedError("Expected a pool over the bag that needs no other rows (got 'others').")


def grouping(fields: Fields, name: str, owner: Tensor) -> Grouping:
    first = fields[f"{name}.first"]
    return Grouping.known(owner, first.numel(), fields[f"{name}.order"], first, fields[f"{name}.count"])


def _into(fields: Fields, name: str, target: Tensor, rows: int) -> Grouping:
    into = Grouping(target, rows, ordered=True, count=fields[f"{name}.count"])
    into.__dict__["first"] = fields[f"{name}.first"]
    return into
