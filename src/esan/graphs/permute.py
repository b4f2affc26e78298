"""`permuted`: an isomorphic copy of a graph, with nodes and edges in another order."""

import torch
from torch import Tensor
from torch_geometric.data import Data

#: Fields of PyG data with one row per node, or per column of `edge_index`.
_NODE_FIELDS = ("x", "pos")
_EDGE_FIELDS = ("edge_attr", "edge_weight")
#: Fields of node numbers, other than `edge_index`.
_NUMBERS = ("edge_label_index",)


def permuted(data: Data, generator: torch.Generator | None = None, *, order: Tensor | None = None) -> Data:
    """An isomorphic copy of `data`: the nodes renumbered, the columns of `edge_index` shuffled too.

    Fields of nodes (`x`, `pos`, masks, `y` per node) are permuted with the nodes, those of edges (`edge_attr`, `y` per
    edge) with the columns of `edge_index`; `edge_label_index` keeps its order and gets the new numbers.

    Args:
        data: the graph.
        generator: draws the permutation.
        order: the permutation itself, if it should not be drawn: node v of the copy is node `order[v]` of `data`.
    """
    n, columns = int(data.num_nodes or 0), data.edge_index.size(1)
    if order is None:
        order = torch.randperm(n, generator=generator)
    if not torch.equal(order.sort().values, torch.arange(n)):
        raise ValueError(
            f"Expected an order of the nodes 0 to {n - 1} (got {order.tolist()[:8]}). Use torch.randperm({n})."
        )
    number = torch.empty_like(order)
    number[order] = torch.arange(n)
    shuffle = torch.randperm(columns, generator=generator)
    copy = data.clone()
    copy.num_nodes = n
    copy.edge_index = number[data.edge_index[:, shuffle]]
    for name in _NODE_FIELDS:
        if data.get(name) is not None:
            copy[name] = data[name][order]
    for name in _EDGE_FIELDS:
        if data.get(name) is not None:
            copy[name] = data[name][shuffle]
    for name in _NUMBERS:
        if data.get(name) is not None:
            copy[name] = number[data[name]]
    for name in {*data.keys()} - {*_NODE_FIELDS, *_EDGE_FIELDS, *_NUMBERS, "edge_index", "y"}:
        if data.is_node_attr(name):
            copy[name] = data[name][order]
        elif data.is_edge_attr(name):
            copy[name] = data[name][shuffle]
    y = data.get("y")
    if isinstance(y, Tensor) and y.dim() and y.size(0) > 1:
        # As `read` does: rows of nodes if there are as many, else of edges.
        if y.size(0) == n:
            copy.y = y[order]
        elif y.size(0) == columns:
            copy.y = y[shuffle]
    return copy
