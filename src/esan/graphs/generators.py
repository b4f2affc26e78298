"""Standard graphs: cycles, paths, stars, circulants (CSL), Rook's graph and the Shrikhande graph."""

import torch
from torch import Tensor
from torch_geometric.data import Data

from esan.checks import shown, whole_number
from esan.memory_limits import refuse_beyond_memory

#: Named graphs are examples: more nodes or edges are refused, since everything done with a graph takes many times its
#: memory. Larger graphs are passed as PyG data.
MOST = 10_000_000
#: Bytes per edge while a graph is put together: both ends of it, its key and their sorted copies.
_EDGE_BYTES = 64


def undirected(num_nodes: int, ends: Tensor) -> Data:
    """The graph with the edges `ends`, `[E, 2]`: each edge is given once and stored in both directions.

    Args:
        num_nodes: nodes of the graph, isolated ones included.
        ends: the two nodes of each edge; a repetition, in either direction, is the same edge.
    """
    refuse_beyond_memory(_EDGE_BYTES * ends.size(0), f"a graph of {ends.size(0):,} edges", "Take a smaller graph.")
    low, high = ends.min(1).values, ends.max(1).values
    key = torch.unique(low * num_nodes + high)
    one_way = torch.stack([key // num_nodes, key % num_nodes])
    loops = one_way[0] == one_way[1]
    return Data(edge_index=torch.cat([one_way, one_way[:, ~loops].flip(0)], 1), num_nodes=num_nodes)


def cycle(n: int) -> Data:
    """:math:`C_n`: n nodes in a ring."""
    n = _size(n, 3, "nodes of a cycle")
    check_size(f"cycle({shown(n)})", n, n)
    return _circulant(n, (1,))


def path(n: int) -> Data:
    """:math:`P_n`: n nodes in a row."""
    n = _size(n, 1, "nodes of a path")
    check_size(f"path({shown(n)})", n, n - 1)
    node = torch.arange(n - 1)
    return undirected(n, torch.stack([node, node + 1], 1))


def star(leaves: int) -> Data:
    r""":math:`K_{1,\ell}`: node 0 joined to each of the `leaves` other nodes."""
    leaves = _size(leaves, 1, "leaves of a star")
    check_size(f"star({shown(leaves)})", leaves + 1, leaves)
    leaf = torch.arange(1, leaves + 1)
    return undirected(leaves + 1, torch.stack([torch.zeros_like(leaf), leaf], 1))


def complete(n: int) -> Data:
    """:math:`K_n`: every two of the n nodes are joined."""
    n = _size(n, 1, "nodes of a complete graph")
    check_size(f"complete({shown(n)})", n, n * (n - 1) // 2)
    return undirected(n, torch.combinations(torch.arange(n)))


def csl(n: int, k: int) -> Data:
    r"""Circulant skip link graph :math:`\mathrm{CSL}(n, k)`: node i is joined to :math:`i \pm 1` and :math:`i \pm k`.

    It is 4-regular, so 1-WL tells none of those with one n apart.

    Args:
        n: how many nodes.
        k: the length of the skip links, from 2 to n - 2 and not n / 2.
    """
    n, k = _size(n, 5, "nodes of a CSL graph"), _size(k, 0, "steps of a skip link")
    check_size(f"csl({shown(n)},{shown(k)})", n, 2 * n)
    if not 2 <= k <= n - 2 or 2 * k == n:
        raise ValueError(
            f"Expected skip links of length 2 to {n - 2}, and not half of n (got k={shown(k)}, n={n}). "
            "Other lengths repeat an edge, and the graph is not 4-regular."
        )
    return _circulant(n, (1, k))


def rook(n: int = 4) -> Data:
    """Rook's graph: the squares of an n×n board, joined where a rook moves from one to the other.

    Squares are numbered from left to right, then from top to bottom. For n = 4 it is strongly regular with the
    parameters (16, 6, 2, 2) of the Shrikhande graph.
    """
    n = _size(n, 1, "squares a side of Rook's graph")
    check_size(f"rook({shown(n)})", n * n, n * n * (n - 1))
    line, two = torch.arange(n)[:, None, None], torch.combinations(torch.arange(n))
    return undirected(n * n, torch.cat([(line * n + two).reshape(-1, 2), (line + two * n).reshape(-1, 2)]))


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
        raise ValueError("Expected at least one graph (got none). Pass at least one graph.")
    for place, graph in enumerate(graphs):
        if not isinstance(graph, Data) or graph.edge_index is None:
            got = "one without edge_index" if isinstance(graph, Data) else shown(graph)
            raise TypeError(f"Expected PyG data with edge_index (got {got} at place {place}). Convert it first.")
    sizes = torch.tensor([graph.num_nodes for graph in graphs])
    shifts = (sizes.cumsum(0) - sizes).tolist()
    edges = [graph.edge_index + shift for graph, shift in zip(graphs, shifts, strict=True)]
    return Data(edge_index=torch.cat(edges, 1), num_nodes=int(sizes.sum()))


def copies(graph: Data, times: int) -> Data:
    """So many copies of a graph side by side, as one."""
    n, edges = int(graph.num_nodes or 0), graph.edge_index
    shift = n * torch.arange(times)[:, None, None]
    return Data(edge_index=(edges + shift).transpose(0, 1).reshape(2, -1), num_nodes=n * times)


def check_size(name: str, nodes: int, edges: int) -> None:
    """An error for a named graph of more nodes or edges than an example has."""
    for number, what in ((nodes, "nodes"), (edges, "edges")):
        if number > MOST:
            raise ValueError(
                f"Expected a named graph of at most {MOST:,} nodes and edges (got {shown(number)} {what} of "
                f"{name}). Take a smaller one; pass larger graphs as PyG data."
            )


def _circulant(n: int, steps: tuple[int, ...]) -> Data:
    node = torch.arange(n)
    return undirected(n, torch.cat([torch.stack([node, (node + step) % n], 1) for step in steps]))


def _size(value: int, least: int, what: str) -> int:
    number = whole_number(f"the number of {what}", value, -(2**63), f"Ask for {least} or more.")
    if number < least:
        raise ValueError(f"Expected at least {least} {what} (got {number}). Ask for {least} or more.")
    return number
