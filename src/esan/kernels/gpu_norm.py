"""Triton: weighted batch norm: moments of lines from tiles, normalising, and the gradient through both.

Parameters may have a leading dimension: then the lines are those of so many networks, one after another, each with as
many lines and with parameters of its own.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

#: Lines of a tile.
TILE = 64
#: Tiles (at most), and columns, that the last step of a sum over tiles works on at once.
_TILES, _COLUMNS = 512, 8


def tiles(rows: int) -> int:
    return triton.cdiv(rows, TILE)


def copies(parameter: Tensor, dimensions: int = 1) -> int:
    """How many networks a parameter is of, which has that many dimensions in one."""
    return parameter.size(0) if parameter.dim() > dimensions else 1


def _block(count: int) -> int:
    return min(_TILES, max(16, triton.next_power_of_2(count)))


def padded(width: int) -> int:
    return max(16, triton.next_power_of_2(width))


@dataclass(frozen=True, eq=False)
class TileMoments:
    """Of each tile of lines: its weight `[S, T]`, the weighted mean and sum of squared deviations, `[S, T, d]`."""

    weight: Tensor
    mean: Tensor
    deviation: Tensor

    @staticmethod
    def empty(lines: Tensor, networks: int, width: int) -> "TileMoments":
        count = tiles(lines.size(0) // networks)
        part = lines.new_empty(2, networks, count, width)
        return TileMoments(lines.new_empty(networks, count), part[0], part[1])


@dataclass(frozen=True, eq=False)
class Moments:
    """What normalising takes: `[S, d]` each; y = scale · x + shift, and 1 / N, `[S]`."""

    mean: Tensor
    inverse: Tensor
    scale: Tensor
    shift: Tensor
    share: Tensor


@triton.jit
def store_tile_moments(y, w, tile, column, width, tile_weight, tile_mean, tile_deviation):
    """Of one tile: y `[TILE, WIDTH]`, w `[TILE]`."""
    total = tl.sum(w, 0)
    mean = tl.sum(y * w[:, None], 0) / tl.maximum(total, 1e-30)
    centred = y - mean[None, :]
    deviation = tl.sum(centred * centred * w[:, None], 0)
    tl.store(tile_weight + tile, total)
    at = tile * width + column
    tl.store(tile_mean + at, mean, mask=column < width)
    tl.store(tile_deviation + at, deviation, mask=column < width)


@triton.jit(do_not_specialize=["rows"])
def _moments_kernel(
    x, weight, tile_weight, tile_mean, tile_deviation, rows, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    line = tl.program_id(0) * TILE + tl.arange(0, TILE)
    row = tl.program_id(1).to(tl.int64) * rows + line
    column = tl.arange(0, WIDTH)
    inside = line < rows
    mask = inside[:, None] & (column[None, :] < width)
    y = tl.load(x + row[:, None] * width + column[None, :], mask=mask, other=0.0)
    w = tl.load(weight + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0)
    store_tile_moments(y, w, tile, column, width, tile_weight, tile_mean, tile_deviation)


def tile_moments(x: Tensor, weight: Tensor | None, networks: int) -> TileMoments:
    """The moments of each tile of x, its lines counted `weight` times."""
    part = TileMoments.empty(x, networks, x.size(1))
    rows = x.size(0) // networks
    _moments_kernel[(tiles(rows), networks)](
        x, weight if weight is not None else x, part.weight, part.mean, part.deviation, rows, x.size(1),
        TILE=TILE, WIDTH=padded(x.size(1)), WEIGHTED=weight is not None,
    )  # fmt: skip
    return part


@triton.jit(do_not_specialize=["count"])
def _finish_kernel(
    tile_weight, tile_mean, tile_deviation, gamma, beta, running_mean, running_var, tracked,
    mean_out, inverse_out, scale_out, shift_out, share_out, count, width, eps, momentum,
    TILES: tl.constexpr, COLUMNS: tl.constexpr, TRACKS: tl.constexpr,
):  # fmt: skip
    network = tl.program_id(1)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    there = column < width
    tile_weight += network * count
    tile_mean += network * count * width
    tile_deviation += network * count * width
    total = tl.zeros((TILES,), tl.float32)
    first = tl.zeros((TILES, COLUMNS), tl.float32)
    for start in range(0, count, TILES):
        tile = start + tl.arange(0, TILES)
        w = tl.load(tile_weight + tile, mask=tile < count, other=0.0)
        mask = (tile < count)[:, None] & there[None, :]
        total += w
        first += w[:, None] * tl.load(tile_mean + tile[:, None] * width + column[None, :], mask=mask, other=0.0)
    weight = tl.sum(total, 0)
    n = tl.maximum(weight, 1.0)
    mean = tl.sum(first, 0) / n
    second = tl.zeros((TILES, COLUMNS), tl.float32)
    for start in range(0, count, TILES):
        tile = start + tl.arange(0, TILES)
        w = tl.load(tile_weight + tile, mask=tile < count, other=0.0)
        mask = (tile < count)[:, None] & there[None, :]
        at = tile[:, None] * width + column[None, :]
        apart = tl.load(tile_mean + at, mask=mask, other=0.0) - mean[None, :]
        second += tl.load(tile_deviation + at, mask=mask, other=0.0) + w[:, None] * apart * apart
    var = tl.sum(second, 0) / n
    inverse = 1.0 / tl.sqrt(var + eps)
    out = network * width + column
    scale = tl.load(gamma + out, mask=there, other=0.0) * inverse
    tl.store(mean_out + out, mean, mask=there)
    tl.store(inverse_out + out, inverse, mask=there)
    tl.store(scale_out + out, scale, mask=there)
    tl.store(shift_out + out, tl.load(beta + out, mask=there, other=0.0) - mean * scale, mask=there)
    if tl.program_id(0) == 0:
        tl.store(share_out + network, 1.0 / n)
    # An empty batch leaves no trace.
    if TRACKS and weight > 0:
        old_mean = tl.load(running_mean + out, mask=there, other=0.0)
        old_var = tl.load(running_var + out, mask=there, other=0.0)
        tl.store(running_mean + out, old_mean + momentum * (mean - old_mean), mask=there)
        tl.store(running_var + out, old_var + momentum * (var * (n / tl.maximum(n - 1.0, 1.0)) - old_var), mask=there)
        if tl.program_id(0) == 0:
            tl.store(tracked + network, tl.load(tracked + network) + 1)


@dataclass(frozen=True, eq=False)
class Tracked:
    """The buffers of a batch norm that follow its moments, and how fast."""

    mean: Tensor
    var: Tensor
    batches: Tensor
    momentum: float


def finish(part: TileMoments, gamma: Tensor, beta: Tensor, eps: float, tracked: Tracked | None) -> Moments:
    """The moments of all lines from those of tiles; the buffers follow them."""
    networks, width = copies(gamma), gamma.size(-1)
    count = part.weight.size(1)
    out = gamma.new_empty(4, networks, width)
    share = gamma.new_empty(networks)
    mean, var, batches = (gamma, gamma, gamma) if tracked is None else (tracked.mean, tracked.var, tracked.batches)
    _finish_kernel[(triton.cdiv(width, _COLUMNS), networks)](
        part.weight, part.mean, part.deviation, gamma, beta, mean, var, batches, out[0], out[1], out[2], out[3], share,
        count, width, eps, 0.0 if tracked is None else tracked.momentum,
        TILES=_block(count), COLUMNS=_COLUMNS, TRACKS=tracked is not None,
    )  # fmt: skip
    return Moments(out[0], out[1], out[2], out[3], share)


@triton.jit
def _frozen_kernel(gamma, beta, mean, var, inverse_out, scale_out, shift_out, width, eps, WIDTH: tl.constexpr):
    column = tl.arange(0, WIDTH)
    there = column < width
    at = tl.program_id(0) * width + column
    inverse = 1.0 / tl.sqrt(tl.load(var + at, mask=there, other=1.0) + eps)
    scale = tl.load(gamma + at, mask=there, other=0.0) * inverse
    shift = tl.load(beta + at, mask=there, other=0.0) - tl.load(mean + at, mask=there, other=0.0) * scale
    tl.store(inverse_out + at, inverse, mask=there)
    tl.store(scale_out + at, scale, mask=there)
    tl.store(shift_out + at, shift, mask=there)


def frozen(gamma: Tensor, beta: Tensor, tracked: Tracked, eps: float) -> Moments:
    """What normalising takes in eval mode, from the buffers."""
    networks, width = copies(gamma), gamma.size(-1)
    out = gamma.new_empty(3, networks, width)
    _frozen_kernel[(networks,)](
        gamma, beta, tracked.mean, tracked.var, out[0], out[1], out[2], width, eps, WIDTH=padded(width)
    )
    return Moments(tracked.mean, out[0], out[1], out[2], out[0])


@triton.jit(do_not_specialize=["rows"])
def _blend_kernel(
    x, scale, shift, shared, shared_scale, shared_shift, node, y, rows, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, RELU: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    line = tl.program_id(0) * TILE + tl.arange(0, TILE)
    row = tl.program_id(1).to(tl.int64) * rows + line
    column = tl.arange(0, WIDTH)
    inside = line < rows
    there = column < width
    of = tl.program_id(1) * width + column
    mask = inside[:, None] & there[None, :]
    here = row[:, None] * width + column[None, :]
    value = tl.load(x + here, mask=mask, other=0.0)
    value = value * tl.load(scale + of, mask=there, other=0.0) + tl.load(shift + of, mask=there, other=0.0)
    if SHARED:
        at = tl.load(node + row, mask=inside, other=0)
        other = tl.load(shared + at[:, None] * width + column[None, :], mask=mask, other=0.0)
        value += other * tl.load(shared_scale + of, mask=there, other=0.0)
        value += tl.load(shared_shift + of, mask=there, other=0.0)
    if RELU:
        value = tl.maximum(value, 0.0)
    tl.store(y + here, value, mask=mask)


def blend(x: Tensor, moments: Moments, relu: bool, shared: tuple[Tensor, Moments, Tensor] | None = None) -> Tensor:
    """Normalised x, plus the normalised line of each line's node if `shared` = (lines, moments, node), then ReLU."""
    y = torch.empty_like(x)
    s, of, node = (x, moments, x) if shared is None else shared
    networks = moments.scale.size(0)
    rows = x.size(0) // networks
    _blend_kernel[(tiles(rows), networks)](
        x, moments.scale, moments.shift, s, of.scale, of.shift, node, y, rows, x.size(1),
        TILE=TILE, WIDTH=padded(x.size(1)), RELU=relu, SHARED=shared is not None,
    )  # fmt: skip
    return y


