"""`Columns`: arrays of a bag in GPU or pinned memory, computed once, from which batches are gathered."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.build.chunks import chunks
from esan.bags.padded.axes import AnyAxis, Axis
from esan.bags.padded.compute_columns import Column, ColumnSource
from esan.ops.device import is_gpu


@dataclass(frozen=True)
class ColumnLimits:
    """How many columns are computed at a time and where they are stored; batches do not depend on it.

    Attributes:
        chunk: the largest chunk of graphs that columns are computed for at a time, in rows plus edges.
        small: columns of at most so many bytes are always on the GPU.
        per_network: bytes of GPU memory for the other columns, per network: less than a step of DS or DSS takes.
    """

    chunk: int = 2**18
    small: int = 2**18
    per_network: int = 2**24


USUAL = ColumnLimits()


class Columns:
    """The columns computed so far, and the counts of their axes.

    Computing columns takes more memory than they need in the end. So they are computed for one chunk of graphs at a
    time, moved to the host and concatenated there. Columns go to the GPU up to a budget. The rest stays in pinned
    memory of the host, which kernels read over the bus: GPU memory does not grow with the dataset, and each value is
    read once per batch.

    Args:
        bag: the bag of the dataset.
        device: the device of the batches.
        networks: how many networks batches are for; the budget grows with it, since each reads its own batches.
        at_once: whether to compute columns for all graphs at once and to leave them on the device.
        limits: the sizes of chunks, and the budget.
    """

    def __init__(
        self,
        bag: Bag,
        device: torch.device,
        networks: int,
        *,
        at_once: bool,
        limits: ColumnLimits = USUAL,
    ) -> None:
        self._bag, self.device, self._at_once = replace(bag, sampled_from=None), device, at_once
        self._limits, self._budget = limits, networks * limits.per_network
        self._values: dict[Column, Tensor] = {}
        self.counts: dict[AnyAxis, Tensor] = {}

    def __getitem__(self, column: Column) -> Tensor:
        return self._values[column]

    def make(self, columns: Iterable[Column], axes: Iterable[AnyAxis]) -> None:
        """Compute those of these columns, and of the counts of these axes, that are missing."""
        missing = [column for column in dict.fromkeys(columns) if column not in self._values]
        for column in [column for column in missing if isinstance(column.values, int | float)]:
            missing.remove(column)
            self._values[column] = as_int32(column.values).to(self.device)  # type: ignore[arg-type]
        chunked: dict[Column, list[Tensor]] = {column: [] for column in missing}
        ends: dict[Column, list[list[int]]] = {column: [] for column in missing}
        counts: dict[AnyAxis, list[Tensor]] = {axis: [] for axis in axes if axis not in self.counts}
        for source in self.sources() if chunked or counts else ():
            for column in missing:
                values = source.column(column)
                chunked[column].append(values if self._at_once else values.cpu())
                ends[column].append(source.ends(column.axis))
            for axis, of_chunks in counts.items():
                of_chunks.append(source.counts(axis).int())
            del source  # before the next chunk is made: the device never holds two
        self.counts |= {axis: torch.cat(of_chunks, 1) for axis, of_chunks in counts.items()}
        for column in missing:
            self._values[column] = self._placed(column, concatenate_blocks(chunked.pop(column), ends[column]))

    def sources(self) -> Iterator[ColumnSource]:
        """What columns are computed from: the whole bag, or some graphs at a time."""
        bag, rows = self._bag, self._bag.rows
        sizes = rows.num_edges.sum(0) + rows.num_rows.sum(0) + bag.graphs.num_directed_edges
        some = [(0, len(bag))] if self._at_once else chunks(sizes, self._limits.chunk)
        for first, end in some:
            yield ColumnSource((bag if end - first == len(bag) else bag[first:end]).to(self.device))

    def _placed(self, column: Column, values: Tensor) -> Tensor:
        """The values where kernels read them; a caller that passes their address must keep them alive until then."""
        if isinstance(column.along, Axis) and column.along.absent:
            values = torch.cat([values, values.new_full((column.along.absent, *values.shape[1:]), column.absent)])
        if self._at_once or not is_gpu(self.device):
            return values.to(self.device)
        if values.nbytes > self._limits.small:
            if values.nbytes > self._budget:
                return values.pin_memory()
            self._budget -= values.nbytes
        return values.to(self.device)


def concatenate_blocks(chunked: Sequence[Tensor], ends: Sequence[list[int]]) -> Tensor:
    """The values of consecutive chunks of graphs, concatenated block by block."""
    if len(chunked) == 1:
        return chunked[0]
    blocks = [values.tensor_split(end[:-1]) for values, end in zip(chunked, ends, strict=True)]
    return torch.cat([block for same in zip(*blocks, strict=True) for block in same])


def as_int32(value: float) -> Tensor:
    """A number as int32; a float as the integer with the same bits."""
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float32).view(torch.int32)
    return torch.tensor(value, dtype=torch.int32)
