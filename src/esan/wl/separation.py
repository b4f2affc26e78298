"""`separates`: a test of two graphs, and a verdict that says when they part or why that proves nothing."""

from dataclasses import dataclass

from esan.graphs import Graphs
from esan.graphs.readers.anything import GraphLike
from esan.policies import Policy, Selection
from esan.wl.inputs import collection, labels_of
from esan.wl.kinds import policy_for, test_named
from esan.wl.palette import Palette
from esan.wl.partition import rounds


@dataclass(frozen=True)
class Verdict:
    """What a test says of two graphs; true if it separates them.

    Attributes:
        separated: True: they are certainly not isomorphic. False: the test is inconclusive.
        iteration: the round of refinement after which they first differ, 0 for the initial colouring; None if they
            never do. (The tables of the paper count the initial colouring as iteration 1.)
        rounds: how many rounds were run.
        colours: how many colours the two graphs have together, after each round from 0 on.
        test: the name of the test.
        policy: the policy, None for a test of whole graphs.
        explanation: the verdict in words.
    """

    separated: bool
    iteration: int | None
    rounds: int
    colours: tuple[int, ...]
    test: str
    policy: Policy | None
    explanation: str

    def __bool__(self) -> bool:
        return self.separated

    def __str__(self) -> str:
        return self.explanation


def separates(
    first: GraphLike,
    second: GraphLike,
    test: str = "dss",
    policy: Policy | str | None = None,
    *,
    node_labels: bool = True,
    edge_labels: bool = True,
) -> Verdict:
    """Whether a test tells two graphs apart, and after how many rounds.

    True proves that the graphs are not isomorphic. False proves nothing: isomorphic graphs are never separated, but
    graphs that are not may share all colours too, unless a stronger test or another policy parts them.

    Args:
        first: one graph: PyG data, networkx, a name, graph6, a file or a list of edges (see `esan.graphs.graph_of`).
        second: the other.
        test: "1", "ds", "dss", "dss-excluding", "2-fwl" or "ds-2-fwl".
        policy: how subgraphs are selected, an object or a name, for the tests that work on bags.
        node_labels: whether the lines of `x`, integers, are initial colours; False ignores them.
        edge_labels: whether the lines of `edge_attr`, integers, are labels of edges; False ignores them.
    """
    kind = test_named(test)
    chosen = policy_for(kind, policy)
    graphs = collection([first, second])
    selection = chosen.select(graphs)
    called = _called(test, chosen if kind.subgraphs else None)
    shown = chosen if kind.subgraphs else None
    at_once = _different_sizes(graphs, selection)
    if at_once is not None:
        text = f"Separated at once: {at_once}, and {called} counts them."
        return Verdict(True, 0, 0, (), test, shown, text)
    board = kind.board(graphs, selection, labels_of(graphs, Palette(), node_labels, edge_labels))
    colours = []
    for state in rounds(board):
        colours.append(state.colours)
    separated = state.classes.count == 2
    if separated:
        text = (
            f"Separated after round {state.number}: {called} gives the two graphs different colours there, and the "
            "same ones up to the round before."
            if state.number
            else f"Separated at round 0: the initial colours differ already, before {called} refines them."
        )
    else:
        text = (
            f"Inconclusive: the colours of {called} are stable after round {state.number - 1} and both graphs have the "
            "same. That does not prove that they are isomorphic: graphs that are not may share all colours. Try a "
            "stronger test or another policy."
        )
    return Verdict(separated, state.number if separated else None, state.number, tuple(colours), test, shown, text)


def _called(test: str, policy: Policy | None) -> str:
    name = {"1": "1-WL", "2-fwl": "2-FWL"}.get(test, f"{test.upper()}-WL" if "fwl" not in test else test.upper())
    return name if policy is None else f"{name} with {policy!r}"


def _different_sizes(graphs: Graphs, selection: Selection) -> str | None:
    for what, counts in (("nodes", graphs.num_nodes), ("subgraphs in their bags", selection.num_subgraphs)):
        a, b = counts.tolist()
        if a != b:
            return f"the graphs have {a} and {b} {what}"
    return None
