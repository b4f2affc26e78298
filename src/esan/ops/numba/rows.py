"""Numba: expand the rows of an earlier layer to those of a later one, and pool rows over bags and nodes."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.numba.loops import segments as segments_loops
from esan.ops.numba.runtime import num_chunks, run
from esan.ops.numba.segments import sum_groups
from esan.ops.numba.workspace import empty_matrix
from esan.ops.segments import CSR

#: Nodes or subgraphs of one chunk of work: each has some ten rows.
_CHUNK = 16


def zero_empty_rows(h: Tensor, view: Any) -> Tensor:
    """`esan.ops.rows.zero_empty_rows`; most bags have no such row."""
    return h.index_fill(0, view.empty_rows, 0.0) if view.empty_rows.numel() else h


def expand_and_pool(h: Tensor, view: Any, reduce: str) -> tuple[Tensor, Tensor]:
    """`esan.ops.rows.expand_and_pool`."""
    factor = view.pool_counts.inverse_subgraphs.to(h.dtype) if reduce == "mean" else None
    return _ExpandAndPool.apply(h, BagPool(view.by_node, view.multiplicity_in(h.dtype), factor))


def pool_nodes(h: Tensor, view: Any, reduce: str) -> Tensor:
    """`esan.ops.rows.pool_nodes`."""
    return _PoolCompactNodes.apply(h, SubgraphPool.of(view, reduce, h.dtype))


@dataclass(frozen=True, eq=False)
class BagPool:
    """The pool over the bag of each node.

    Attributes:
        by_node: the rows by their node.
        multiplicity: how many pairs each row stands for, in the precision of the rows; None for 1.
        factor: one factor per node; None for 1.
    """

    by_node: CSR
    multiplicity: Tensor | None
    factor: Tensor | None


class _ExpandAndPool(torch.autograd.Function):
    """Rows of an earlier layer → rows of this one, and their pool over the bag, one row per node."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, pool: BagPool) -> tuple[Tensor, Tensor]:
        x, csr = h.contiguous(), pool.by_node
        (x_rows, width), rows = x.shape, csr.index.numel()
        expanded = None if x_rows == rows else empty_matrix(x, rows, width)
        pooled = empty_matrix(x, csr.size, width)
        run(
            segments_loops.expand, x, num_chunks(csr.size, _CHUNK), x_rows=x_rows, rows=rows, width=width,
            nodes=csr.size, chunk_nodes=_CHUNK, x=x, y=expanded, pool=pooled, perm=csr.parent.perm, ptr=csr.parent.ptr,
            multiplicity=pool.multiplicity, factor=pool.factor, total_rows=csr.parent.index.numel(),
        )  # fmt: skip
        ctx.pool, ctx.x_rows = pool, x_rows
        return h if expanded is None else expanded, pooled

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor, grad_pool: Tensor) -> tuple[Tensor, None]:
        grad, grad_pool, pool = grad.contiguous(), grad_pool.contiguous(), ctx.pool
        (rows, width), csr = grad.shape, pool.by_node
        grad_x = empty_matrix(grad, ctx.x_rows, width)
        run(
            segments_loops.expand_back, grad, num_chunks(csr.size, _CHUNK), x_rows=ctx.x_rows, rows=rows, width=width,
            nodes=csr.size, chunk_nodes=_CHUNK, grad_x=grad_x, grad=grad, grad_pool=grad_pool, perm=csr.parent.perm,
            ptr=csr.parent.ptr, multiplicity=pool.multiplicity, factor=pool.factor,
            total_rows=csr.parent.index.numel(),
        )  # fmt: skip
        return grad_x, None


@dataclass(frozen=True, eq=False)
class SubgraphPool:
    """The pool over the nodes of each subgraph of a compact bag.

    Attributes:
        stored: the stored pairs by their subgraph.
        by_node: all rows by their node; the first rows are the background rows.
        nodes: the nodes by their graph.
        subgraphs: the subgraphs by their graph.
        factor: one factor per subgraph, in the precision of the rows; None for 1.
    """

    stored: CSR
    by_node: CSR
    nodes: CSR
    subgraphs: CSR
    factor: Tensor | None

    @staticmethod
    def of(view: Any, reduce: str, dtype: torch.dtype) -> "SubgraphPool":
        """For a sum or mean over the rows of a view."""
        factor = None if reduce == "sum" else view.pool_counts.inverse_nodes.to(dtype)
        return SubgraphPool(view.by_subgraph, view.by_node, view.by_graph, view.subgraphs_by_graph, factor)

    def totals(self, h: Tensor, background_sum: Tensor, representative: Tensor | None) -> Tensor:
        """The sum of each subgraph, times its factor.

        Args:
            h: one row per row of the bag, or per representative.
            background_sum: the sum of the background rows of each graph.
            representative: that of each row; None where h has all rows.
        """
        (x_rows, width), stored, count = h.shape, self.stored.parent, self.stored.size
        y = empty_matrix(h, count, width)
        run(
            segments_loops.pool, h, num_chunks(count, _CHUNK), rows=self.by_node.index.numel(), width=width,
            nodes=self.by_node.size, subgraphs=count, graphs=self.nodes.size, chunk_subgraphs=_CHUNK, x=h,
            background_sum=background_sum, y=y, perm=stored.perm, ptr=stored.ptr, node=self.by_node.index,
            graph=self.subgraphs.index, factor=self.factor, total_stored=stored.index.numel(), x_rows=x_rows,
            representative=representative,
        )  # fmt: skip
        return y


class _PoolCompactNodes(torch.autograd.Function):
    """The sum over the nodes of each subgraph, times its factor: background rows, plus the differences from them."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, pool: SubgraphPool) -> Tensor:
        ctx.pool, h = pool, h.contiguous()
        background_sum = sum_groups(h[: pool.by_node.size], pool.nodes.perm, pool.nodes.ptr)
        return pool.totals(h, background_sum, None)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        pool, grad = ctx.pool, grad.contiguous()
        csr, (subgraphs, width), rows = pool.by_node, grad.shape, pool.by_node.index.numel()
        graph_grad = sum_groups(grad, pool.subgraphs.perm, pool.subgraphs.ptr, pool.factor)
        grad_x = empty_matrix(grad, rows, width)
        run(
            segments_loops.pool_back, grad, num_chunks(csr.size, _CHUNK), rows=rows, width=width, nodes=csr.size,
            subgraphs=subgraphs, graphs=pool.nodes.size, chunk_nodes=_CHUNK, grad_x=grad_x, graph_grad=graph_grad,
            grad=grad, perm=csr.parent.perm, ptr=csr.parent.ptr, subgraph=pool.stored.index, graph=pool.nodes.index,
            factor=pool.factor, total_rows=csr.parent.index.numel(),
        )  # fmt: skip
        return grad_x, None
