"""`separates`: a test on two graphs; the verdict names the round that separates them, or says why it is undecided."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from esan.graphs import Graphs
from esan.graphs.readers.one_graph import GraphLike
from esan.policies import Policy, Selection
from esan.wl.history import Numbering
from esan.wl.inputs import collection, labels_of
from esan.wl.isomorphism import Relation, relation
from esan.wl.palette import Ints, Palette
from esan.wl.partition import rounds
from esan.wl.registry import policy_for, test_named
from esan.wl.witness import Witness, of_colours, of_sizes

#: Longer texts are not what a graph is called in a sentence.
_LONGEST_NAME = 40


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
        witness: what one graph has and the other has not, as data and in one sentence; None if they do not part.
        relation: what is known besides the test: "identical", "isomorphic", "not isomorphic" or "unknown".
    """

    separated: bool
    iteration: int | None
    rounds: int
    colours: tuple[int, ...]
    test: str
    policy: Policy | None
    explanation: str
    witness: Witness | None = None
    relation: Relation = "unknown"

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
    names: tuple[str, str] | None = None,
) -> Verdict:
    """Whether a test tells two graphs apart, and after how many rounds.

    True proves that the graphs are not isomorphic. False proves nothing: isomorphic graphs are never separated, but
    graphs that are not may share all colours too, unless a stronger test or another policy parts them.

    Args:
        first: one graph: PyG data, networkx, a name, graph6, a file or a list of edges (see `esan.graphs.graph_of`).
        second: the other.
        test: "1", "ds", "dss", "dss-excluding", "2-fwl" or "ds-2-fwl".
        policy: how subgraphs are selected, an object or a name, for the tests that work on bags; None for
            edge deletion.
        node_labels: whether the rows of `x`, integers, are initial colours; False ignores them.
        edge_labels: whether the rows of `edge_attr`, integers, are labels of edges; False ignores them.
        names: what the witness calls the two graphs; None for the text that names them, or G and H.
    """
    kind = test_named(test)
    chosen = policy_for(kind, policy)
    graphs = collection([first, second])
    called_graphs = names_of(first, second) if names is None else names
    selection = chosen.select(graphs)
    called = _called(test, chosen if kind.subgraphs else None)
    shown = chosen if kind.subgraphs else None
    at_once = _different_sizes(graphs, selection)
    if at_once is not None:
        text = (
            f"Separated at once: the graphs have {at_once.a} and {at_once.b} {at_once.what}, and {called} counts them."
        )
        witness = of_sizes(at_once.a, at_once.b, at_once.what, called_graphs)
        return Verdict(True, 0, 0, (), test, shown, text, witness, "not isomorphic")
    labels = labels_of(graphs, Palette(), node_labels, edge_labels)
    refinement = kind.refinement(graphs, selection, labels)
    colours = []
    numbering: Numbering | None = None
    before: Ints | None = None
    for state in rounds(refinement):
        colours.append(state.colours)
        if numbering is None:
            numbering = Numbering(state.cells)
        else:
            before = numbering.numbers
            numbering.follow(state.cells)
    if state.classes.count == 2:
        text = (
            f"Separated after round {state.number}: {called} gives the two graphs different colours there, and the "
            "same ones up to the round before."
            if state.number
            else f"Separated at round 0: the initial colours differ already, before {called} refines them."
        )
        assert numbering is not None
        of_subgraphs = refinement.subgraph_colours(Palette(), state.cells).values
        witness = of_colours(refinement, state.number, before, numbering.numbers, of_subgraphs, called_graphs)
        found = (True, state.number, state.number, tuple(colours), test, shown)
        return Verdict(*found, text, witness, "not isomorphic")
    known = relation(graphs, labels)
    text = _inconclusive(known, called, state.number - 1)
    return Verdict(False, None, state.number, tuple(colours), test, shown, text, None, known)


def names_of(first: GraphLike, second: GraphLike) -> tuple[str, str]:
    """What two graphs are called in a sentence: the texts that name them where those are short and differ."""
    texts = [str(thing) if isinstance(thing, str | Path) else "" for thing in (first, second)]
    if texts[0] == texts[1]:
        return "G", "H"
    a, b = (text if 0 < len(text) <= _LONGEST_NAME else letter for text, letter in zip(texts, "GH", strict=True))
    return a, b


def _inconclusive(known: Relation, called: str, stable: int) -> str:
    same = f"the colours of {called} are stable after round {stable} and both graphs have the same."
    if known == "identical":
        return f"Identical: the two graphs are the same, node by node and edge by edge, so {called} cannot part them."
    if known == "isomorphic":
        return f"Isomorphic: a bijection maps one graph onto the other, so no test separates them; {same}"
    proof = "That does not prove that they are isomorphic: graphs that are not may share all colours"
    these = ", and these two are not isomorphic (no bijection makes them equal)" if known == "not isomorphic" else ""
    return f"Inconclusive: {same} {proof}{these}. Try a stronger test or another policy."


def _called(test: str, policy: Policy | None) -> str:
    name = {"1": "1-WL", "2-fwl": "2-FWL"}.get(test, f"{test.upper()}-WL" if "fwl" not in test else test.upper())
    return name if policy is None else f"{name} with {policy!r}"


class _SizeDifference(NamedTuple):
    a: int
    b: int
    what: str


def _different_sizes(graphs: Graphs, selection: Selection) -> _SizeDifference | None:
    for what, counts in (("nodes", graphs.num_nodes), ("subgraphs in their bags", selection.num_subgraphs)):
        a, b = counts.tolist()
        if a != b:
            return _SizeDifference(a, b, what)
    return None
