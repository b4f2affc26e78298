"""`Stage`: what layers do with the rows of a bag that they work on: lift them, add to them, pool over them."""

from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from esan import ops as kernels
from esan.bags.edge_ends import EdgeEnds, Stored
from esan.bags.gathered import Lifted
from esan.bags.stage_rows import StageRows
from esan.ops.numba import runtime as cpu

if TYPE_CHECKING:
    from esan.ops.numba.segments import Subgraphs
    from esan.ops.triton.gather import PoolBeside

#: How lines are pooled.
REDUCTIONS = ("sum", "mean", "max")


class Stage(StageRows):
    """The rows that layer t of a network computes, with what it does to them and the pools over them.

    Arguments are those of `StageRows`.
    """

    def lift(self, h: Tensor) -> Tensor:
        """Rows of an earlier stage → rows of this one: a pair that was not stored takes its background's value."""
        if h.size(0) == self.num_rows:
            return h
        if kernels.on_gpu(h):
            from esan.ops.triton.lift import Lift

            return Lift.apply(h, self._lift_from(h.size(0)))
        return self._lifted_plainly(h)

    def _lifted_plainly(self, h: Tensor) -> Tensor:
        return torch.cat([h, h.index_select(0, self.node[h.size(0) :])])

    def _lift_from(self, rows: int) -> Lifted:
        return Lifted(self.by_node, rows, self._background)

    def settled(self, h: Tensor) -> Tensor:
        """The rows, with 0 in those that stand for no pair.

        Nobody reads them but by what cancels. A norm may blow them up, as it divides by the deviation of the others;
        what cancels would then leave no digit.
        """
        if not self._background:
            return h
        if h.device.type == "cpu" and self.plain:
            return h.index_fill(0, self._of_none, 0.0) if self._of_none.numel() else h
        assert self.norm_weight is not None
        # A GPU is not asked how many there are: it would have to be waited for.
        return torch.where(self.norm_weight[:, None] > 0, h, 0.0)

    @cached_property
    def _of_none(self) -> Tensor:
        """The rows that stand for no pair."""
        assert self.norm_weight is not None
        return (self.norm_weight[: self._background] == 0).nonzero().squeeze(1)

    def spread(self, x: Tensor) -> Tensor:
        """A line a node → a line a row."""
        return self.by_node.spread(x)

    def add(self, h: Tensor, x: Tensor) -> Tensor:
        """Rows, each with the line of its node added."""
        return self.by_node.add_spread(h, x)

    def lift_and_pool(self, h: Tensor, reduce: str) -> tuple[Tensor, Tensor]:
        """`lift`, and `pool_bag` of what it gives, by sum or mean."""
        if cpu.fits(h) and self.plain and reduce in ("sum", "mean"):
            from esan.ops.numba.segments import Lift, Rise

            share = self.shares.of_subgraph.to(h.dtype) if reduce == "mean" else None
            return Lift.apply(h, Rise(self.by_node, self.weight_in(h.dtype), share))
        h = self.lift(h)
        return h, self.pool_bag(h, reduce)

    def pool_bag(self, h: Tensor, reduce: str) -> Tensor:
        r"""Rows → a line a node: :math:`\sum_s h_{v,s}`, its mean over the bag, or the maximum (literal bags)."""
        _check_reduce(reduce)
        if reduce == "max":
            self._needs_every_pair("the maximum over the bag")
            return self.by_node.max(h)
        if kernels.on_gpu(h):
            from esan.ops.triton.pools import Pool

            return Pool.apply(h, self.by_node, self._bag_weight(reduce))
        total = self.by_node.sum(h, self.weight)
        return total if reduce == "sum" else total / self._selection.num_subgraphs[self._graphs.node_graph, None]

    def pool_beside(self, reduce: str) -> "PoolBeside":
        """`pool_bag` as a pool that sums over the same rows take beside; on a GPU, by sum or mean."""
        from esan.ops.triton.gather import PoolBeside

        return PoolBeside(self.by_node, self._bag_weight(reduce))

    def _bag_weight(self, reduce: str) -> Tensor | None:
        """The factor of each row in the sum or mean over the bag of its node."""
        return self._mean_weight if reduce == "mean" else self.norm_weight

    @cached_property
    def _mean_weight(self) -> Tensor:
        """The part that each row has in the mean over the bag of its node."""
        share = self._selection.num_subgraphs[self._graphs.node_graph].float().reciprocal().index_select(0, self.node)
        return share if self.norm_weight is None else share * self.norm_weight

    def pool_nodes(self, h: Tensor, reduce: str) -> Tensor:
        r"""Rows → a line a subgraph: :math:`\sum_v h_{v,s}`, its mean over the nodes, or the maximum (literal bags)."""
        _check_reduce(reduce)
        if reduce == "max":
            self._needs_every_pair("the maximum over the nodes")
            return self._by_subgraph.max(h)
        graph = self._selection.subgraph_graph
        if self._background and kernels.on_gpu(h):
            from esan.ops.triton import pools as gpu_pools

            total = gpu_pools.PoolNodes.apply(h, self)
        elif self._background and self.plain and cpu.fits(h):
            from esan.ops.numba.segments import PoolNodes

            return PoolNodes.apply(h, self.of_subgraphs(reduce, h.dtype))
        elif self._background:
            # What the subgraph would have if nothing differed, and what differs.
            h = self._background_first(h)
            alike = self._by_graph.sum(h[: self.networks * self._background]).index_select(0, graph)
            total = alike + self._by_subgraph.sum_of_differences(h, self.stored_by_node)
        else:
            total = self._by_subgraph.sum(h)
        return total if reduce == "sum" else total / self._graphs.num_nodes[graph, None]

    def of_subgraphs(self, reduce: str, kind: torch.dtype) -> "Subgraphs":
        """The rows of each subgraph as compiled loops pool them, by sum or mean."""
        from esan.ops.numba.segments import Subgraphs

        share = None if reduce == "sum" else self.shares.of_node.to(kind)
        return Subgraphs(self._by_subgraph, self.by_node, self._by_graph, self.subgraphs_by_graph, share)

    def _background_first(self, h: Tensor) -> Tensor:
        """The rows, those of the background before all stored ones, as they are here."""
        return h

    def pool_edges(self, h: Tensor) -> Tensor:
        r"""Rows → a line an edge {u, v}: the mean over the bag of :math:`[h_u + h_v,\; h_u \odot h_v]`, `[E, 2d]`.

        If the graphs have `edge_label_index`, its columns take the place of the edges.
        """
        return self._ends.pool(h)

    @cached_property
    def _ends(self) -> EdgeEnds:
        graphs, num_subgraphs = self._graphs, self._selection.num_subgraphs
        stored = Stored(
            self._rows.node[: self._stored], self._subgraph, self._background, num_subgraphs[graphs.node_graph]
        )
        return EdgeEnds.of(graphs.extra.get("edge_label_index", graphs.edges), stored, self._selection.total)

    def _needs_every_pair(self, what: str) -> None:
        if self._background:
            raise ValueError(f"Expected a literal bag for {what} (got a compact one). Call bag.to_literal() first.")


def _check_reduce(reduce: str) -> None:
    if reduce not in REDUCTIONS:
        raise ValueError(f"Expected one of {', '.join(REDUCTIONS)} (got {reduce!r}).")
