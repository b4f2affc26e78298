"""Triton kernels: tiles of rows: how many there are, how wide, which rows, and sums over them in a fixed order."""

from functools import cache
from itertools import accumulate

import triton
import triton.language as tl
from torch import Tensor

from esan.ops.dispatch import MAX_WIDTH
from esan.ops.segments import RowRanges

#: Rows of a tile.
TILE = 64
#: Tiles (at most), and columns, that the last step of a sum over tiles works on at once.
_TILES, COLUMNS = 512, 8


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up; Triton's own is far slower to call from Python."""
    return -(-a // b)


def power_of_2(n: int) -> int:
    """The least power of 2 that is n or more."""
    return 1 << max(0, n - 1).bit_length()


def tiles(rows: int, row_ranges: RowRanges | None = None, tile: int = TILE) -> int:
    """How many tiles so many rows fill, at most if some are padding; each slot begins with a tile of its own."""
    return cdiv(rows, tile) if row_ranges is None else sum(cdiv(capacity, tile) for capacity in row_ranges.capacity)


def num_networks_of(parameter: Tensor, dimensions: int = 1) -> int:
    """The number of networks of a parameter that has so many dimensions in one network."""
    return parameter.size(0) if parameter.dim() > dimensions else 1


@cache
def block(count: int) -> int:
    """How many of so many tiles the last step of a sum works on at once."""
    return min(_TILES, max(16, power_of_2(count)))


@cache
def padded(width: int) -> int:
    """The width of a tile that holds so many columns: Triton knows powers of 2, its products 16 at least."""
    return max(16, power_of_2(width))


@cache
def columns(width: int) -> int:
    """Columns of that width that a program works on at once: all, unless they are many, or a power of 2 idles lanes."""
    whole = padded(width)
    if whole > MAX_WIDTH:
        return MAX_WIDTH // 2
    return whole if width < 64 or width % 16 or 4 * whole <= 5 * width else width & -width


@triton.jit
def tile_rows(tile, rows, ranges, network, TILE: tl.constexpr, SLOTS: tl.constexpr):
    """Where the rows of a tile begin, and where those that are not padding end.

    With ranges (`RowRanges`), a tile lies in one slot, and the tiles of all slots follow one another: there are as many
    as the rows without padding fill, whatever the capacity. Any tile after these begins after its end.
    """
    first, end = tile * TILE, rows
    if SLOTS > 0:
        ranges += network * 2 * SLOTS
        begin, end = tl.load(ranges).to(tl.int32), tl.load(ranges + 1).to(tl.int32)
        first, before = begin + tile * TILE, tl.cdiv(end - begin, TILE)
        for slot in tl.static_range(1, SLOTS):
            begin, last = tl.load(ranges + 2 * slot).to(tl.int32), tl.load(ranges + 2 * slot + 1).to(tl.int32)
            first = tl.where(tile >= before, begin + (tile - before) * TILE, first)
            end = tl.where(tile >= before, last, end)
            before += tl.cdiv(last - begin, TILE)
    return first, end


@triton.jit
def range_of(slot, rows, ranges, network, SLOTS: tl.constexpr):
    """Where the rows without padding of a slot begin and end: all rows, if there are no ranges."""
    begin, end = rows * 0, rows
    if SLOTS > 0:
        ranges += 2 * (network * SLOTS + slot)
        begin, end = tl.load(ranges).to(tl.int32), tl.load(ranges + 1).to(tl.int32)
    return begin, end


@triton.jit
def left_over(next_tile, count):
    """The first tile of the next slot for this program, which takes every num_programs-th tile from `next_tile` on."""
    return next_tile + tl.cdiv(tl.maximum(count - next_tile, 0), tl.num_programs(0)) * tl.num_programs(0) - count


@triton.jit
def _total(part, out, block, count, width, end0, end1, end2, TILES: tl.constexpr, COLUMNS: tl.constexpr):
    """The sums over tiles of a block of columns."""
    column = block * COLUMNS + tl.arange(0, COLUMNS)
    which = tl.program_id(1)
    there = column < width
    acc = tl.zeros((TILES, COLUMNS), tl.float32)
    for start in range(0, count, TILES):
        tile = start + tl.arange(0, TILES)
        mask = (tile < count)[:, None] & there[None, :]
        at = (which * count + tile[:, None]).to(tl.int64) * width + column[None, :]
        acc += tl.load(part + at, mask=mask, other=0.0)
    begin = tl.where(column < end0, 0, tl.where(column < end1, end0, tl.where(column < end2, end1, end2)))
    end = tl.where(column < end0, end0, tl.where(column < end1, end1, tl.where(column < end2, end2, width)))
    to = tl.num_programs(1) * begin + which * (end - begin) + column - begin
    tl.store(out + to, tl.sum(acc, 0), mask=there)


@triton.jit(do_not_specialize=["count", "width", "end0", "end1", "end2"])
def _total_kernel(part, out, count, width, end0, end1, end2, TILES: tl.constexpr, COLUMNS: tl.constexpr):
    _total(part, out, tl.program_id(0), count, width, end0, end1, end2, TILES, COLUMNS)


@triton.jit(do_not_specialize=["blocks", "count", "width", "end", "count2", "width2", "end2"])
def _two_totals_kernel(
    part, out, count, width, end, part2, out2, count2, width2, end2, blocks,
    TILES: tl.constexpr, COLUMNS: tl.constexpr, TILES2: tl.constexpr, COLUMNS2: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    if block < blocks:
        _total(part, out, block, count, width, end, width, width, TILES, COLUMNS)
    else:
        _total(part2, out2, block - blocks, count2, width2, end2, width2, width2, TILES2, COLUMNS2)


def total(part: Tensor) -> Tensor:
    """The sum over tiles, `[S, T, d]` → `[S, d]`, always in the same order."""
    return totals(part, part.size(2)).view(part.size(0), part.size(2))


def total_pair(part: Tensor) -> Tensor:
    """The same where the columns are those of two sums, `[S, T, 2 d]` → `[2, S, d]`."""
    networks, width = part.size(0), part.size(2) // 2
    return totals(part, width, width).view(2, networks, width)


def totals(part: Tensor, *sizes: int) -> Tensor:
    """The same where the columns are those of up to four sums, each of so many: `[S, size]` after `[S, size]`, flat."""
    networks, width = part.size(0), part.size(2)
    out = part.new_empty(networks * width)
    high, wide = _block_of(part)
    ends = [*accumulate(sizes), width, width, width]
    _total_kernel[(cdiv(width, wide), networks)](
        part, out, part.size(1), width, ends[0], ends[1], ends[2], TILES=high, COLUMNS=wide
    )
    return out


def two_totals(part: Tensor, size: int, pair: Tensor) -> tuple[Tensor, Tensor]:
    """`totals` of a part whose columns are of two sums, the first of `size`; and `total_pair` of another, at once."""
    networks, width, width2 = part.size(0), part.size(2), pair.size(2)
    out, out2 = part.new_empty(networks * width), pair.new_empty(networks * width2)
    (high, wide), (high2, wide2) = _block_of(part), _block_of(pair)
    blocks = cdiv(width, wide)
    _two_totals_kernel[(blocks + cdiv(width2, wide2), networks)](
        part, out, part.size(1), width, size, pair, out2, pair.size(1), width2, width2 // 2, blocks,
        TILES=high, COLUMNS=wide, TILES2=high2, COLUMNS2=wide2,
    )  # fmt: skip
    return out, out2.view(2, networks, width2 // 2)


def _block_of(part: Tensor) -> tuple[int, int]:
    """How many tiles, and columns, of such a part a program adds up at once."""
    wide = COLUMNS if part.size(2) <= 1024 else 4 * COLUMNS
    return min(block(part.size(1)), 4096 // wide), wide
