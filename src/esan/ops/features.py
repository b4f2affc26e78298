"""Operators on input features: rows of embedding tables, and the rows that a first layer takes."""

import torch
import torch.nn.functional as F
from torch import Tensor

from esan.ops.dispatch import implementation
from esan.ops.limits import LOOKED_UP, SMALL_TABLE
from esan.ops.segments import Grouping, expand

#: Where features can take at most so many values, each of them is encoded once.
_FEW_VALUES = 64


def lookup(table: Tensor, index: Tensor) -> Tensor:
    """Row `index[i]` of a table; of several tables, if it has a leading dimension, each for as many of the indices."""
    fast = implementation("lookup", table) if table.size(-2) <= LOOKED_UP else None
    if fast is not None:
        # In a fixed order of summation, and without the sort that torch's own gradient takes on a GPU.
        return fast.lookup(table, index)
    if table.dim() == 2:
        return F.embedding(index, table)
    parts = index.reshape(table.size(0), -1)
    return torch.cat([F.embedding(own, rows) for own, rows in zip(parts, table, strict=True)])


def few_values(like: Tensor) -> int:
    """Edge features with at most so many values are best given as a table of them, and a number per edge."""
    fast = implementation("messages", like)
    return SMALL_TABLE if fast is not None and hasattr(fast, "Gather") else _FEW_VALUES


def input_rows(x: Tensor, by_node: Grouping, marked: Tensor | None, width: int) -> Tensor:
    """One row per node → each of its rows, behind two marks [marked, not marked] if there are marks, then zeros.

    Args:
        x: `[nodes, d]`.
        by_node: the rows by their node.
        marked: whether each row is marked; None for no marks.
        width: of the result.
    """
    fast = implementation("input", x)
    if fast is not None:
        return fast.input_rows(x, by_node, marked, width)
    rows = expand(x, by_node)
    if marked is not None:
        rows = torch.cat([torch.stack([marked, ~marked], 1).to(x.dtype), rows], 1)
    extra = width - rows.size(1)
    return F.pad(rows, (0, extra)) if extra else rows