@triton.jit(do_not_specialize=["rows"])
def _grad_sums_kernel(
    grad, gate, x, mean, inverse, part, rows, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    tile, network = tl.program_id(0), tl.program_id(1)
    line = tile * TILE + tl.arange(0, TILE)
    row = network.to(tl.int64) * rows + line
    column = tl.arange(0, WIDTH)
    there = column < width
    of = network * width + column
    mask = (line < rows)[:, None] & there[None, :]
    here = row[:, None] * width + column[None, :]
    g = tl.load(grad + here, mask=mask, other=0.0)
    if GATED:
        g = tl.where(tl.load(gate + here, mask=mask, other=0.0) > 0, g, 0.0)
    m = tl.load(mean + of, mask=there, other=0.0)
    standard = (tl.load(x + here, mask=mask, other=0.0) - m) * tl.load(inverse + of, mask=there, other=0.0)
    at = part + (network * tl.num_programs(0) + tile) * 2 * width + column
    tl.store(at, tl.sum(g, 0), mask=there)
    tl.store(at + width, tl.sum(g * standard, 0), mask=there)


def grad_sums(grad: Tensor, gate: Tensor | None, x: Tensor, moments: Moments) -> Tensor:
    """The sums of the gradient, and of the gradient times the standardised x, `[S, 2, d]`."""
    networks = moments.mean.size(0) if moments.mean.dim() > 1 else 1
    rows = x.size(0) // networks
    part = x.new_empty(networks, tiles(rows), 2 * x.size(1))
    _grad_sums_kernel[(tiles(rows), networks)](
        grad, gate if gate is not None else x, x, moments.mean, moments.inverse, part, rows, x.size(1),
        TILE=TILE, WIDTH=padded(x.size(1)), GATED=gate is not None,
    )  # fmt: skip
    return total(part).reshape(networks, 2, x.size(1))


@triton.jit(do_not_specialize=["count", "width", "end", "next_end"])
def _total_kernel(part, out, count, width, end, next_end, TILES: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    which = tl.program_id(1)
    there = column < width
    acc = tl.zeros((TILES, COLUMNS), tl.float32)
    for start in range(0, count, TILES):
        tile = start + tl.arange(0, TILES)
        mask = (tile < count)[:, None] & there[None, :]
        at = (which * count + tile[:, None]).to(tl.int64) * width + column[None, :]
        acc += tl.load(part + at, mask=mask, other=0.0)
    begin = tl.where(column < end, 0, tl.where(column < next_end, end, next_end))
    size = tl.where(column < end, end, tl.where(column < next_end, next_end - end, width - next_end))
    tl.store(out + tl.num_programs(1) * begin + which * size + column - begin, tl.sum(acc, 0), mask=there)


def total(part: Tensor) -> Tensor:
    """The sum over tiles, `[S, T, d]` → `[S, d]`, always in the same order."""
    return totals(part, part.size(2), 0)[0].view(part.size(0), part.size(2))


def totals(part: Tensor, first: int, second: int) -> tuple[Tensor, Tensor, Tensor]:
    """The same, the first columns, the next ones and the rest apart, each in one piece."""
    networks, width = part.size(0), part.size(2)
    out = part.new_empty(networks * width)
    columns = _COLUMNS if part.size(2) <= 1024 else 4 * _COLUMNS
    _total_kernel[(triton.cdiv(part.size(2), columns), part.size(0))](
        part,
        out,
        part.size(1),
        width,
        first,
        first + second,
        TILES=min(_block(part.size(1)), 4096 // columns),
        COLUMNS=columns,
    )
    pieces = out.split([networks * first, networks * second, networks * (width - first - second)])
    return pieces[0], pieces[1], pieces[2]


@triton.jit
def norm_backward_tile(g, standard, w, share, scale, sum_g, sum_gs):
    """Of one tile: the gradient of x from that of the normalised x, through mean and variance."""
    return scale[None, :] * (g - (w * share)[:, None] * (sum_g[None, :] + standard * sum_gs[None, :]))


@triton.jit(do_not_specialize=["rows"])
def _norm_backward_kernel(
    grad, gate, x, weight, mean, inverse, scale, share, sums, out, rows, width,
    TILE: tl.constexpr, WIDTH: tl.constexpr, GATED: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    network = tl.program_id(1)
    line = tl.program_id(0) * TILE + tl.arange(0, TILE)
    row = network.to(tl.int64) * rows + line
    column = tl.arange(0, WIDTH)
    inside = line < rows
    there = column < width
    of = network * width + column
    mask = inside[:, None] & there[None, :]
    here = row[:, None] * width + column[None, :]
    g = tl.load(grad + here, mask=mask, other=0.0)
    if GATED:
        g = tl.where(tl.load(gate + here, mask=mask, other=0.0) > 0, g, 0.0)
    m = tl.load(mean + of, mask=there, other=0.0)
    standard = (tl.load(x + here, mask=mask, other=0.0) - m) * tl.load(inverse + of, mask=there, other=0.0)
    w = tl.load(weight + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0)
    factor = tl.load(scale + of, mask=there, other=0.0)
    sum_g = tl.load(sums + 2 * network * width + column, mask=there, other=0.0)
    sum_gs = tl.load(sums + (2 * network + 1) * width + column, mask=there, other=0.0)
    value = norm_backward_tile(g, standard, w, tl.load(share + network), factor, sum_g, sum_gs)
    tl.store(out + here, value, mask=mask)


def norm_backward(
    grad: Tensor, gate: Tensor | None, x: Tensor, weight: Tensor | None, moments: Moments, sums: Tensor
) -> Tensor:
    """The gradient of x, given that of the normalised x where `gate` is positive, and its `grad_sums`."""
    out = torch.empty_like(x)
    networks = sums.size(0)
    rows = x.size(0) // networks
    _norm_backward_kernel[(tiles(rows), networks)](
        grad, gate if gate is not None else x, x, weight if weight is not None else x, moments.mean, moments.inverse,
        moments.scale, moments.share, sums, out, rows, x.size(1),
        TILE=TILE, WIDTH=padded(x.size(1)), GATED=gate is not None, WEIGHTED=weight is not None,
    )  # fmt: skip
    return out
