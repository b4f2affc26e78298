"""Triton: a layer of GIN convolutions, with norms and ReLU, through the fused kernels."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from esan.ops.edges import Arcs
from esan.ops.gin import GINBranch, LayerRows, SharedBranch
from esan.ops.limits import WIDEST
from esan.ops.real import Real
from esan.ops.rows import RowView
from esan.ops.triton import blocks
from esan.ops.triton import norm as norms
from esan.ops.triton.ahead import Ahead
from esan.ops.triton.kernels.moments import TileMoments
from esan.ops.triton.messages import PoolBeside, message_sum

#: Widths that are multiples of this are read fast.
_VECTOR = 16


def takes(like: Tensor, branches: list[GINBranch], view: LayerRows) -> bool:
    """Whether the kernels compute such a layer: no wider than they are written for, norms as they know them."""
    widest = max(width for branch in branches for matrix in branch.matrices for width in matrix.shape[-2:])
    rows = like.new_empty(1, 1) if view.num_rows else like.new_empty(0, 1)
    return widest <= WIDEST and all(norms.takes(rows, norm) for branch in branches for norm in branch.norms)


def layer(
    h: Tensor,
    inside: GINBranch,
    shared: SharedBranch | None,
    view: Any,
    given: RowView,  # noqa: ARG001
    chained: bool,
) -> Tensor:
    """`esan.ops.gin.gin_layer`."""
    h = _aligned(view.lift(h))
    multiplicity = view.multiplicity_in(torch.float32)
    inside.outer.refuse_single(h, multiplicity)
    # Without gradients, it would only keep alive what the norm was given.
    ahead = Ahead() if chained and torch.is_grad_enabled() else None
    if shared is None:
        c, rows = _mlp(inside, _messages(inside, h, view.arcs), multiplicity, view.real)
        outer = inside.outer
        y = blocks.Normalise.apply(c, outer.gamma, outer.beta, norms.norm_of(outer), rows, True, ahead)
        return y if ahead is None else ahead.attach(y)
    side = view.side
    pool = PoolBeside(view.by_node, view.bag_weight(shared.pool, torch.float32))
    u = _messages(inside, h, view.arcs, pool)
    # The shared branch is small and does not need the other: on a second stream it takes no time.
    pooled = pool.lines
    assert pooled is not None
    shared.branch.outer.refuse_single(pooled, shared.multiplicity)
    with _beside(side):
        if side is not None:
            pooled.record_stream(side)  # what is done there may outlast what is done here
        around = _messages(shared.branch, pooled, shared.edges)
        s, nodes = _mlp(shared.branch, around, shared.multiplicity)
    c, rows = _mlp(inside, u, multiplicity, view.real)
    if side is not None:
        torch.cuda.current_stream(h.device).wait_stream(side)
    own, other = inside.outer, shared.branch.outer
    y = blocks.Blend.apply(
        c, own.gamma, own.beta, s, other.gamma, other.beta, (norms.norm_of(own), norms.norm_of(other)), (rows, nodes),
        norms.spread_of(view), ahead,
    )  # fmt: skip
    return y if ahead is None else ahead.attach(y)


def aligned_width(width: int) -> int:
    """The width that rows of this width are padded to, so that they are read in whole vectors."""
    return width if width <= _VECTOR else width + -width % _VECTOR


def _aligned(rows: Tensor) -> Tensor:
    """The rows padded with zeros to such a width: marks make it two more than it was."""
    extra = aligned_width(rows.size(-1)) - rows.size(-1)
    return F.pad(rows, (0, extra)) if extra else rows


@contextmanager
def _beside(side: "torch.cuda.Stream | None") -> Iterator[None]:
    """On the side stream, after what the current one has got to do so far."""
    if side is None:
        yield
        return
    side.wait_stream(torch.cuda.current_stream(side.device))
    with torch.cuda.stream(side):
        yield


def _messages(branch: GINBranch, h: Tensor, edges: Arcs, pool: PoolBeside | None = None) -> Tensor:
    e = None if branch.features is None else branch.features(h)
    return message_sum(h, edges, e, branch.own, edges.factor(h), pool)


def _mlp(branch: GINBranch, u: Tensor, multiplicity: Tensor | None, real: Real | None = None) -> tuple[Tensor, Any]:
    """The MLP, and what the norm behind it takes."""
    behind, inner = blocks.Behind(), branch.inner
    c, *part = blocks.MLP.apply(
        u, _aligned(branch.w1), branch.b1, inner.gamma, inner.beta, branch.w2, branch.b2,
        norms.norm_of(inner), multiplicity, behind, real,
    )  # fmt: skip
    return c, blocks.Rows(multiplicity, TileMoments(*part), behind, real, settled=True)
