"""Operators on input features: rows of embedding tables, and the input rows of the first layer."""

import torch
import torch.nn.functional as F
from torch import Tensor

from esan.ops.dispatch import MAX_FUSED_TABLE, MAX_TABLE, implementation
from esan.ops.segments import CSR, broadcast

#: Distinct values of edge features, at most, for which each value is encoded once.
_MAX_EDGE_TYPES = 64


def lookup(table: Tensor, index: Tensor) -> Tensor:
    """Row `index[i]` of a table; a leading dimension means one table per network, each for its part of the indices."""
    fast = implementation("features", table) if table.size(-2) <= MAX_TABLE else None
    if fast is not None:
        # In a fixed order of summation, and without the sort that torch's own gradient takes on a GPU.
        return fast.lookup(table, index)
    if table.dim() == 2:
        return F.embedding(index, table)
    parts = index.reshape(table.size(0), -1)
    return torch.cat([F.embedding(own, rows) for own, rows in zip(parts, table, strict=True)])


def max_edge_types(like: Tensor) -> int:
    """Edge features with at most so many distinct values are best given as `EdgeTypeFeatures`."""
    fast = implementation("messages", like)
    return MAX_FUSED_TABLE if fast is not None and hasattr(fast, "MessageSum") else _MAX_EDGE_TYPES


def input_rows(x: Tensor, by_node: CSR, marked: Tensor | None, width: int) -> Tensor:
    """One row per node → each of its rows: two marks [marked, not marked] if there are marks, x, then zeros.

    Args:
        x: `[nodes, d]`.
        by_node: the rows by their node.
        marked: whether each row is marked; None for no marks.
        width: of the result.
    """
    fast = implementation("features", x)
    if fast is not None:
        return fast.input_rows(x, by_node, marked, width)
    rows = broadcast(x, by_node)
    if marked is not None:
        rows = torch.cat([torch.stack([marked, ~marked], 1).to(x.dtype), rows], 1)
    extra = width - rows.size(1)
    return F.pad(rows, (0, extra)) if extra else rows
