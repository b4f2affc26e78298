"""`Selection`: how each subgraph differs from its graph, or from the nodes alone: by edges and marked nodes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.graphs import Graphs
from esan.ops import ragged
from esan.ops.caching import cached
from esan.plural import counted
from esan.tensor_dataclass import TensorDataclass

#: The number of entries that are checked at a time.
CHUNK_ENTRIES = 2**18


@dataclass(frozen=True, eq=False, repr=False)
class Selection(TensorDataclass):
    r"""The bags :math:`S_G = \{\!\{G_1, \dots, G_m\}\!\}` of a collection of graphs, as differences from a background.

    All subgraphs keep the nodes of their graph, in its order; they differ in edges and marks. The *background* of
    every subgraph is either the graph itself (policies that delete a little) or the graph without edges (policies
    that keep a little). An *entry* (subgraph, edge) says that this edge differs from the background in that subgraph.
    So the size is the number of differences, not subgraphs times edges.

    Make one with `Selection.deleting` or `Selection.keeping`.

    Attributes:
        num_subgraphs: subgraphs of each graph, `[G]`; subgraphs are numbered through the collection, graph by graph.
        keeps_edges: True if the background is the graph itself, False if it is the graph without edges.
        entry_subgraph: sorted, `[K]`.
        entry_edge: the undirected edge (`Graphs.edges`) that is deleted, or kept, in that subgraph, `[K]`.
        marked: whether nodes carry the two identifying features at all: [1, 0] marked, [0, 1] not.
        mark_subgraph: sorted, `[M]`.
        mark_node: the node that is marked in that subgraph, `[M]`.
    """

    num_subgraphs: Tensor
    keeps_edges: bool
    entry_subgraph: Tensor
    entry_edge: Tensor
    marked: bool
    mark_subgraph: Tensor
    mark_node: Tensor

    @staticmethod
    def deleting(
        graphs: Graphs,
        num_subgraphs: Tensor,
        subgraph: Tensor,
        edge: Tensor,
        marks: tuple[Tensor, Tensor] | None = None,
    ) -> "Selection":
        """Each subgraph is its graph without the edges listed for it.

        Args:
            graphs: what is selected from.
            num_subgraphs: how many subgraphs each graph gets, `[G]`.
            subgraph: with `edge`, the list of deletions; in any order, repetitions are harmless. Lists that are sorted
                become part of the selection as they are: do not change them afterwards.
            edge: numbers of undirected edges (columns of `graphs.edges`).
            marks: the (subgraph, node) lists of identifying marks; None if the policy does not mark.
        """
        return _checked(graphs, num_subgraphs, True, (subgraph, edge), marks)

    @staticmethod
    def keeping(
        graphs: Graphs,
        num_subgraphs: Tensor,
        subgraph: Tensor,
        edge: Tensor,
        marks: tuple[Tensor, Tensor] | None = None,
    ) -> "Selection":
        """Each subgraph has the edges listed for it and no others; arguments as in `deleting`."""
        return _checked(graphs, num_subgraphs, False, (subgraph, edge), marks)

    @property
    def total(self) -> int:
        """Subgraphs of all graphs together."""
        return self.subgraph_graph.numel()

    @cached
    def subgraph_start(self) -> Tensor:
        return ragged.starts(self.num_subgraphs)

    @cached
    def subgraph_graph(self) -> Tensor:
        """The graph of each subgraph."""
        return ragged.segment_index(self.num_subgraphs)

    @cached
    def _entries(self) -> ragged.Segments:
        """Where the entries of each graph are."""
        return self._by_graph(self.entry_subgraph)

    @cached
    def _marks(self) -> ragged.Segments:
        """Where the marks of each graph are."""
        return self._by_graph(self.mark_subgraph)

    def _by_graph(self, subgraph: Tensor) -> ragged.Segments:
        counts = torch.bincount(self.subgraph_graph[subgraph], minlength=self.num_subgraphs.numel())
        return ragged.Segments(ragged.starts(counts), counts)

    def subgraphs_per_edge(self, graphs: Graphs) -> Tensor:
        """The number of subgraphs that have each undirected edge, `[E]`: the summed adjacency matrices."""
        listed = torch.bincount(self.entry_edge, minlength=graphs.edges.size(1))
        return self.num_subgraphs[graphs.edge_graph] - listed if self.keeps_edges else listed

    def num_pairs(self, graphs: Graphs) -> int:
        """The number of (node, subgraph) pairs."""
        return int((graphs.num_nodes * self.num_subgraphs).sum())

    def take(self, ids: Tensor, graphs: Graphs) -> "Selection":
        """The selections of the graphs `ids` of `graphs`, in that order, renumbered."""
        subgraphs = self.num_subgraphs[ids]
        by_subgraph = ragged.starts(subgraphs) - self.subgraph_start[ids]
        by_edge = ragged.starts(graphs.num_edges[ids]) - graphs.edge_start[ids]
        by_node = ragged.starts(graphs.num_nodes[ids]) - graphs.node_start[ids]
        entries, marks = self._entries.take(ids), self._marks.take(ids)
        return Selection(
            num_subgraphs=subgraphs,
            keeps_edges=self.keeps_edges,
            entry_subgraph=entries.pick(self.entry_subgraph, by_subgraph),
            entry_edge=entries.pick(self.entry_edge, by_edge),
            marked=self.marked,
            mark_subgraph=marks.pick(self.mark_subgraph, by_subgraph),
            mark_node=marks.pick(self.mark_node, by_node),
        )

    def only(self, mask: Tensor) -> "Selection":
        """The subgraphs where `mask` (one truth value per subgraph) is true, renumbered; at least one of each graph."""
        left = count_subgraphs(self.subgraph_graph[mask], self.num_subgraphs.numel())
        number = mask.cumsum(0) - 1
        entry, mark = mask[self.entry_subgraph], mask[self.mark_subgraph]
        return Selection(
            num_subgraphs=left,
            keeps_edges=self.keeps_edges,
            entry_subgraph=number[self.entry_subgraph[entry]],
            entry_edge=self.entry_edge[entry],
            marked=self.marked,
            mark_subgraph=number[self.mark_subgraph[mark]],
            mark_node=self.mark_node[mark],
        )


def count_subgraphs(graph: Tensor, graphs: int) -> Tensor:
    """The number of subgraphs of each graph, from the graph of each subgraph; an error if a graph has none."""
    left = torch.bincount(graph, minlength=graphs)
    if bool((left == 0).any()):
        raise ValueError(
            f"Expected at least one subgraph of each graph (got none of graph {int((left == 0).nonzero()[0])}). "
            "Keep one of each."
        )
    return left


def _checked(
    graphs: Graphs,
    num_subgraphs: Tensor,
    keeps_edges: bool,
    entries: tuple[Tensor, Tensor],
    marks: tuple[Tensor, Tensor] | None,
) -> Selection:
    if marks is not None and not (isinstance(marks, tuple) and len(marks) == 2):
        raise TypeError(f"Expected marks as two tensors, (subgraph, node) (got {type(marks).__name__}). Pass a pair.")
    if not isinstance(num_subgraphs, Tensor):
        raise TypeError(
            f"Expected num_subgraphs as a tensor, one number per graph (got {num_subgraphs!r}). "
            "Pass e.g. graphs.num_nodes, or torch.full_like(graphs.num_nodes, 3)."
        )
    if num_subgraphs.shape != graphs.num_nodes.shape or bool((num_subgraphs < 1).any()):
        got = sorted(set(num_subgraphs.tolist()))[:5]
        raise ValueError(
            f"Expected one subgraph at least for each of the {len(graphs)} graphs (got {num_subgraphs.numel()} counts, "
            f"among them {got}). Let the policy give the graph itself where it finds nothing."
        )
    for name, numbers in (("num_subgraphs", num_subgraphs), ("entries", entries[0]), ("edges", entries[1])):
        _check_whole(numbers, name)
    for numbers in marks or ():
        _check_whole(numbers, "marks")
    nothing = num_subgraphs.new_empty(0)
    owner = ragged.segment_index(num_subgraphs)
    entry_subgraph, entry_edge = _listed(owner, graphs.edge_graph, *entries, "edge")
    mark_subgraph, mark_node = nothing, nothing
    if marks is not None:
        mark_subgraph, mark_node = _listed(owner, graphs.node_graph, *marks, "node")
    return Selection(
        num_subgraphs, keeps_edges, entry_subgraph, entry_edge, marks is not None, mark_subgraph, mark_node
    )


def _check_whole(numbers: Any, name: str) -> None:
    if not isinstance(numbers, Tensor) or numbers.dtype != torch.int64:
        got = numbers.dtype if isinstance(numbers, Tensor) else type(numbers).__name__
        raise TypeError(f"Expected {name} as a tensor of 64-bit integers (got {got}). Call .long() on it.")


def _listed(owner: Tensor, of_item: Tensor, subgraph: Tensor, item: Tensor, what: str) -> tuple[Tensor, Tensor]:
    """The entries of a policy, sorted and unique; `owner` and `of_item` are the graphs of all subgraphs and items."""
    if subgraph.shape != item.shape or subgraph.dim() != 1:
        raise ValueError(
            f"Expected two lists of one length (got shapes {tuple(subgraph.shape)} and {tuple(item.shape)}). "
            "List (subgraph, edge) and (subgraph, node) as two flat tensors."
        )
    # Before sorting: the keys of numbers out of range would decode to others.
    _check_range(subgraph, owner.numel(), "subgraph", what)
    _check_range(item, of_item.numel(), what, what)
    width = max(of_item.numel(), 1)
    # Most policies list their entries in order; checking is far cheaper than sorting, and needs no memory.
    if rises(subgraph, item, width):
        subgraph, item = subgraph.contiguous(), item.contiguous()
    else:
        key = torch.unique(subgraph * width + item)
        subgraph, item = key // width, key % width
    for part in entry_chunks(subgraph.numel()):
        mine, its = owner[subgraph[part]], of_item[item[part]]
        if not torch.equal(mine, its):
            at = int((mine != its).nonzero()[0])
            s, i = int(subgraph[part][at]), int(item[part][at])
            got = f"{what} {i} of graph {int(its[at])} in subgraph {s} of graph {int(mine[at])}"
            raise _not_its_own(what, got)
    return subgraph, item


def entry_chunks(count: int) -> Iterator[slice]:
    """The entries of a selection, some at a time: to check all at once would take several times their memory."""
    return (slice(begin, min(begin + CHUNK_ENTRIES, count)) for begin in range(0, count, CHUNK_ENTRIES))


def rises(subgraph: Tensor, item: Tensor, width: int) -> bool:
    """Whether entries are sorted by subgraph, then item, each once; `width` is above every item."""
    for part in entry_chunks(subgraph.numel()):
        # One entry more: the last of a chunk is compared with the first of the next.
        wider = slice(part.start, part.stop + 1)
        key = subgraph[wider] * width + item[wider]
        if not bool((key[1:] > key[:-1]).all()):
            return False
    return True


def _check_range(numbers: Tensor, count: int, name: str, what: str) -> None:
    for part in entry_chunks(numbers.numel()):
        some = numbers[part]
        outside = (some < 0) | (some >= count)
        if bool(outside.any()):
            raise _not_its_own(what, f"{name} {int(some[outside][0])} of {counted(count, name)}")


def _not_its_own(what: str, got: str) -> ValueError:
    return ValueError(
        f"Expected each subgraph to list {what}s of its own graph (got {got}). "
        "Number subgraphs, nodes and edges from 0 through the whole collection, as `Graphs` does."
    )
