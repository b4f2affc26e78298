"""Gather and renumber all fields of padded batches (see `bags.padded`).

A dataset has *axes* (its nodes, its edges, ...). The items of an axis come in one block or several, and within a block
graph by graph. A batch has the same axes: each block holds the items of the batch's graphs, then padding up to its
capacity. A *segment* is what one graph, or padding, has of a block. Only where segments begin depends on the batch.

An index into an axis is stored as `position << bits | block`, where `position` counts within the segment of its graph:
the index in a batch is the begin of that segment plus `position`, wherever the graph stands. So nothing is sorted or
searched for per batch. `lay_out_reference` is the reference; `esan.ops.triton.padded_layout` does it in one launch.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from math import prod

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class BatchSegments:
    """The T segments of a batch: axis by axis, block by block, those of its B graphs before those of padding.

    Attributes:
        counts: items of each graph in each of the R blocks of all axes, `[G + 1, R]`, int32; the last row is for
            −1, which stands for no graph.
        start: where these items begin in the dataset, `[R, G + 1]`.
        capacity: items of each block of a batch, `[R]`, int32; 0 for blocks whose padding is counted in other blocks.
        size: the size of each segment: its index in the counts `[B + 1, R]` of the batch's graphs and padding, `[T]`.
        before: the capacity of all axes before that of the segment, `[T]`, int32.
        block: the block of each segment, `[T]`, int32.
        place: the place of its graph in the batch; B, B + 1, ... for the padding of its axis, `[T]`, int32.
    """

    counts: Tensor
    start: Tensor
    capacity: Tensor
    size: Tensor
    before: Tensor
    block: Tensor
    place: Tensor

    def begin(self, ids: Tensor) -> Tensor:
        """Where each segment begins on its axis, `[N, T]`, int32, in the batches of the graphs `ids`, `[N, B]`."""
        counts = self.counts[ids]
        padding = self.capacity - counts.sum(1, dtype=torch.int32)
        size = torch.cat([counts, padding[:, None]], 1).flatten(1).index_select(1, self.size)
        return size.cumsum(1, dtype=torch.int32).sub_(size).sub_(self.before)


@dataclass(frozen=True)
class Fill:
    """What item k of a padding segment gets: `plus + times · begin[column] + stride · k`."""

    plus: int = 0
    column: int = 0
    times: int = 0
    stride: int = 0


@dataclass(frozen=True, eq=False)
class FieldGather:
    """Values along one axis, and where in a batch's buffer of ints or floats they go.

    Item i of a graph gets `times · (plus + values[i])`, where an index among the values is renumbered for the batch.

    Attributes:
        values: int16, int32 or int64, floats as the int32 of the same bits, `[items]` or `[items, width]`; `[]` for one
            value of all items. To int64 nothing is added.
        column: the first segment of the axis.
        columns: how many segments the axis has.
        count: items in the batch of one network.
        fills: what the padding segments of the axis get, in their order.
        to: the first segment of the axis that values are indices into; −1 if they are plain numbers.
        to_block: segments per block of that axis.
        bits: how many of the lowest bits of an index name its block.
        plus: added to the values of graphs.
        times: multiplies all values.
        offset: where the first value goes.
        stride: from one value to the next.
        network: from one network's values to the next one's.
        step: added for each network before.
        is_float: whether they go to the buffer of floats.
    """

    values: Tensor
    column: int
    columns: int
    count: int
    fills: Sequence[Fill]
    to: int = -1
    to_block: int = 0
    bits: int = 0
    plus: int = 0
    times: int = 1
    offset: int = 0
    stride: int = 1
    network: int = 0
    step: int = 0
    is_float: bool = False

    @property
    def width(self) -> int:
        """Values per item."""
        return prod(self.values.shape[1:])


def lay_out_reference(
    gathers: Sequence[FieldGather], segments: BatchSegments, ids: Tensor, ints: Tensor, floats: Tensor, networks: int
) -> None:
    """Write the fields of K batches, for several networks each.

    Args:
        gathers: what is written.
        segments: of a batch of one network.
        ids: the graphs of each batch and network, −1 for no graph, `[K, networks, B]`, or `[K, 1, B]` if all networks
            get the same.
        ints: the buffers of whole numbers, `[K, ...]`, int64.
        floats: those of floats.
        networks: how many networks there are.
    """
    (steps, listed), ids = ids.shape[:2], ids.flatten(0, 1)
    begin, network = segments.begin(ids).long(), torch.arange(networks, device=ids.device)[:, None]
    for gather in gathers:
        values = _gathered(gather, segments, ids, begin).flatten(1)
        values = values.view(steps, listed, values.size(1)).expand(-1, networks, -1)
        each = torch.arange(values.size(2), device=ids.device)
        where = (gather.offset + network * gather.network + each * gather.stride).flatten()
        if gather.is_float:
            floats[:, where] = values.flatten(1).int().view(torch.float32)
        else:
            ints[:, where] = (values + network * gather.step).flatten(1)


def _gathered(gather: FieldGather, segments: BatchSegments, ids: Tensor, begin: Tensor) -> Tensor:
    """The values of one network's batches, numbered for it, `[N, count, width]`."""
    graphs = ids.size(1)
    item = torch.arange(gather.count, device=ids.device).expand(ids.size(0), -1).contiguous()
    own = begin[:, gather.column : gather.column + gather.columns].contiguous()
    # The last segment that begins at or before the item: empty ones before it begin there too.
    column = gather.column + torch.searchsorted(own, item, right=True) - 1
    k, place = item - begin.gather(1, column), segments.place[column].long()
    in_graph = place < graphs
    graph = ids.gather(1, place.clamp(max=graphs - 1))
    old = (segments.start[segments.block[column].long(), graph] + k).masked_fill(~in_graph, 0)

    values = gather.values.reshape(-1, gather.width) if gather.values.dim() else gather.values.reshape(1, 1)
    values = values if values.size(0) else values.new_zeros(1, gather.width)
    code = values[old if gather.values.dim() else torch.zeros_like(old)].long()
    value = code >> gather.bits
    if gather.to >= 0:
        block = (code - (value << gather.bits)).squeeze(2)
        segment = gather.to + block * gather.to_block + place
        value += begin.gather(1, segment.masked_fill(~in_graph, 0))[:, :, None]
    fills = torch.tensor([astuple(fill) for fill in gather.fills] or [astuple(Fill())], device=ids.device)
    plus, base, times, stride = fills[(place - graphs).clamp(min=0)].unbind(2)
    padding = plus + times * begin.gather(1, base) + stride * k
    return torch.where(in_graph[:, :, None], value + gather.plus, padding[:, :, None]) * gather.times
