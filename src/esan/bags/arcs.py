"""`Arcs`: what messages are sent along, and the two sums of messages that all base encoders are made of."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from esan import ragged


@dataclass(frozen=True, eq=False)
class Arcs:
    """Arcs between rows, sorted by target.

    Attributes:
        edge_index: source and target row of each arc, as PyG has it, `[2, B]`.
        arc: the arc of the graph that each is a copy of: the line of its edge features, `[B]`.
        num_rows: how many rows there are to send from and to.
        weight: a factor a message, or None for 1.
    """

    edge_index: Tensor
    arc: Tensor
    num_rows: int
    weight: Tensor | None = None

    @cached_property
    def degree(self) -> Tensor:
        """How many arcs end at each row, `[num_rows]`."""
        return torch.bincount(self.edge_index[1], minlength=self.num_rows)

    def sum_rows(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        r""":math:`y_v = \sum_{u \to v} w_{uv}\, x_u`.

        Args:
            x: `[num_rows, d]`.
            weight: a constant factor an arc (no gradient flows to it), in place of the arcs' own.
        """
        weight = self._factor(x, weight)
        return _SumRows.apply(x, self, weight) if self.arc.numel() else torch.zeros_like(x) + 0 * x

    def sum_messages(self, x: Tensor, e: Tensor, weight: Tensor | None = None) -> Tensor:
        r""":math:`y_v = \sum_{u \to v} w_{uv}\, \mathrm{ReLU}(x_u + e_{uv})`.

        Args:
            x: `[num_rows, d]`.
            e: a line an arc of the graph, `[A, d]`.
            weight: as in `sum_rows`.
        """
        weight = self._factor(x, weight)
        return _SumMessages.apply(x, e, self, weight) if self.arc.numel() else torch.zeros_like(x) + 0 * (x + e.sum(0))

    def _factor(self, x: Tensor, weight: Tensor | None) -> Tensor | None:
        weight = self.weight if weight is None else weight
        return None if weight is None else weight.detach().to(x.dtype)

    @cached_property
    def _into(self) -> "_Terms":
        return _Terms.sorted_by(self.edge_index[1], self.degree)

    @cached_property
    def _out_of(self) -> "_Terms":
        return _Terms.of(self.edge_index[0], self.num_rows)

    @cached_property
    def _copies(self) -> dict[int, "_Terms"]:
        return {}

    def _copies_of(self, graph_arcs: int) -> "_Terms":
        if graph_arcs not in self._copies:
            self._copies[graph_arcs] = _Terms.of(self.arc, graph_arcs)
        return self._copies[graph_arcs]


@dataclass(frozen=True, eq=False)
class _Terms:
    """Which arcs each result of a sum is made of: `order` lists them result by result, from `first` on."""

    order: Tensor
    first: Tensor

    @staticmethod
    def of(owner: Tensor, results: int) -> "_Terms":
        return _Terms(torch.argsort(owner, stable=True), ragged.starts(torch.bincount(owner, minlength=results)))

    @staticmethod
    def sorted_by(owner: Tensor, counts: Tensor) -> "_Terms":
        return _Terms(torch.arange(owner.numel(), device=owner.device), ragged.starts(counts))


def _add_up(lines: Tensor, which: Tensor, first: Tensor, weight: Tensor | None = None) -> Tensor:
    # `embedding_bag` reads each line once and writes only the sums; index_add would first write every term out.
    return F.embedding_bag(which, lines.contiguous(), first, mode="sum", per_sample_weights=weight)


class _SumRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, arcs: Arcs, weight: Tensor | None) -> Tensor:
        ctx.arcs, ctx.weight = arcs, weight
        return _add_up(x, arcs.edge_index[0], arcs._into.first, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        terms = ctx.arcs._out_of
        weight = None if ctx.weight is None else ctx.weight[terms.order]
        return _add_up(grad, ctx.arcs.edge_index[1][terms.order], terms.first, weight), None, None


class _SumMessages(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, e: Tensor, arcs: Arcs, weight: Tensor | None) -> Tensor:
        messages = x.index_select(0, arcs.edge_index[0]).add_(e.index_select(0, arcs.arc)).relu_()
        ctx.save_for_backward(messages)
        ctx.arcs, ctx.weight, ctx.graph_arcs = arcs, weight, e.size(0)
        return _add_up(messages, arcs._into.order, arcs._into.first, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (messages,) = ctx.saved_tensors
        arcs = ctx.arcs
        spread = grad.index_select(0, arcs.edge_index[1])
        if ctx.weight is not None:
            spread.mul_(ctx.weight[:, None])
        spread = torch.ops.aten.threshold_backward(spread, messages, 0)
        out_of, copies = arcs._out_of, arcs._copies_of(ctx.graph_arcs)
        grad_x = _add_up(spread, out_of.order, out_of.first)
        return grad_x, _add_up(spread, copies.order, copies.first), None, None
