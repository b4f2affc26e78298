"""Operators on the rows of a layer: expand the rows of an earlier layer, pool over bags and nodes, drop out."""

from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from esan.ops.dispatch import implementation
from esan.ops.segments import CSR, RowRanges, segment_sum
from esan.ops.shape_errors import misfit

#: How rows are pooled.
REDUCTIONS = ("sum", "mean", "max")


class RowView(Protocol):
    """The rows that a layer works on, as index tensors; `esan.bags.LayerView` is one.

    Attributes:
        num_rows: how many rows there are, of all networks.
        plain: whether the rows are those of one network, without padding.
        networks: how many networks the rows are of, one after another, each with as many.
        background: how many rows of a network, the first, are the background rows of its nodes; 0 in a literal bag.
        by_node: the rows by their node.
        by_subgraph: the stored rows (those behind the background) by their subgraph.
        by_graph: the nodes by their graph.
        stored_by_node: the stored rows by their node.
        empty_rows: the rows of multiplicity 0.
    """

    num_rows: int
    plain: bool
    networks: int
    background: int

    @property
    def by_node(self) -> CSR: ...
    @property
    def by_subgraph(self) -> CSR: ...
    @property
    def by_graph(self) -> CSR: ...
    @property
    def stored_by_node(self) -> CSR: ...
    @property
    def empty_rows(self) -> Tensor: ...
    @property
    def subgraph_graph(self) -> Tensor: ...
    @property
    def nodes_of_subgraph(self) -> Tensor: ...
    def expand_index(self, rows: int) -> Tensor: ...
    def multiplicity_in(self, kind: torch.dtype) -> Tensor | None: ...
    def pool_factor(self, reduce: str, kind: torch.dtype) -> Tensor | None: ...
    def background_first(self, h: Tensor) -> Tensor: ...


def expand(h: Tensor, view: RowView) -> Tensor:
    """Rows of an earlier layer → rows of this one: a pair that was not stored takes its background row's value."""
    _check_earlier(h, view)
    fast = implementation("rows", h)
    if fast is not None and hasattr(fast, "expand"):
        return fast.expand(h, view)
    return h.index_select(0, view.expand_index(h.size(0)))


def zero_empty_rows(h: Tensor, view: RowView) -> Tensor:
    """The rows, with 0 in those of multiplicity 0.

    Their values cancel in every pool; zeroing them avoids loss of precision, since a norm may make them large: it
    divides by the deviation of the other rows.
    """
    check_rows(h, view)
    if not view.background:
        return h
    fast = implementation("rows", h) if view.plain else None
    if fast is not None and hasattr(fast, "zero_empty_rows"):
        return fast.zero_empty_rows(h, view)
    multiplicity = view.multiplicity_in(torch.float32)
    assert multiplicity is not None
    # Not by the list of empty rows: counting them would synchronise with a GPU.
    return torch.where(multiplicity[:, None] > 0, h, 0.0)


def pool_bag(h: Tensor, view: RowView, reduce: str) -> Tensor:
    r"""Rows → one per node: :math:`\sum_s h_{v,s}`, its mean over the bag, or the maximum (literal bags)."""
    _check(reduce, view, "the maximum over the bag")
    check_rows(h, view)
    if reduce == "max":
        return view.by_node.max(h)
    return segment_sum(h, view.by_node, view.pool_factor(reduce, h.dtype))


def expand_and_pool(h: Tensor, view: RowView, reduce: str) -> tuple[Tensor, Tensor]:
    """The result of `expand`, and `pool_bag` of it by sum or mean."""
    _check_earlier(h, view)
    fast = implementation("rows", h) if view.plain and reduce in ("sum", "mean") else None
    if fast is not None and hasattr(fast, "expand_and_pool"):
        return fast.expand_and_pool(h, view, reduce)
    h = expand(h, view)
    return h, pool_bag(h, view, reduce)


def pool_nodes(h: Tensor, view: RowView, reduce: str) -> Tensor:
    r"""Rows → one per subgraph: :math:`\sum_v h_{v,s}`, its mean over the nodes, or the maximum (literal bags)."""
    _check(reduce, view, "the maximum over the nodes")
    check_rows(h, view)
    if reduce == "max":
        return view.by_subgraph.max(h)
    fast = implementation("rows", h) if view.background else None
    if fast is not None and hasattr(fast, "sum_nodes"):
        total = fast.sum_nodes(h, view)
    elif fast is not None and view.plain:
        return fast.pool_nodes(h, view, reduce)
    elif view.background:
        total = _sum_nodes(h, view)
    else:
        total = segment_sum(h, view.by_subgraph)
    return total if reduce == "sum" else total / view.nodes_of_subgraph[:, None]


def _sum_nodes(h: Tensor, view: RowView) -> Tensor:
    """The sum of each subgraph's background rows, plus the differences of its stored rows from them."""
    h = view.background_first(h)
    background = view.networks * view.background
    background_sum = segment_sum(h[:background], view.by_graph).index_select(0, view.subgraph_graph)
    differences = h[background:] - h.index_select(0, view.stored_by_node.index)
    return background_sum + segment_sum(differences, view.by_subgraph)


def dropout(
    h: Tensor, p: float, training: bool, seeds: Tensor | None, layer: int, row_ranges: RowRanges | None
) -> Tensor:
    """Each entry is 0 with probability p, else 1 / (1 − p) times itself.

    Args:
        h: rows.
        p: the probability.
        training: whether anything is dropped.
        seeds: one per network that the rows belong to, `[S]`; None to draw from torch's own generator.
        layer: the number of the layer before it; each layer has a mask of its own.
        row_ranges: which rows are not padding.
    """
    fast: Any = None if seeds is None or not p or not training else implementation("dropout", h)
    return F.dropout(h, p, training) if fast is None else fast.DropoutFunction.apply(h, p, seeds, layer, row_ranges)


def check_rows(h: Tensor, view: RowView) -> None:
    """Raise unless there is one row per row of the view: kernels compute addresses from that number."""
    if h.size(0) != view.num_rows:
        raise misfit(f"one row for each of the {view.num_rows:,} rows that a layer computes", f"{h.size(0):,} rows")


def _check_earlier(h: Tensor, view: RowView) -> None:
    """Raise unless there are as many rows as the view or an earlier one may have."""
    least = view.networks * view.background or view.num_rows
    if not least <= h.size(0) <= view.num_rows:
        raise misfit(f"{view.num_rows:,} rows, or those of an earlier layer", f"{h.size(0):,}")


def _check(reduce: str, view: RowView, what: str) -> None:
    if reduce not in REDUCTIONS:
        raise ValueError(f"Expected one of {', '.join(REDUCTIONS)} (got {reduce!r}).")
    if reduce == "max" and view.background:
        raise ValueError(f"Expected a literal bag for {what} (got a compact one). Call bag.to_literal() first.")
