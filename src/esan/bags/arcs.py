"""`Arcs`: what messages are sent along, and the two sums of messages that all base encoders are made of."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from esan import ops as kernels
from esan.bags.coded import CodedLines
from esan.bags.sums import Grouping, add_up, pieces
from esan.graphs import Graphs
from esan.ops.numba import runtime as cpu
from esan.ops.real import Real

if TYPE_CHECKING:
    from esan.ops.triton.gather import PoolBeside


@dataclass(frozen=True, eq=False)
class Arcs:
    """Arcs between rows, sorted by target.

    Attributes:
        edge_index: source and target row of each arc, as PyG has it, `[2, B]`.
        copies: which arcs here are copies of one arc of the graph; their owner is the line of their edge features.
        num_rows: how many rows they end at; they come from `out_of.size` rows, which may be others.
        weight: a factor a message, or None for 1: of the user's `edge_weight`, and of `adjacency="sum"`.
        real: which rows are not filler; None if all are, or filler is read too.
    """

    edge_index: Tensor
    copies: Grouping
    num_rows: int
    weight: Tensor | None = None
    real: Real | None = None
    #: The types that were asked for, of each arc as they are, and in the order of `out_of`.
    _types: tuple[Tensor, Tensor, Tensor] | None = None

    @staticmethod
    def of(graphs: Graphs) -> "Arcs":
        """The arcs of the graphs themselves, between nodes."""
        every = torch.arange(graphs.edge_index.size(1), device=graphs.device)
        copies = Grouping(every, every.numel(), ordered=True)
        return Arcs(graphs.edge_index, copies, graphs.node_graph.numel(), graphs.edge_weight)

    @property
    def arc(self) -> Tensor:
        """The arc of the graph that each is a copy of, `[B]`."""
        return self.copies.owner

    @property
    def source(self) -> Tensor:
        """The row that each comes from, `[B]`."""
        return self.edge_index[0]

    @cached_property
    def ends(self) -> tuple[Tensor, Tensor]:
        """The row that each comes from, and the row that it ends at, each in one piece."""
        source, target = self.edge_index
        return source.contiguous(), target.contiguous()

    @cached_property
    def degree(self) -> Tensor:
        """How many arcs end at each row, `[num_rows]`."""
        return torch.bincount(self.edge_index[1], minlength=self.num_rows)

    def sum_rows(
        self, x: Tensor, own: Tensor | None = None, weight: Tensor | None = None, pool: "PoolBeside | None" = None
    ) -> Tensor:
        r""":math:`y_v = o\, x_v + \sum_{u \to v} w_{uv}\, x_u`.

        Args:
            x: `[num_rows, d]`.
            own: o, a tensor of one number; None leaves the term out.
            weight: a constant factor an arc (no gradient flows to it), in place of the arcs' own.
            pool: a pool of x that is taken beside; on a GPU.
        """
        if cpu.fits(x) and (own is None or own.numel() == 1):
            from esan.ops.numba.messages import sum_messages

            return sum_messages(x, None, None, own, self, self.factor(x, weight))
        factor = self.factor(x, weight)
        if kernels.on_gpu(x, own, factor):
            from esan.ops.triton.gather import Along, gather

            return gather(x, None, own, Along(self, factor, None, pool))
        _no_pool(pool, x)
        return _SumRows.apply(x, own, self, factor)

    def sum_messages(
        self,
        x: Tensor,
        e: Tensor | CodedLines,
        own: Tensor | None = None,
        weight: Tensor | None = None,
        pool: "PoolBeside | None" = None,
    ) -> Tensor:
        r""":math:`y_v = o\, x_v + \sum_{u \to v} w_{uv}\, \mathrm{ReLU}(x_u + e_{uv})`.

        Args:
            x: `[num_rows, d]`.
            e: a line an arc of the graph, `[A, d]`, or coded.
            own: as in `sum_rows`.
            weight: as in `sum_rows`.
            pool: as in `sum_rows`.
        """
        if cpu.fits(x) and (own is None or own.numel() == 1):
            from esan.ops.numba.messages import sum_messages

            table, code = (e.table, e.code) if isinstance(e, CodedLines) else (e, None)
            return sum_messages(x, table.to(x.dtype), code, own, self, self.factor(x, weight))
        lines = e.spread() if isinstance(e, CodedLines) else e
        factor = self.factor(x, weight)
        if kernels.on_gpu(x, lines, own, factor):
            from esan.ops.triton.gather import Along, gather

            return gather(x, lines, own, Along(self, factor, None, pool))
        _no_pool(pool, x)
        return _SumMessages.apply(x, lines, own, self, factor)

    def sum_typed(
        self, x: Tensor, table: Tensor, types: Tensor, own: Tensor, pool: "PoolBeside | None" = None
    ) -> Tensor:
        """`sum_messages` where e is the line `types[arc]` of a small table; on a GPU.

        Args:
            x: `[num_rows, d]`.
            table: `[C, d]`, or one a network, `[S, C, d]`.
            types: of each arc of the graph, `[A]`.
            own: as in `sum_rows`.
            pool: as in `sum_rows`.
        """
        if self._types is None or self._types[0] is not types:
            object.__setattr__(self, "_types", (types, *self._types_of(types)))
        assert self._types is not None
        from esan.ops.triton.gather import Along, gather

        return gather(x, table, own, Along(self, self.factor(x), self._types[1:], pool))

    def _types_of(self, types: Tensor) -> tuple[Tensor, Tensor]:
        """The types of the arcs as they are, and in the order of `out_of`, from those of the graph's arcs."""
        flat = types.reshape(-1).long()  # categories may come as fractions
        return flat.index_select(0, self.arc), flat.index_select(0, self.out_arc)

    def factor(self, x: Tensor, weight: Tensor | None = None) -> Tensor | None:
        """The factor of each message, in the precision of x; `weight` in place of the arcs' own."""
        weight = self.weight if weight is None else weight
        return None if weight is None else weight.detach().to(x.dtype)

    @cached_property
    def into(self) -> Grouping:
        """The arcs by the row that they end at."""
        return Grouping(self.edge_index[1], self.num_rows, ordered=True)

    @cached_property
    def out_of(self) -> Grouping:
        """The arcs by the row that they come from."""
        return Grouping(self.edge_index[0], self.num_rows)

    @cached_property
    def out_target(self) -> Tensor:
        """The row that each arc of `out_of.order` ends at."""
        return self.edge_index[1].index_select(0, self.out_of.order)

    @cached_property
    def out_arc(self) -> Tensor:
        """The arc of the graph that each arc of `out_of.order` is a copy of."""
        return self.arc.index_select(0, self.out_of.order)

    @cached_property
    def copy_ends(self) -> tuple[Tensor, Tensor]:
        """The rows that each arc of `copies.order` comes from and ends at."""
        source, target = self.edge_index
        return source.index_select(0, self.copies.order), target.index_select(0, self.copies.order)


