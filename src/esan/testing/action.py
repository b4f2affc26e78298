"""The symmetry group of a bag: permutations of its nodes and of its subgraphs, and how they act."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from esan.bags import Bag
from esan.graphs import Graphs, permuted, read
from esan.policies import Policy, Selection


def relabelled(data: Data, permutation: Tensor, generator: torch.Generator | None = None) -> Data:
    """An isomorphic copy of `data` whose node v is node `permutation[v]` of `data`, with shuffled edges.

    Args:
        data: the graph.
        permutation: every node number once.
        generator: shuffles the columns of `edge_index`.
    """
    return permuted(data, generator, order=permutation)


@dataclass(frozen=True, eq=False)
class Action:
    r"""An element :math:`(\tau, \sigma)` of :math:`S_m \times S_n`, one for every graph of a bag.

    Attributes:
        graphs: the graphs after σ.
        node: the new number of each node.
        subgraph: the new number of each subgraph.
        edge: the new number of each edge.
        column: the new place of each column of `edge_index`, as the user counts them.
    """

    graphs: Graphs
    node: Tensor
    subgraph: Tensor
    edge: Tensor
    column: Tensor

    def on(self, selection: Selection) -> Selection:
        """The same subgraphs, of the relabelled graphs and in the new order."""
        counts = selection.num_subgraphs
        make = Selection.deleting if selection.keeps_edges else Selection.keeping
        marks = (self.subgraph[selection.mark_subgraph], self.node[selection.mark_node]) if selection.marked else None
        entries = self.subgraph[selection.entry_subgraph], self.edge[selection.entry_edge]
        return make(self.graphs, counts, *entries, marks)


def drawn_action(graphs: Graphs, selection: Selection, generator: torch.Generator | None) -> Action:
    """A random action on the graphs and the subgraphs of a bag."""
    node = _inverse(_shuffled(graphs.num_nodes, generator))
    there, column = _relabelled_graphs(graphs, node, generator)
    subgraph = _inverse(_shuffled(selection.num_subgraphs, generator))
    ends = node[graphs.edges].sort(0).values
    n = graphs.node_graph.numel()
    edge = torch.searchsorted(there.edges[0] * n + there.edges[1], ends[0] * n + ends[1])
    return Action(there, node, subgraph, edge, column)


def _relabelled_graphs(graphs: Graphs, node: Tensor, generator: torch.Generator | None) -> tuple[Graphs, Tensor]:
    """The graphs with node v numbered `node[v]`, and the new place of each of the user's columns."""
    before = to_data_list(graphs)
    order = _inverse(node)
    after = []
    for place, data in enumerate(before):
        first, count = int(graphs.node_start[place]), int(graphs.num_nodes[place])
        after.append(relabelled(data, order[first : first + count] - first, generator))
    there = read(after)
    n = graphs.node_graph.numel()
    key, at = torch.sort(_columns(there)[0] * n + _columns(there)[1])
    source, target = node[_columns(graphs)]
    column = at[torch.searchsorted(key, source * n + target)]
    if graphs.y is not None and graphs.y_level == "edge":
        there = replace(there, y=graphs.y[_inverse(column)], y_level="edge")
    return there, column


def acted(bag: Bag, generator: torch.Generator | None = None) -> Bag:
    """The same bag after a random action: nodes relabelled, subgraphs and edges shuffled, rows built again."""
    return rebuilt(bag, drawn_action(bag.graphs, bag.selection, generator))


def rebuilt(bag: Bag, action: Action) -> Bag:
    """The bag of the relabelled graphs, stored as `bag` is."""
    return Bag.of(
        action.graphs,
        FixedSelection(action.on(bag.selection)),
        bag.num_layers,
        literal=bag.literal_choice,
    )


class FixedSelection(Policy):
    """The policy that gives one selection, whatever the graphs."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection

    @property
    def marked(self) -> bool:  # type: ignore[override]
        return self.selection.marked

    def select(self, graphs: Graphs) -> Selection:  # noqa: ARG002
        return self.selection


def to_data_list(graphs: Graphs) -> list[Data]:
    """Each graph as PyG data, its edges in the user's order."""
    result = []
    for place in range(len(graphs)):
        one = graphs.take(torch.tensor([place], device=graphs.device))
        data = Data(edge_index=_columns(one), num_nodes=int(one.num_nodes))
        if one.x is not None:
            data.x = one.x
        if one.edge_attr is not None:
            data.edge_attr = one.edge_attr[_inverse(one.column)]
        if one.edge_weight is not None:
            data.edge_weight = one.edge_weight[_inverse(one.column)]
        if "edge_label_index" in one.extra:
            data.edge_label_index = one.extra["edge_label_index"]
        if one.y is not None and one.y_level != "edge":
            data.y = one.y
        result.append(data)
    return result


def _columns(graphs: Graphs) -> Tensor:
    """`edge_index` of all graphs in the order in which the user gave its columns."""
    return graphs.edge_index[:, _inverse(graphs.column)]


def _shuffled(counts: Tensor, generator: torch.Generator | None) -> Tensor:
    """0, 1, ..., shuffled within each segment."""
    first = 0
    parts = []
    for count in counts.tolist():
        parts.append(torch.randperm(count, generator=generator) + first)
        first += count
    return torch.cat(parts)


def _inverse(permutation: Tensor) -> Tensor:
    inverse = torch.empty_like(permutation)
    inverse[permutation] = torch.arange(permutation.numel())
    return inverse
