"""The same graph with its nodes numbered otherwise."""

import torch
from torch import Tensor
from torch_geometric.data import Data

#: What belongs to a node or to an arc in PyG data, other than `edge_index` itself.
_NODE_LINES = ("x", "pos")
_ARC_LINES = ("edge_attr", "edge_weight")
#: What holds numbers of nodes, other than `edge_index`.
_NUMBERS = ("edge_label_index",)


def permuted(data: Data, generator: torch.Generator | None = None, *, order: Tensor | None = None) -> Data:
    """An isomorphic copy of `data`: the nodes renumbered, the columns of `edge_index` shuffled too.

    Node lines (`x`, `pos`, masks, a `y` a node) move with their nodes, arc lines (`edge_attr`, a `y` an arc) with their
    arcs; `edge_label_index` keeps its order and gets the new numbers.

    Args:
        data: the graph.
        generator: draws the permutation.
        order: the permutation itself, if it should not be drawn: node v of the copy is node `order[v]` of `data`.
    """
    n, arcs = int(data.num_nodes or 0), data.edge_index.size(1)
    if order is None:
        order = torch.randperm(n, generator=generator)
    if not torch.equal(order.sort().values, torch.arange(n)):
        raise ValueError(
            f"Expected an order of the nodes 0 to {n - 1} (got {order.tolist()[:8]}). Use torch.randperm({n})."
        )
    number = torch.empty_like(order)
    number[order] = torch.arange(n)
    shuffle = torch.randperm(arcs, generator=generator)
    copy = data.clone()
    copy.num_nodes = n
    copy.edge_index = number[data.edge_index[:, shuffle]]
    for name in _NODE_LINES:
        if data.get(name) is not None:
            copy[name] = data[name][order]
    for name in _ARC_LINES:
        if data.get(name) is not None:
            copy[name] = data[name][shuffle]
    for name in _NUMBERS:
        if data.get(name) is not None:
            copy[name] = number[data[name]]
    for name in {*data.keys()} - {*_NODE_LINES, *_ARC_LINES, *_NUMBERS, "edge_index", "y"}:
        if data.is_node_attr(name):
            copy[name] = data[name][order]
        elif data.is_edge_attr(name):
            copy[name] = data[name][shuffle]
    y = data.get("y")
    if isinstance(y, Tensor) and y.dim() and y.size(0) > 1:
        # As `read` takes it: lines of nodes if there are as many, else of arcs.
        if y.size(0) == n:
            copy.y = y[order]
        elif y.size(0) == arcs:
            copy.y = y[shuffle]
    return copy
