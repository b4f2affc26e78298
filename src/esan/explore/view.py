"""`view`: everything that a page shows of a choice, as plain data for JSON. All colours are those of `esan.wl`."""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from esan.bags import Bag
from esan.explore.choice import TEST_NAMES, Choice
from esan.graphs import Graphs
from esan.graphs.readers.molecule import SMILES, atom_symbols
from esan.policies import Augmented, EgoNets, Policy
from esan.wl import History, Verdict, separates
from esan.wl.drawing.positions import places
from esan.wl.history import copies_of

#: Layers that the growth of a compact bag is followed for, at most.
MOST_LAYERS = 10


def view(choice: Choice) -> dict[str, Any]:
    """The data of a page.

    Args:
        choice: the graphs, the test and the policy.
    """
    policy = choice.policy if choice.kind.subgraphs else None
    history = History(choice.graphs, choice.kind.name, policy)
    return {
        "test": choice.kind.name,
        "testName": TEST_NAMES[choice.kind.name],
        "rule": history.refinement.rule,
        "policy": choice.policy_name,
        "shares": history.refinement.shares,
        "couples": history.refinement.couples,
        "rounds": history.rounds,
        "parted": history.parted if len(choice.graphs) == 2 else None,
        "verdict": _verdict(choice, policy),
        "graphs": [_graph(choice, history, graph) for graph in range(len(choice.graphs))],
        "colours": [
            [numbers[history.refinement.cell_graph == graph].tolist() for graph in range(len(choice.graphs))]
            for numbers in history.numbers
        ],
        "subgraphColours": [
            [colours[history.refinement.subgraph_graph == graph].tolist() for graph in range(len(choice.graphs))]
            for colours in history.subgraph_colours
        ],
        "meanings": [None, *(_meanings(history, t) for t in range(1, history.rounds))],
        "copies": [_copies(history, t) for t in range(history.rounds)],
        "bags": [_bag(choice, graph) for graph in range(len(choice.graphs))] if choice.kind.subgraphs else None,
    }


def _verdict(choice: Choice, policy: Policy | None) -> dict[str, Any] | None:
    if len(choice.graphs) != 2:
        return None
    one, other = (_data(choice.graphs, graph) for graph in (0, 1))
    verdict: Verdict = separates(one, other, choice.kind.name, policy, names=(choice.names[0], choice.names[1]))
    witness = verdict.witness
    return {
        "separated": verdict.separated,
        "relation": verdict.relation,
        "text": verdict.explanation,
        "witness": None
        if witness is None
        else {
            "text": witness.text,
            "round": witness.round,
            "kind": witness.kind,
            "counts": witness.counts,
            "colour": None if witness.colour is None else witness.colour - 1,
            "graph": witness.graph,
            "subgraph": witness.subgraph,
            "nodes": witness.nodes,
        },
    }


def _data(graphs: Graphs, graph: int) -> Data:
    one = graphs.take(torch.tensor([graph]))
    return Data(x=one.x, edge_index=one.edge_index, edge_attr=one.edge_attr, num_nodes=int(one.num_nodes))


def _graph(choice: Choice, history: History, graph: int) -> dict[str, Any]:
    graphs, selection, thing = choice.graphs, history.refinement.selection, choice.things[graph]
    start, first = int(graphs.node_start[graph]), int(graphs.edge_start[graph])
    mine = graphs.edge_graph == graph
    edges = (graphs.edges[:, mine] - start).t().tolist()
    attr = graphs.edge_attr
    kinds = None if attr is None else attr[graphs.directed_edges[0][mine]].reshape(len(edges), -1).tolist()
    spec = choice.specs[graph]
    symbols = atom_symbols(spec) if spec.startswith(SMILES) else None
    if symbols is None and graphs.x is not None:
        symbols = [" ".join(f"{value:g}" for value in row) for row in _rows(graphs.x[graphs.node_graph == graph])]
    entry, mark = selection.entry_subgraph, selection.mark_subgraph
    lo = int(selection.subgraph_start[graph])
    subgraphs = []
    for number in range(int(selection.num_subgraphs[graph])):
        listed = (selection.entry_edge[entry == lo + number] - first).tolist()
        marks = (selection.mark_node[mark == lo + number] - start).tolist()
        root = _root(choice.policy, number, int(graphs.num_nodes[graph]))
        title = _title(edges, listed, marks, root, selection.keeps_edges)
        short = title.replace("edge ", "").replace("node ", "").replace("the graph itself", "whole graph")
        short = short.removesuffix(", marked") if root is not None else short
        subgraphs.append({"title": title, "short": short, "listed": listed, "marks": marks, "root": root})
    return {
        "name": choice.names[graph],
        "spec": spec,
        "n": int(graphs.num_nodes[graph]),
        "edges": edges,
        "kinds": kinds,
        "symbols": symbols,
        "places": places(graphs, graph, thing),
        "keeps": selection.keeps_edges,
        "subgraphs": subgraphs,
    }


