"""Known graphs by name besides the paper's: the small graphs and families of networkx, and two molecules' skeletons."""

from collections.abc import Callable
from math import comb

import networkx as nx
import torch
from torch_geometric.data import Data

from esan.checks import shown
from esan.graphs.generators import check_size, undirected


def _converted(graph: nx.Graph) -> Data:
    number = {node: place for place, node in enumerate(graph.nodes)}
    ends = [(number[u], number[v]) for u, v in graph.edges()]
    return undirected(len(number), torch.tensor(ends, dtype=torch.long).reshape(-1, 2))


def _small(name: str) -> Callable[[], Data]:
    """A graph of networkx that has no parameters."""

    def make() -> Data:
        return _converted(getattr(nx, f"{name}_graph")())

    make.__doc__ = f"The {name.replace('_', ' ')} graph of networkx."
    return make


def ladder(n: int) -> Data:
    """Two paths of n nodes, joined rung by rung."""
    check_size(f"ladder({shown(n)})", 2 * n, 3 * n)
    return _converted(nx.ladder_graph(n))


def circular_ladder(n: int) -> Data:
    """Two cycles of n nodes, joined rung by rung: a prism."""
    check_size(f"circular_ladder({shown(n)})", 2 * n, 3 * n)
    return _converted(nx.circular_ladder_graph(_at_least(n, 3, "circular_ladder")))


def moebius_ladder(n: int) -> Data:
    """A ladder of n rungs whose ends are joined with a twist."""
    check_size(f"moebius_ladder({shown(n)})", 2 * n, 3 * n)
    return _converted(nx.circulant_graph(2 * _at_least(n, 2, "moebius_ladder"), [1, n]))


def wheel(n: int) -> Data:
    """A hub joined to a cycle of n - 1 nodes."""
    check_size(f"wheel({shown(n)})", n, 2 * n)
    return _converted(nx.wheel_graph(_at_least(n, 4, "wheel")))


def grid(rows: int, columns: int) -> Data:
    """A rectangular grid."""
    check_size(f"grid({shown(rows)},{shown(columns)})", rows * columns, 2 * rows * columns)
    return _converted(nx.grid_2d_graph(_at_least(rows, 1, "grid"), _at_least(columns, 1, "grid")))


def torus(rows: int, columns: int) -> Data:
    """A rectangular grid whose opposite sides are joined."""
    check_size(f"torus({shown(rows)},{shown(columns)})", rows * columns, 2 * rows * columns)
    sides = _at_least(rows, 3, "torus"), _at_least(columns, 3, "torus")
    return _converted(nx.grid_2d_graph(*sides, periodic=True))


def hypercube(n: int) -> Data:
    """The cube of dimension n."""
    _at_most(n, 20, "hypercube")
    check_size(f"hypercube({n})", 2**n, n * 2 ** max(n - 1, 0))
    return _converted(nx.hypercube_graph(n))


def complete_bipartite(a: int, b: int) -> Data:
    """Every one of a nodes joined to every one of b others."""
    check_size(f"complete_bipartite({shown(a)},{shown(b)})", a + b, a * b)
    return _converted(nx.complete_bipartite_graph(_at_least(a, 1, "complete_bipartite"), b))


def balanced_tree(branches: int, height: int) -> Data:
    """A tree in which each node but the leaves has so many children."""
    _at_most(height, 20, "balanced_tree")
    nodes = sum(branches**level for level in range(height + 1))
    check_size(f"balanced_tree({shown(branches)},{height})", nodes, nodes)
    return _converted(nx.balanced_tree(_at_least(branches, 1, "balanced_tree"), height))


def barbell(n: int, between: int) -> Data:
    """Two complete graphs of n nodes, joined by a path with so many nodes between."""
    check_size(f"barbell({shown(n)},{shown(between)})", 2 * n + between, n * n + between)
    return _converted(nx.barbell_graph(_at_least(n, 2, "barbell"), between))


def lollipop(n: int, tail: int) -> Data:
    """A complete graph of n nodes with a path of `tail` nodes at it."""
    check_size(f"lollipop({shown(n)},{shown(tail)})", n + tail, n * n // 2 + tail)
    return _converted(nx.lollipop_graph(_at_least(n, 2, "lollipop"), tail))


def kneser(n: int, k: int) -> Data:
    """The k-subsets of n things, joined where they have nothing in common; kneser(5,2) is the Petersen graph."""
    _at_most(n, 30, "kneser")
    if not 1 <= k <= n:
        raise ValueError(f"Expected 1 to {n} things in a subset of {n} (got kneser({n},{shown(k)})).")
    check_size(f"kneser({n},{k})", comb(n, k), comb(n, k) * comb(n - k, k) // 2)
    return _converted(nx.kneser_graph(n, k))


def paley(q: int) -> Data:
    """The numbers 0 to q - 1, joined where their difference is a square modulo q; q is a prime 1 modulo 4."""
    if q < 5 or q % 4 != 1 or any(q % d == 0 for d in range(2, min(int(q**0.5) + 1, 10_000))):
        raise ValueError(f"Expected a prime that is 1 modulo 4 (got paley({shown(q)})). Take 5, 13, 17, 29 or 37.")
    check_size(f"paley({shown(q)})", q, q * (q - 1) // 4)
    return _converted(nx.paley_graph(q).to_undirected())


def decalin() -> Data:
    """The carbon skeleton of decalin: two rings of six that share an edge."""
    ring = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]
    return undirected(10, torch.tensor([*ring, (4, 6), (6, 7), (7, 8), (8, 9), (9, 5)]))


def bicyclopentyl() -> Data:
    """The carbon skeleton of bicyclopentyl: two rings of five, joined by an edge."""
    rings = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (5, 6), (6, 7), (7, 8), (8, 9), (9, 5)]
    return undirected(10, torch.tensor([*rings, (4, 5)]))


def _at_least(number: int, least: int, name: str) -> int:
    if number < least:
        raise ValueError(f"Expected a number of at least {least} behind {name} (got {number}).")
    return number


def _at_most(number: int, most: int, name: str) -> None:
    if number > most:
        raise ValueError(f"Expected a number of at most {most} behind {name} (got {shown(number)}).")


#: The graphs of networkx without parameters, by its own names.
SMALL = (
    "bull", "chvatal", "cubical", "desargues", "diamond", "dodecahedral", "florentine_families", "frucht", "heawood",
    "hoffman_singleton", "house", "house_x", "icosahedral", "karate_club", "krackhardt_kite", "moebius_kantor",
    "octahedral", "pappus", "petersen", "sedgewick_maze", "tetrahedral", "truncated_cube", "truncated_tetrahedron",
    "tutte",
)  # fmt: skip

KNOWN: dict[str, Callable[..., Data]] = {
    "ladder": ladder,
    "circular_ladder": circular_ladder,
    "moebius_ladder": moebius_ladder,
    "wheel": wheel,
    "grid": grid,
    "torus": torus,
    "hypercube": hypercube,
    "complete_bipartite": complete_bipartite,
    "balanced_tree": balanced_tree,
    "barbell": barbell,
    "lollipop": lollipop,
    "kneser": kneser,
    "paley": paley,
    "decalin": decalin,
    "bicyclopentyl": bicyclopentyl,
    **{name: _small(name) for name in SMALL},
}
