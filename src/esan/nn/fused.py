"""Layers whose convolution is GIN's or GINE's, with norm and ReLU, through the fused GPU kernels."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from esan import ops as kernels
from esan.bags import Arcs, Bag, Stage
from esan.bags.padded import PaddedBag
from esan.nn.conv import GIN, GINE, Conv
from esan.nn.norm import BatchNorm, is_just, is_relu
from esan.ops.dispatch import WIDEST
from esan.ops.real import Real
from esan.ops.triton.ahead import Ahead

if TYPE_CHECKING:
    from esan.nn.layer import DSLayer, DSSLayer
    from esan.ops.triton.gather import PoolBeside

#: Widths that are multiples of this are read fast.
_VECTOR = 16


def fits(layer: "DSLayer | DSSLayer", h: Tensor) -> bool:
    """Whether this layer, on these rows, goes through the kernels; the answer is the same either way."""
    if not kernels.on_gpu(h) or not h.size(0) or not is_relu(layer.act):
        return False
    if getattr(layer, "bag_pool", "mean") not in ("sum", "mean"):
        return False
    branches: list[tuple[Any, Any]] = [(layer.inside, layer.norm)]
    if hasattr(layer, "shared"):
        branches.append((layer.shared, layer.shared_norm))
    return all(_fits(conv, norm) for conv, norm in branches)


def _fits(conv: Any, norm: Any) -> bool:
    if not isinstance(conv, GIN | GINE) or not isinstance(norm, BatchNorm):
        return False
    mlp = conv.mlp
    widest = max(mlp.first.in_features, mlp.first.out_features, mlp.second.out_features)
    return widest <= WIDEST and all(n.fused for n in (mlp.norm, norm))


def ds_layer(layer: "DSLayer", h: Tensor, bag: Bag, stage: Stage) -> Tensor:
    """`DSLayer.forward`."""
    from esan.ops.triton import blocks

    h = _aligned(h)
    norm = cast(BatchNorm, layer.norm)
    norm.refuse_one(h, stage.norm_weight)
    c, rows = _mlp(layer.inside, _aggregate(layer.inside, h, stage.arcs, bag), stage.norm_weight, stage.real)
    ahead = _ahead(bag)
    y = blocks.Normalise.apply(c, norm.weight, norm.bias, norm.for_kernels(), rows, True, ahead)
    return y if ahead is None else ahead.attach(y)


def dss_layer(layer: "DSSLayer", h: Tensor, bag: Bag, stage: Stage) -> Tensor:
    """`DSSLayer.forward` where the bag is pooled by sum or mean."""
    h = _aligned(h)
    side = bag.side if isinstance(bag, PaddedBag) else None
    own, shared = cast(BatchNorm, layer.norm), cast(BatchNorm, layer.shared_norm)
    own.refuse_one(h, stage.norm_weight)
    pool = stage.pool_beside(layer.bag_pool)
    u = _aggregate(layer.inside, h, stage.arcs, bag, pool)
    # The shared branch is small and does not need the other: where there is a second stream, it takes no time.
    pooled = cast(Tensor, pool.lines)
    shared.refuse_one(pooled, bag.node_weight)
    with _beside(side):
        if side is not None:
            pooled.record_stream(side)  # what is done there may outlast what is done here
        around = _aggregate(layer.shared, pooled, bag.shared.between_nodes(layer.adjacency), bag)
        s, nodes = _mlp(layer.shared, around, bag.node_weight)
    c, rows = _mlp(layer.inside, u, stage.norm_weight, stage.real)
    if side is not None:
        torch.cuda.current_stream(h.device).wait_stream(side)
    return _blended(layer, (c, s), (rows, nodes), stage, _ahead(bag))


def ends(layer: "DSLayer | DSSLayer", c: Tensor) -> bool:
    """Whether the norms, sum and ReLU that a layer ends with are one kernel, whatever its convolutions are."""
    norms = (layer.norm, getattr(layer, "shared_norm", layer.norm))
    usual = is_relu(layer.act) and all(is_just(norm, BatchNorm) and cast(BatchNorm, norm).fused for norm in norms)
    return usual and kernels.on_gpu(c) and c.size(0) > 0


def normalised(layer: "DSLayer", c: Tensor, stage: Stage) -> Tensor:
    """The end of a layer: ReLU of the normalised rows c, 0 in those that stand for no pair."""
    from esan.ops.triton import blocks

    norm = cast(BatchNorm, layer.norm)
    norm.refuse_one(c, stage.norm_weight)
    return blocks.Normalise.apply(
        c, norm.weight, norm.bias, norm.for_kernels(), blocks.Rows(stage.norm_weight, settled=True), True
    )


def blended(layer: "DSSLayer", c: Tensor, s: Tensor, bag: Bag, stage: Stage) -> Tensor:
    """The same plus, for each row, the normalised line s of its node."""
    from esan.ops.triton.blocks import Rows

    own, shared = cast(BatchNorm, layer.norm), cast(BatchNorm, layer.shared_norm)
    own.refuse_one(c, stage.norm_weight)
    shared.refuse_one(s, bag.node_weight)
    return _blended(layer, (c, s), (Rows(stage.norm_weight, settled=True), Rows(bag.node_weight)), stage)


def _blended(
    layer: "DSSLayer", lines: tuple[Tensor, Tensor], rows: tuple[Any, Any], stage: Stage, ahead: Ahead | None = None
) -> Tensor:
    from esan.ops.triton import blocks

    own, shared = cast(BatchNorm, layer.norm), cast(BatchNorm, layer.shared_norm)
    group = stage.by_node
    spread = blocks.Spread(group.owner, group.order, group.first, group.count)
    norms = own.for_kernels(), shared.for_kernels()
    y = blocks.Blend.apply(
        lines[0], own.weight, own.bias, lines[1], shared.weight, shared.bias, norms, rows, spread, ahead
    )  # fmt: skip
    return y if ahead is None else ahead.attach(y)


def _ahead(bag: Bag) -> Ahead | None:
    # Without gradients, it would only keep alive what the norm was given.
    return Ahead() if isinstance(bag, PaddedBag) and torch.is_grad_enabled() else None


def filled(width: int) -> int:
    """The width that lines of this width are filled up to."""
    return width if width <= _VECTOR else width + -width % _VECTOR


def _aligned(lines: Tensor) -> Tensor:
    """The lines filled up with zeros to a width that is read in whole vectors: marks make it two more than it was."""
    extra = filled(lines.size(-1)) - lines.size(-1)
    return F.pad(lines, (0, extra)) if extra else lines


@contextmanager
def _beside(side: "torch.cuda.Stream | None") -> Iterator[None]:
    """On the side stream, after what the current one has got to do so far."""
    if side is None:
        yield
        return
    side.wait_stream(torch.cuda.current_stream(side.device))
    with torch.cuda.stream(side):
        yield


def _aggregate(conv: Conv, h: Tensor, arcs: Arcs, bag: Bag, pool: "PoolBeside | None" = None) -> Tensor:
    return cast(GIN | GINE, conv).aggregate(h, arcs, bag.graphs.edge_attr, pool)  # as `fits` has found


def _mlp(conv: Conv, u: Tensor, weight: Tensor | None, real: Real | None = None) -> tuple[Tensor, Any]:
    """The MLP, and what the norm behind it takes."""
    from esan.ops.triton import blocks
    from esan.ops.triton.moments import TileMoments

    mlp = cast(GIN | GINE, conv).mlp
    behind = blocks.Behind()
    c, *part = blocks.MLP.apply(
        u, _aligned(mlp.first.weight), mlp.first.bias, mlp.norm.weight, mlp.norm.bias,
        mlp.second.weight, mlp.second.bias,
        mlp.norm.for_kernels(), weight, behind, real,
    )  # fmt: skip
    return c, blocks.Rows(weight, TileMoments(*part), behind, real, settled=True)
