"""The paper's hard pairs, by name: graphs that 1-WL, or a stronger test, cannot tell apart."""

from collections.abc import Callable
from typing import NamedTuple

from torch_geometric.data import Data

from esan.graphs.generators import csl, cycle, disjoint_union, path, rook, shrikhande, star


class Pair(NamedTuple):
    """Two graphs that are not isomorphic.

    Attributes:
        first: one graph.
        second: the other.
    """

    first: Data
    second: Data


HARD_PAIRS: dict[str, Callable[[], Pair]] = {
    # Figure 1 and Lemma on ED: 1-WL cannot, ED can.
    "c6-2xc3": lambda: Pair(cycle(6), disjoint_union(cycle(3), cycle(3))),
    # Prop. 3: with single edges DS cannot, DSS can.
    "p4-k13": lambda: Pair(path(4), star(3)),
    # The figure of the CSL lemma.
    "csl8-2-3": lambda: Pair(csl(8, 2), csl(8, 3)),
    # Prop. 6: ego-networks of depth 2 can, those of depth 1 and 3 cannot.
    "csl12-3-5": lambda: Pair(csl(12, 3), csl(12, 5)),
    # Two of the ten classes of the CSL benchmark: ego-networks need depth 4.
    "csl41-9-12": lambda: Pair(csl(41, 9), csl(41, 12)),
    # Strongly regular, (16, 6, 2, 2): 2-FWL cannot, ED can.
    "rook-shrikhande": lambda: Pair(rook(), shrikhande()),
}


def hard_pair(name: str) -> Pair:
    """The pair called `name`; `HARD_PAIRS` lists them."""
    if name not in HARD_PAIRS:
        raise ValueError(f"Expected the name of a hard pair (got {name!r}). Known: {', '.join(HARD_PAIRS)}.")
    return HARD_PAIRS[name]()
