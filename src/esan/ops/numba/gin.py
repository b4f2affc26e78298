"""A whole branch of a layer on a CPU: sum of messages, GIN's MLP and the norm behind it, rows staying in the cache."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.ops.dispatch import first_order
from esan.ops.edges import Arcs, Coded
from esan.ops.gin import GINBranch, LayerRows, SharedBranch
from esan.ops.numba import norm as norms
from esan.ops.numba.loops import gin as gin_loops
from esan.ops.numba.messages import Onward, messages_backward
from esan.ops.numba.norm import Norm, Parts, applied, grad_sums
from esan.ops.numba.runtime import blas, pieces, run
from esan.ops.numba.workspace import empty_table
from esan.ops.segments import Grouping

#: The numbers of a table that a piece of rows is to have, so that three such tables stay in a core's cache.
_CACHED = 32768
#: Rows that begin to differ in a layer are read from where they still are: its input may be that of an earlier stage.
READS_EARLIER_ROWS = True
#: The gradients of matrices are summed in so many parts at most.
_PARTS = 16


@dataclass(frozen=True, eq=False)
class Branch:
    """What a branch is made of besides its tensors.

    Attributes:
        arcs: the arcs into the rows, from the rows of x, an `Arcs`.
        code: the edge line of each arc of the graph; None where each has a line of its own.
        factor: a factor a message; None for 1.
        weight: how many pairs each row stands for, in the precision of the rows; None for 1.
        norms: the norm inside the MLP and the one behind it.
        relu: whether ReLU comes last.
        groups: which rows each added line belongs to; None where none is added.
        onward: how rows go on from those of x; None where x has all rows.
    """

    arcs: Any
    code: Tensor | None
    factor: Tensor | None
    weight: Tensor | None
    norms: tuple[Any, Any]
    relu: bool
    groups: Any = None
    onward: Onward | None = None


def takes(like: Tensor, branches: list[GINBranch], view: LayerRows) -> bool:
    """Whether the loops compute such a layer: of one network, whose norms read the batch."""
    rows = like.new_empty(3, 1)
    # Norms over so few rows look for a single pair, which is refused; what is shared has a row per node.
    few = view.num_rows <= 2 or (len(branches) > 1 and view.by_node.size <= 2)
    return view.plain and not few and all(_takes(rows, branch) for branch in branches)


def _takes(rows: Tensor, branch: GINBranch) -> bool:
    matrices = all(w.dtype == rows.dtype and w.dim() == 2 and w.numel() > 0 for w in branch.matrices)
    return (
        matrices
        and branch.own.numel() == 1
        and all(norms.takes(rows, norm) for norm in branch.norms)
        and blas(rows.dtype) != 0
    )


def layer(
    h: Tensor,
    inside: GINBranch,
    shared: SharedBranch | None,
    view: Any,
    given: Any,
    chained: bool,  # noqa: ARG001
) -> Tensor:
    """`esan.ops.gin.gin_layer`; rows that begin to differ in this layer are read from where they still are."""
    added = None
    if shared is not None:
        # What is pooled over the bag is the same before rows are lifted, when they are fewer.
        h, pooled = given.lift_and_pool(h, shared.pool)
        added = branch(shared.branch, pooled, RowsRead(shared.edges, shared.multiplicity))
    return view.zero_empty_rows(branch(inside, h, RowsRead.of(view, h), relu=True, added=added))


@dataclass(frozen=True, eq=False)
class RowsRead:
    """The rows that a branch gives, and what it reads for them.

    Attributes:
        edges: the edges into them.
        multiplicity: how many pairs each stands for; None for one.
        onward: how they go on from the rows that are read; None where these are the same.
        by_node: the rows by their node; None for nodes themselves.
    """

    edges: Arcs
    multiplicity: Tensor | None = None
    onward: Onward | None = None
    by_node: Grouping | None = None

    @staticmethod
    def of(view: Any, h: Tensor) -> "RowsRead":
        """The rows of a view, which h has all of, or the first."""
        known = h.size(0)
        onward = None if known == view.num_rows else Onward(known, view.by_node)
        return RowsRead(view.arcs_from(known), view.multiplicity_in(h.dtype), onward, view.by_node)


def branch(of: GINBranch, h: Tensor, rows: RowsRead, relu: bool = False, added: Tensor | None = None) -> Tensor:
    """A convolution and the norm behind it, with the row of its node added to each row and ReLU if wanted."""
    e = None if of.features is None else of.features(h)
    table, code = (e.table, e.code.contiguous()) if isinstance(e, Coded) else (e, None)
    groups = None if added is None else rows.by_node
    multiplicity = None if rows.multiplicity is None else rows.multiplicity.to(h.dtype)
    parts = Branch(rows.edges, code, rows.edges.factor(h), multiplicity, of.norms, relu, groups, rows.onward)
    return Layer.apply(
        h, table, of.own, of.w1, of.b1, of.inner.gamma, of.inner.beta, of.w2, of.b2, of.outer.gamma, of.outer.beta,
        added, parts,
    )  # fmt: skip


class Layer(torch.autograd.Function):
    r""":math:`y = \sigma(\mathrm{norm}_2(W_2 \mathrm{ReLU}(\mathrm{norm}_1(W_1 a))) + s)`, a the sum of messages.

    The biases of both matrices are taken out again by the norms: they matter for the running means alone, and their
    gradient is 0.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        e: Tensor | None,
        own: Tensor | None,
        w1: Tensor,
        b1: Tensor,
        gamma1: Tensor | None,
        beta1: Tensor | None,
        w2: Tensor,
        b2: Tensor,
        gamma2: Tensor | None,
        beta2: Tensor | None,
        added: Tensor | None,
        branch: Branch,
    ) -> Tensor:
        x, w1, w2, (known, d) = x.contiguous(), w1.contiguous(), w2.contiguous(), x.shape
        e, added = (None if t is None else t.contiguous() for t in (e, added))
        (o1, o2), arcs, code, weight = (w1.size(0), w2.size(0)), branch.arcs, branch.code, branch.weight
        n, size = arcs.num_rows, _piece(max(d, o1, o2))
        count = pieces(n, size)

        a, z, c = empty_table(x, n, d), empty_table(x, n, o1), empty_table(x, n, o2)
        part, source = Parts.empty(x, count, o1), arcs.ends[0]
        lines, num_arcs, onward = 0 if e is None else e.size(0), source.numel(), branch.onward
        run(
            gin_loops.first, x, count, n, d, o1, lines, num_arcs, size, x, e, a, source, arcs.arc, arcs.into.first,
            branch.factor, own, code, 0 if code is None else code.numel(), w1, z, weight, part.total, part.mean,
            part.square, blas(x.dtype), known, n if onward is None else onward.kept,
            None if onward is None else onward.rows.owner,
        )  # fmt: skip
        norm1 = Norm.of(part, branch.norms[0], gamma1, beta1, b1)
        part = Parts.empty(x, count, o2)
        run(
            gin_loops.second, x, count, n, o1, o2, size, z, w2, c, norm1.mean, norm1.scale, norm1.shift, weight,
            part.total, part.mean, part.square, blas(x.dtype),
        )  # fmt: skip
        norm2 = Norm.of(part, branch.norms[1], gamma2, beta2, b2)
        y = applied(c, norm2, branch.relu, added, branch.groups)
        ctx.save_for_backward(x, e, own, w1, w2, a, z, c, y if branch.relu else None)
        ctx.branch, ctx.norm1, ctx.norm2, ctx.size = branch, norm1, norm2, size
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, e, own, w1, w2, a, z, c, y = ctx.saved_tensors
        branch, norm1, norm2, size, grad = ctx.branch, ctx.norm1, ctx.norm2, ctx.size, grad.contiguous()
        y = c if y is None else y
        (n, d), (o1, o2), weight = a.shape, (w1.size(0), w2.size(0)), branch.weight
        parts = min(pieces(n, size), _PARTS)

        plain, times, grad_added = grad_sums(c, y, grad, norm2.mean, branch.relu, branch.groups)
        by_mean, by_var, grad_gamma2, grad_beta2 = norm2.through(plain, times)
        g, part_w = empty_table(z, n, o1), w2.new_empty(parts, *w2.shape)
        plain, times = z.new_empty(2, parts, o1)
        run(
            gin_loops.back_second, x, parts, n, o1, o2, size, branch.relu, c, y, grad, weight, norm2.mean,
            norm2.scale, by_mean, by_var, z, norm1.mean, norm1.scale, norm1.shift, w2, g, part_w, plain, times,
            blas(x.dtype),
        )  # fmt: skip
        grad_w2 = part_w.sum(0)
        by_mean, by_var, grad_gamma1, grad_beta1 = norm1.through(plain, times)
        grad_a, part_w = empty_table(a, n, d), w1.new_empty(parts, *w1.shape)
        run(
            gin_loops.back_first, x, parts, n, d, o1, size, z, g, weight, norm1.mean, norm1.scale, by_mean, by_var,
            a, w1, grad_a, part_w, blas(x.dtype),
        )  # fmt: skip
        grad_w1 = part_w.sum(0)
        grad_x, grad_e, grad_own = messages_backward(
            grad_a, x, e, own, branch.code, branch.arcs, branch.factor, ctx.needs_input_grad[1],
            ctx.needs_input_grad[2], branch.onward,
        )  # fmt: skip
        grads = (
            grad_x, grad_e, grad_own,
            grad_w1, grad_w1.new_zeros(o1), grad_gamma1, grad_beta1,
            grad_w2, grad_w2.new_zeros(o2), grad_gamma2, grad_beta2,
            grad_added, None,
        )  # fmt: skip
        return tuple(g if needed else None for g, needed in zip(grads, ctx.needs_input_grad, strict=True))


def _piece(width: int) -> int:
    return min(max(_CACHED // width, 32), 1024)
