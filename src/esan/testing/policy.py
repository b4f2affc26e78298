"""`assert_policy_invariant`: a policy does not depend on the numbering of nodes or on the other graphs."""

from collections import Counter

import torch

from esan.graphs import Graphs, Source, read
from esan.policies import Policy, Selection
from esan.testing.action import drawn_action

#: The edges of a subgraph, and its marked nodes.
Canonical = tuple[frozenset[tuple[int, int]], frozenset[int]]


def assert_policy_invariant(
    policy: Policy, source: Source, *, trials: int = 3, generator: torch.Generator | None = None
) -> None:
    r""":math:`\pi(\sigma G) = \sigma \pi(G)` as multisets, exactly; the bag of a graph does not depend on others.

    Args:
        policy: must not be random.
        source: the graphs that it is tried on.
        trials: how many σ are drawn.
        generator: draws them.

    Raises:
        AssertionError: names the graph, and subgraphs that only one of the two bags holds.
    """
    if policy.random:
        raise ValueError(
            f"Expected a policy that does not draw at random (got {policy!r}). Check the policy that it samples from."
        )
    graphs = read(source)
    selection = policy.checked(graphs)
    for trial in range(trials):
        action = drawn_action(graphs, selection, generator)
        expected = _bags(action.on(selection), action.graphs)
        _check(
            _bags(policy.checked(action.graphs), action.graphs), expected, policy, f"relabelled nodes (trial {trial})"
        )
    expected = _bags(selection, graphs)
    for place in range(len(graphs)):
        alone = graphs.take(torch.tensor([place]))
        _check(_bags(policy.checked(alone), alone), expected[place : place + 1], policy, "the graph alone", place)


def _bags(selection: Selection, graphs: Graphs) -> list[Counter[Canonical]]:
    """The bag of each graph as a multiset; subgraphs are sets of edges and marks, nodes numbered from 0."""
    listed: list[set[int]] = [set() for _ in range(selection.total)]
    for subgraph, edge in zip(selection.entry_subgraph.tolist(), selection.entry_edge.tolist(), strict=True):
        listed[subgraph].add(edge)
    marks: list[set[int]] = [set() for _ in range(selection.total)]
    for subgraph, node in zip(selection.mark_subgraph.tolist(), selection.mark_node.tolist(), strict=True):
        marks[subgraph].add(node)
    ends = [(int(u), int(v)) for u, v in graphs.edges.t().tolist()]
    bags: list[Counter[Canonical]] = [Counter() for _ in range(len(graphs))]
    for subgraph, graph in enumerate(selection.subgraph_graph.tolist()):
        first, edges = int(graphs.node_start[graph]), int(graphs.edge_start[graph])
        every = set(range(edges, edges + int(graphs.num_edges[graph])))
        there = every - listed[subgraph] if selection.keeps_edges else listed[subgraph]
        edges_there = frozenset((ends[e][0] - first, ends[e][1] - first) for e in there)
        bags[graph][edges_there, frozenset(node - first for node in marks[subgraph])] += 1
    return bags


def _check(
    got: list[Counter[Canonical]], expected: list[Counter[Canonical]], policy: Policy, when: str, first: int = 0
) -> None:
    for place, (mine, theirs) in enumerate(zip(got, expected, strict=True), start=first):
        if mine == theirs:
            continue
        extra, missing = list((mine - theirs).elements()), list((theirs - mine).elements())
        raise AssertionError(
            f"Expected {policy!r} to give the same bag of graph {place} for {when} (got {len(extra)} other subgraphs, "
            f"e.g. {_shown(extra)}, in place of {len(missing)}, e.g. {_shown(missing)}). A policy may read the "
            "structure of its graph, never the numbers of its nodes or other graphs."
        )


def _shown(subgraphs: list[Canonical]) -> str:
    if not subgraphs:
        return "none"
    edges, marks = subgraphs[0]
    return f"edges {sorted(edges)[:8]}" + (f" with marks {sorted(marks)}" if marks else "")
