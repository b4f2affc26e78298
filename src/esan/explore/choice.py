"""`Choice`: which graphs, test and policy a page shows, checked field by field."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import comb
from pathlib import Path
from typing import Any, TypeVar

import networkx as nx
from torch_geometric.data import Data

from esan.checks import shown
from esan.graphs import Graphs, graph_of, read
from esan.graphs.readers.one_graph import GraphLike, graph_from_text
from esan.policies import Augmented, NodeDeletion, Policy, as_policy, short_name
from esan.wl import TESTS
from esan.wl.registry import Test, policy_for, test_named

T = TypeVar("T")

#: The largest graph of a page: more nodes cannot be told apart on a screen.
MOST_NODES = 200
#: The most cells, (node, subgraph) pairs of both graphs, or (couple, subgraph) for tests of couples.
MOST_CELLS = 60_000
#: The most triples that a round of 2-FWL lists.
MOST_TRIPLES = 6_000_000
#: The longest text that names a graph; a graph6 line of 200 nodes has 3,321 characters.
MOST_TEXT = 20_000
#: A name in a title is cut here.
_LONGEST_NAME = 40


class FieldError(ValueError):
    """What is wrong with one field of a page.

    Args:
        field: "g", "h", "test", "policy" or "view" for what concerns all of it.
        message: the library's own error.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, eq=False)
class Choice:
    """What a page shows: one or two graphs, a test, and a policy for tests on bags.

    Attributes:
        graphs: the graphs as one collection.
        things: what each was made from.
        specs: the text that stands in each field; its name for a graph that has none.
        names: what each is called.
        kind: the test.
        policy: the policy; the bag {G} for tests of whole graphs.
    """

    graphs: Graphs
    things: tuple[GraphLike, ...]
    specs: tuple[str, ...]
    names: tuple[str, ...]
    kind: Test
    policy: Policy

    @staticmethod
    def of(
        things: Sequence[GraphLike],
        test: str = "dss",
        policy: Policy | str | None = None,
        *,
        names: Sequence[str] | None = None,
        reader: Callable[[GraphLike], Data | nx.Graph] = graph_of,
    ) -> "Choice":
        """The choice, checked; what is wrong is a `FieldError` with the field that it belongs to.

        Args:
            things: one or two graphs, as `esan.graphs.graph_of` reads them.
            test: the name of a test.
            policy: the policy or its name; None for tests of whole graphs.
            names: what the graphs are called; None for the texts that name them.
            reader: what turns a thing into a graph; the server's own looks at no file but its own.
        """
        if not 1 <= len(things) <= 2:
            raise FieldError("view", f"Expected one or two graphs (got {len(things)}). Choose a graph.")
        kind = _in_field("test", lambda: test_named(test))
        chosen = _in_field("policy", lambda: policy_for(kind, policy))
        found = [_in_field(name, partial(_read, thing, reader)) for name, thing in zip("gh", things, strict=False)]
        graphs = _in_field("h" if len(things) > 1 else "g", lambda: read(found))
        _in_field("policy", lambda: _check_cells(graphs, kind, chosen))
        texts = tuple(str(thing) if isinstance(thing, str | Path) else "" for thing in things)
        called = tuple(names or _names(texts))
        specs = tuple(text or name for text, name in zip(texts, called, strict=True))
        return Choice(graphs, tuple(things), specs, called, kind, chosen)

    @property
    def policy_name(self) -> str | None:
        """The paper's name of the policy; None for tests of whole graphs."""
        return short_name(self.policy) if self.kind.subgraphs else None


class Reader:
    """Reads what a page names: words, graph6, SMILES, edges, and the files that it was started with; no other path.

    Args:
        files: the paths that may be read, each under the text that it was given as.
    """

    def __init__(self, files: Sequence[str] = ()) -> None:
        self._files: Mapping[str, str] = {text: text for text in files}

    def __call__(self, thing: GraphLike) -> Data | nx.Graph:
        if not isinstance(thing, str):
            raise TypeError(f"Expected text that names a graph (got {shown(thing)}).")
        file, _, line = thing.rpartition(":")
        if thing in self._files or (file in self._files and line.isdecimal()):
            return graph_of(thing)
        return graph_from_text(thing)