def _no_pool(pool: "PoolBeside | None", x: Tensor) -> None:
    if pool is not None:
        raise ValueError(
            f"Expected rows of single precision on a GPU for a pool beside the sums (got {x.dtype} on {x.device}). "
            "Use Stage.pool_bag."
        )


def _with_own(total: Tensor, x: Tensor, own: Tensor | None) -> Tensor:
    return total if own is None else total.addcmul_(x, own)


def _grad_own(grad: Tensor, x: Tensor, own: Tensor | None) -> Tensor | None:
    return None if own is None else (grad * x).sum().reshape(own.shape)


class _SumRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, own: Tensor | None, arcs: Arcs, weight: Tensor | None) -> Tensor:
        # Only the factor's gradient needs x again.
        ctx.save_for_backward(own, x if ctx.needs_input_grad[1] else None)
        ctx.arcs, ctx.weight = arcs, weight
        return _with_own(add_up(x, arcs.edge_index[0], arcs.into.first, weight), x, own)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        own, x = ctx.saved_tensors
        group = ctx.arcs.out_of
        weight = None if ctx.weight is None else ctx.weight[group.order]
        grad_x = _with_own(add_up(grad, ctx.arcs.out_target, group.first, weight), grad, own)
        return grad_x, None if x is None else _grad_own(grad, x, own), None, None


class _SumMessages(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, e: Tensor, own: Tensor | None, arcs: Arcs, weight: Tensor | None) -> Tensor:
        messages = x.new_empty(arcs.arc.numel(), x.size(1))
        for out, source, arc in pieces(messages, arcs.edge_index[0], arcs.arc):
            torch.index_select(x, 0, source, out=out).add_(e.index_select(0, arc)).relu_()
        ctx.save_for_backward(messages, own, x if ctx.needs_input_grad[2] else None)
        ctx.arcs, ctx.weight = arcs, weight
        return _with_own(add_up(messages, arcs.into.order, arcs.into.first, weight), x, own)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        messages, own, x = ctx.saved_tensors
        arcs = ctx.arcs
        spread = torch.empty_like(messages)
        for out, target, message in pieces(spread, arcs.edge_index[1], messages):
            torch.index_select(grad, 0, target, out=out)
            torch.ops.aten.threshold_backward.grad_input(out, message, 0, grad_input=out)
        if ctx.weight is not None:
            spread.mul_(ctx.weight[:, None])
        out_of, copies = arcs.out_of, arcs.copies
        grad_x = _with_own(add_up(spread, out_of.order, out_of.first), grad, own)
        grad_e = add_up(spread, copies.order, copies.first)
        return grad_x, grad_e, None if x is None else _grad_own(grad, x, own), None, None
