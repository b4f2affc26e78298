"""Numba: deduplication for DS-GNN: rows with equal features in all layers, by 1-WL, of which one is computed."""

from typing import Any

import torch
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.edges import Edges
from esan.ops.gin import GINBranch
from esan.ops.numba.gin import BranchRows, branch
from esan.ops.numba.loops import dedup as dedup_loops
from esan.ops.numba.messages import Expansion
from esan.ops.numba.rows import SubgraphPool
from esan.ops.numba.runtime import num_chunks, run
from esan.ops.numba.segments import sum_groups
from esan.ops.numba.workspace import empty_ints, empty_matrix
from esan.ops.segments import CSR

#: Representatives of one chunk of work: most have a few rows, and some have thousands.
_CHUNK = 16


def distinct_ids(values: Tensor) -> tuple[Tensor, Tensor]:
    """An id per row of values, equal for equal rows, in the order of first occurrence; and the first row of each id."""
    values = values.detach()
    values = values.flatten(1) if values.dim() > 1 else values[:, None]
    bits = values.double().view(torch.int64) if values.is_floating_point() else values.long()
    ids, first = dedup_loops.distinct_ids(bits.contiguous().numpy())
    return torch.from_numpy(ids), torch.from_numpy(first)


class Refinement:
    """Colour refinement of the rows of a compact bag, layer by layer.

    Args:
        rows: of the bag.
        kinds: one number per edge of the graphs, equal only where messages along them have the same features.
    """

    def __init__(self, rows: Any, kinds: Tensor) -> None:
        self._rows, self._kinds = rows, kinds
        self._begin = dedup_loops.row_starts(rows.target.numpy(), rows.row_ends[-1])

    def refine(
        self, representative: Tensor, representatives: int, num_rows: int, num_edges: int, multiplicity: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Edges, CSR]:
        """The representative of each row after a layer, from those before.

        Returns:
            the representatives; the first row of each; its multiplicity in double precision; the edges into it from
            the representatives before; and the representatives by the one before that they begin as.
        """
        rows = self._rows
        of_rows, of_edges = empty_ints(4 * num_rows).view(4, -1), empty_ints(4 * num_edges).view(4, -1)
        by_source = empty_ints(representatives)
        # How many rows start from each representative, a hash table of lists of keys, and these: one per edge and four
        # per row.
        scratch = empty_ints(representatives + dedup_loops.table_capacity(num_rows) + num_edges + 4 * num_rows)
        count, total, new_multiplicity = dedup_loops.refine(
            representative.numpy(), rows.node.numpy(), rows.background, rows.source.numpy(), rows.edge_id.numpy(),
            self._begin, self._kinds.numpy(), multiplicity.numpy(),
            *(x.numpy() for x in (of_rows, of_edges, by_source, scratch)),
        )  # fmt: skip
        (found, *of_found), (source, _, edge_id, perm) = of_rows, of_edges[:, :total]
        first, origin, target_ptr = (x[:count] for x in of_found)
        edges = Edges(of_edges[:2, :total], CSR(edge_id, self._kinds.numel()), count)
        edges.__dict__["by_source"] = CSR.from_sorted(source, representatives, perm, by_source)
        edges.by_target.__dict__["ptr"] = target_ptr
        return found, first, torch.from_numpy(new_multiplicity), edges, CSR(origin, representatives)


def layer(h: Tensor, of: GINBranch, view: Any) -> Tensor:
    """A layer without shared terms, one row per representative, from those of the layer before."""
    rows = BranchRows(view.edges, view.multiplicity, Expansion(0, view.previous))
    return branch(of, h, rows, relu=True)


def pool_nodes(h: Tensor, view: Any, rows: CSR, reduce: str) -> Tensor:
    """`esan.ops.rows.pool_nodes` of rows whose representatives are h; `rows` are all rows by their representative."""
    return _PoolRepresentatives.apply(h, SubgraphPool.of(view, reduce, h.dtype), rows)


class _PoolRepresentatives(torch.autograd.Function):
    """The sum over the nodes of each subgraph, times its factor."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, pool: SubgraphPool, rows: CSR) -> Tensor:
        ctx.pool, ctx.rows, h = pool, rows, h.contiguous()
        background_sum = sum_groups(h, rows.index.index_select(0, pool.nodes.perm), pool.nodes.ptr)
        return pool.totals(h, background_sum, rows.index)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        pool, rows, grad = ctx.pool, ctx.rows, grad.contiguous()
        graph_grad = sum_groups(grad, pool.subgraphs.perm, pool.subgraphs.ptr, pool.factor)
        (subgraphs, width), by_node = grad.shape, pool.by_node
        grad_x = empty_matrix(grad, rows.size, width)
        run(
            dedup_loops.pool_back, grad, num_chunks(rows.size, _CHUNK), rows=rows.index.numel(), width=width,
            nodes=by_node.size, subgraphs=subgraphs, graphs=pool.nodes.size, chunk_size=_CHUNK, grad_x=grad_x,
            graph_grad=graph_grad, grad=grad, perm=by_node.parent.perm, ptr=by_node.parent.ptr,
            subgraph=pool.stored.index, graph=pool.nodes.index, factor=pool.factor,
            total_rows=by_node.parent.index.numel(), representatives=rows.size, row_perm=rows.perm, row_ptr=rows.ptr,
        )  # fmt: skip
        return grad_x, None, None