def _rows(x: torch.Tensor) -> list[list[float]]:
    return x.reshape(len(x), -1).tolist()


def _root(policy: Policy, number: int, n: int) -> int | None:
    if isinstance(policy, Augmented):
        policy = policy.policy
    return number if isinstance(policy, EgoNets) and number < n else None


def _title(edges: list[list[int]], listed: list[int], marks: list[int], root: int | None, keeps: bool) -> str:
    """What a subgraph is, in a few words."""
    marked = f", node {marks[0]} marked" if marks else ""
    if root is not None:
        return f"around node {root}" + (", marked" if marks else "")
    if keeps and not listed:
        return f"node {marks[0]} marked" if marks else "the graph itself"
    if not keeps and len(listed) == len(edges):
        return "the graph itself" + marked
    ends = [edges[edge] for edge in listed]
    if len(listed) == 1:
        u, v = ends[0]
        return (f"without edge {u}–{v}" if keeps else f"edge {u}–{v} alone") + marked
    if keeps:
        common = set(ends[0]).intersection(*ends[1:])
        at = [v for v in common if sum(v in edge for edge in edges) == len(listed)]
        return (f"without node {at[0]}" if at else f"without {len(listed)} edges") + marked
    return f"{len(listed)} of {len(edges)} edges" + marked


def _meanings(history: History, t: int) -> dict[str, Any]:
    found = history.meanings(t)
    return {
        "was": found.was.tolist(),
        "ptr": found.ptr.tolist(),
        "saw": found.saw.tolist(),
        "label": None if found.label is None else found.label.tolist(),
        "copies": None if found.copies is None else found.copies.tolist(),
    }


def _copies(history: History, t: int) -> dict[str, Any] | None:
    found = copies_of(history.refinement, history.numbers[t])
    if found is None:
        return None
    starts = [*history.graphs.node_start.tolist(), found.of_node.size]
    return {
        "ofNode": [found.of_node[a:b].tolist() for a, b in pairwise(starts)],
        "ptr": found.ptr.tolist(),
        "number": found.number.tolist(),
        "times": found.times.tolist(),
    }


def _bag(choice: Choice, graph: int) -> dict[str, Any]:
    """How the compact bag of a graph grows layer by layer, beside the literal one."""
    one = _data(choice.graphs, graph)
    literal = Bag.of(one, choice.policy, literal=True)
    compact = [Bag.of(one, choice.policy, num_layers=layers) for layers in range(1, MOST_LAYERS + 1)]
    # Behind the layer after which nothing grows all are alike.
    rows = [bag.num_rows for bag in compact]
    last = rows.index(rows[-1]) + 1
    compact = compact[:last]
    n, m = int(choice.graphs.num_nodes[graph]), literal.num_subgraphs
    level = np.full((m, n), -1)
    stored = compact[-1].rows
    # Block 0 holds the background; block l + 1 the pairs that first differ from it at layer l.
    in_block = stored.num_rows.sum(1)[1:]
    levels = torch.arange(in_block.numel()).repeat_interleave(in_block)
    level[stored.subgraph.numpy(), stored.node.numpy()] = levels.numpy()
    return {
        "level": level.reshape(-1).tolist(),
        "rows": [n + int((levels == 0).sum()), *(bag.num_rows for bag in compact)],
        "bytes": [None, *(bag.nbytes for bag in compact)],
        "literalRows": literal.num_rows,
        "literalBytes": literal.nbytes,
    }
