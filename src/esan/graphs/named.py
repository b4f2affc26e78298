"""Named graphs as PyG data: cycles, paths, stars, circulant skip links, Rook's graph, the Shrikhande graph."""

import torch
from torch import Tensor
from torch_geometric.data import Data


def undirected(num_nodes: int, ends: Tensor) -> Data:
    """The graph with the edges `ends`, `[E, 2]`: each edge is given once and stored in both directions.

    Args:
        num_nodes: nodes of the graph, isolated ones included.
        ends: the two nodes of each edge; a repetition, in either direction, is the same edge.
    """
    low, high = ends.min(1).values, ends.max(1).values
    key = torch.unique(low * num_nodes + high)
    one_way = torch.stack([key // num_nodes, key % num_nodes])
    loops = one_way[0] == one_way[1]
    return Data(edge_index=torch.cat([one_way, one_way[:, ~loops].flip(0)], 1), num_nodes=num_nodes)


def cycle(n: int) -> Data:
    """:math:`C_n`: n nodes in a ring."""
    _at_least(n, 3, "nodes of a cycle")
    return _circulant(n, (1,))


def path(n: int) -> Data:
    """:math:`P_n`: n nodes in a row."""
    _at_least(n, 1, "nodes of a path")
    node = torch.arange(n - 1)
    return undirected(n, torch.stack([node, node + 1], 1))


def star(leaves: int) -> Data:
    r""":math:`K_{1,\ell}`: node 0 joined to each of the `leaves` other nodes."""
    _at_least(leaves, 1, "leaves of a star")
    leaf = torch.arange(1, leaves + 1)
    return undirected(leaves + 1, torch.stack([torch.zeros_like(leaf), leaf], 1))


def complete(n: int) -> Data:
    """:math:`K_n`: every two of the n nodes are joined."""
    _at_least(n, 1, "nodes of a complete graph")
    return undirected(n, torch.combinations(torch.arange(n)))


def csl(n: int, k: int) -> Data:
    r"""Circulant skip link graph :math:`\mathrm{CSL}(n, k)`: node i is joined to :math:`i \pm 1` and :math:`i \pm k`.

    It is 4-regular, so 1-WL tells none of those with one n apart.

    Args:
        n: how many nodes.
        k: the length of the skip links, from 2 to n - 2 and not n / 2.
    """
    _at_least(n, 5, "nodes of a CSL graph")
    if not 2 <= k <= n - 2 or 2 * k == n:
        raise ValueError(
            f"Expected skip links of length 2 to {n - 2}, and not half of n (got k={k}, n={n}). "
            "Other lengths repeat an edge, and the graph is not 4-regular."
        )
    return _circulant(n, (1, k))


def rook(n: int = 4) -> Data:
    """Rook's graph: the squares of an n×n board, joined where a rook moves from one to the other.

    Squares are numbered from left to right, then from top to bottom. For n = 4 it is strongly regular with the
    parameters (16, 6, 2, 2) of the Shrikhande graph.
    """
    _at_least(n, 1, "squares a side of Rook's graph")
    square = torch.arange(n * n)
    row, column = square // n, square % n
    joined = (row[:, None] == row) | (column[:, None] == column)
    return undirected(n * n, joined.triu(1).nonzero())


def shrikhande() -> Data:
    """The Shrikhande graph, strongly regular (16, 6, 2, 2): a 4×4 torus with one diagonal in every square.

    Numbered as Rook's graph. The diagonal goes down and to the right, as in the colour table of the paper's
    Lemma on ED; its mirror image, to which the words of the paper may also be read, is isomorphic.
    """
    square = torch.arange(16)
    row, column = square // 4, square % 4
    steps = [(0, 1), (1, 0), (1, 1)]
    ends = [torch.stack([square, (row + r) % 4 * 4 + (column + c) % 4], 1) for r, c in steps]
    return undirected(16, torch.cat(ends))


def disjoint_union(*graphs: Data) -> Data:
    """The graphs side by side as one; `disjoint_union(cycle(3), cycle(3))` is the paper's 2×C_3."""
    if not graphs:
        raise ValueError("Expected at least one graph (got none). Pass the graphs to lay side by side.")
    sizes = torch.tensor([graph.num_nodes for graph in graphs])
    shifts = (sizes.cumsum(0) - sizes).tolist()
    arcs = [graph.edge_index + shift for graph, shift in zip(graphs, shifts, strict=True)]
    return Data(edge_index=torch.cat(arcs, 1), num_nodes=int(sizes.sum()))


def _circulant(n: int, steps: tuple[int, ...]) -> Data:
    node = torch.arange(n)
    return undirected(n, torch.cat([torch.stack([node, (node + step) % n], 1) for step in steps]))


def _at_least(value: int, least: int, what: str) -> None:
    if value < least:
        raise ValueError(f"Expected at least {least} {what} (got {value}). Ask for {least} or more.")
