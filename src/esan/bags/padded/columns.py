"""`Columns`: what batches are gathered from, for the whole dataset, made some graphs at a time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.build.chunks import chunks
from esan.bags.padded.axes import AnyAxis, Axis
from esan.bags.padded.source import Column, Source
from esan.ops.device import is_gpu


@dataclass(frozen=True)
class ColumnLimits:
    """How columns are made and where they go; batches do not depend on it.

    Attributes:
        chunk: most rows, edges between them and edges of the graphs that columns are made for at a time.
        small: bytes of the largest column that is on the GPU in any case, where it costs less than a wait for the bus.
        per_network: bytes that the others may take there per network: less than a step of DS or DSS takes.
    """

    chunk: int = 2**18
    small: int = 2**18
    per_network: int = 2**24


USUAL = ColumnLimits()


class Columns:
    """The columns of a dataset that were asked for so far, and the counts of their axes.

    Making columns takes more memory than they have in the end, so they are made for some graphs at a time, moved to
    the host and joined there. Columns go to the GPU as long as there is room. The rest lies in pinned memory of the
    host, which kernels read over the bus: what the GPU holds does not grow with the dataset, and each value is read
    once per batch.

    Args:
        bag: the bag of the dataset.
        device: that batches are laid out on.
        networks: how many networks batches are for; more networks read more per step, so there is more room for them.
        at_once: whether to make columns for all graphs at once and to leave them on the device.
        limits: how many are made at a time, and where they go.
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
        self._bag, self.device, self._at_once = replace(bag, whole=None), device, at_once
        self._limits, self._room = limits, networks * limits.per_network
        self._values: dict[Column, Tensor] = {}
        self.counts: dict[AnyAxis, Tensor] = {}

    def __getitem__(self, column: Column) -> Tensor:
        return self._values[column]

    def make(self, columns: Iterable[Column], axes: Iterable[AnyAxis]) -> None:
        """Make what is not there yet of these columns, and of the counts of these axes."""
        lacking = [column for column in dict.fromkeys(columns) if column not in self._values]
        for column in [column for column in lacking if isinstance(column.values, int | float)]:
            lacking.remove(column)
            self._values[column] = as_int32(column.values).to(self.device)  # type: ignore[arg-type]
        made: dict[Column, list[Tensor]] = {column: [] for column in lacking}
        ends: dict[Column, list[list[int]]] = {column: [] for column in lacking}
        counts: dict[AnyAxis, list[Tensor]] = {axis: [] for axis in axes if axis not in self.counts}
        for source in self._sources() if made or counts else ():
            for column in lacking:
                values = source.column(column)
                made[column].append(values if self._at_once else values.cpu())
                ends[column].append(source.ends(column.axis))
            for axis, parts in counts.items():
                parts.append(source.counts(axis))
        self.counts |= {axis: torch.cat(parts, 1) for axis, parts in counts.items()}
        for column in lacking:
            self._values[column] = self._placed(column, joined(made.pop(column), ends[column]))

    def _sources(self) -> Iterator[Source]:
        bag, rows = self._bag, self._bag.rows
        sizes = rows.num_arcs.sum(0) + rows.num_rows.sum(0) + bag.graphs.num_arcs
        some = [(0, len(bag))] if self._at_once else chunks(sizes, self._limits.chunk)
        for first, end in some:
            yield Source((bag if end - first == len(bag) else bag[first:end]).to(self.device))

    def _placed(self, column: Column, values: Tensor) -> Tensor:
        """The values where kernels read them; who gives their address to a kernel holds them until that has read."""
        if isinstance(column.along, Axis) and column.along.absent:
            values = torch.cat([values, values.new_full((column.along.absent, *values.shape[1:]), column.absent)])
        if self._at_once or not is_gpu(self.device):
            return values.to(self.device)
        if values.nbytes > self._limits.small:
            if values.nbytes > self._room:
                return values.pin_memory()
            self._room -= values.nbytes
        return values.to(self.device)


def joined(parts: Sequence[Tensor], ends: Sequence[list[int]]) -> Tensor:
    """Block by block the values of one chunk of graphs after another; blocks that a stage does not have are empty."""
    if len(parts) == 1:
        return parts[0]
    blocks = [values.tensor_split(end[:-1]) for values, end in zip(parts, ends, strict=True)]
    return torch.cat([block for same in zip(*blocks, strict=True) for block in same])


def as_int32(value: float) -> Tensor:
    """A number as int32: that of the same bits, for a float."""
    return torch.tensor(value).view(torch.int32) if isinstance(value, float) else torch.tensor(value, dtype=torch.int32)
