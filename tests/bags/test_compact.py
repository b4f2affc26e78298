"""The rows of a compact bag, however they are found."""

from typing import Any

import pytest

import esan
import strategies
from esan.bags.build import compact
from esan.bags.build.chunks import concatenate_rows
from esan.bags.rows import Rows
from esan.graphs import read
from esan.ops import reference

GRAPHS = [*strategies.odd_graphs(), strategies.from_edges(9, [(i, i + 1) for i in range(8)], 11)]


@pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=list(strategies.POLICIES))
@pytest.mark.parametrize("parts", [3, 5])
def test_some_graphs_at_a_time(policy: esan.Policy, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are those of all graphs at once, to the bit."""
    graphs = read(GRAPHS)
    selection = policy.select(graphs)
    with reference():
        whole = compact.compact_rows(graphs, selection, 3)
    joined = []

    def join(found: list[Rows], *collection: Any) -> Rows:
        joined.append(len(found))
        return concatenate_rows(found, *collection)

    monkeypatch.setattr(compact, "CHUNK_PAIRS", selection.num_pairs(graphs) // (parts - 1))
    monkeypatch.setattr(compact, "concatenate_rows", join)
    with reference():
        assert compact.compact_rows(graphs, selection, 3).fingerprint == whole.fingerprint
    assert joined
    assert joined[0] > 1