def _read(thing: GraphLike, reader: Callable[[GraphLike], Data | nx.Graph]) -> Data | nx.Graph:
    if isinstance(thing, str) and len(thing) > MOST_TEXT:
        raise ValueError(f"Expected a text of at most {MOST_TEXT:,} characters (got {len(thing):,}).")
    if isinstance(thing, str) and not thing.strip():
        raise ValueError("Expected a graph (got an empty text). Write e.g. cycle(6), rook or a line of graph6.")
    found = reader(thing)
    n = len(found) if isinstance(found, nx.Graph) else int(found.num_nodes or 0)
    if n > MOST_NODES:
        raise ValueError(f"Expected at most {MOST_NODES} nodes in the explorer (got {n:,}). Take a smaller graph.")
    if n < 1:
        raise ValueError("Expected a graph of at least one node (got none). Add a node.")
    return found


def _check_cells(graphs: Graphs, kind: Test, policy: Policy) -> None:
    n, edges = graphs.num_nodes.tolist(), graphs.num_edges.tolist()
    subgraphs = [_most_subgraphs(policy, *one) for one in zip(n, edges, strict=True)]
    sizes = zip(n, subgraphs, strict=True)
    cells = sum(m * v ** (2 if kind.couples else 1) for v, m in sizes)
    remedy = 'Take smaller graphs, or a policy with fewer subgraphs, e.g. "ND" or "EGO(2)".'
    if cells > MOST_CELLS:
        what = "(couple, subgraph)" if kind.couples else "(node, subgraph)"
        raise ValueError(f"Expected at most {MOST_CELLS:,} {what} pairs in the explorer (got {cells:,}). {remedy}")
    triples = sum(m * v**3 for v, m in zip(n, subgraphs, strict=True)) if kind.couples else 0
    if triples > MOST_TRIPLES:
        raise ValueError(f"Expected at most {MOST_TRIPLES:,} triples for a test of couples (got {triples:,}). {remedy}")
    policy.select(graphs)  # what the policy itself refuses


def _most_subgraphs(policy: Policy, n: int, edges: int) -> int:
    """How many subgraphs a graph gets, before any is selected; for a policy of the user's own, one per node."""
    if isinstance(policy, Augmented):
        return _most_subgraphs(policy.policy, n, edges) + 1
    if isinstance(policy, NodeDeletion):
        return max(comb(n, policy.k), 1)
    if policy == as_policy("identity"):
        return 1
    return max(edges, 1) if policy in (as_policy("ED"), as_policy("SE")) else n


def _names(specs: tuple[str, ...]) -> list[str]:
    if len(specs) == 2 and specs[0] == specs[1]:
        return ["G", "H"]
    return [spec if 0 < len(spec) <= _LONGEST_NAME else letter for spec, letter in zip(specs, "GH", strict=False)]


def _in_field(name: str, compute: Callable[[], T]) -> T:
    try:
        return compute()
    except FieldError:
        raise
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        raise FieldError(name, " ".join(str(error).split())) from error


#: The tests in the order in which a page offers them, with the names of the paper.
TEST_NAMES = {
    "1": "1-WL",
    "ds": "DS-WL",
    "dss": "DSS-WL",
    "dss-excluding": "DSS-WL, excluding",
    "2-fwl": "2-FWL",
    "ds-2-fwl": "DS with 2-FWL",
}
if TEST_NAMES.keys() != TESTS.keys():
    raise RuntimeError(f"Expected a name for each of the tests {', '.join(TESTS)} (got {', '.join(TEST_NAMES)}).")


def plain_choice(value: Any) -> dict[str, Any]:
    """What a page sends, as arguments of `Choice.of`: {"graphs": [text, ...], "test": text, "policy": text or null}."""
    if not isinstance(value, dict) or not isinstance(value.get("graphs"), list):
        raise FieldError("view", f"Expected an object with graphs, test and policy (got {shown(value)}).")
    unknown = set(value) - {"graphs", "test", "policy"}
    if unknown:
        raise FieldError("view", f"Expected graphs, test and policy (got {shown(sorted(map(str, unknown)))} besides).")
    for name, text in (("test", value.get("test")), ("policy", value.get("policy"))):
        if text is not None and not isinstance(text, str):
            raise FieldError(name, f"Expected text (got {shown(text)}).")
    return {"things": value["graphs"], "test": value.get("test") or "dss", "policy": value.get("policy") or None}
