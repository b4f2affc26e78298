"""`PaddedBatches`: batches of a bag in a few fixed shapes, laid out on a device ahead of the work on them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.padded.bag import PaddedBag
from esan.bags.padded.buffers import Batches
from esan.bags.padded.padder import Padder
from esan.bags.padded.shapes import COARSE, Rooms, Shape, Sizes, sized
from esan.ops.device import is_capturing, prefetched, sent, side_stream

#: Batches laid out at a time: enough to keep the device busy, few enough to cost little memory; and their bytes, where
#: that makes fewer.
_AT_ONCE, _AT_ONCE_BYTES = 4, 2**23
#: Rows of a network from which on several shapes pay, even where padding is skipped: idle programs take time.
_MANY_ROWS = 2**20


class PaddedBatches:
    """Lays out batches of a bag on a device, each in the smallest of a few shapes that holds it.

    Which fields of a batch are needed is learned from the first batch: what nothing reads is never laid out.

    Args:
        bag: the bag of the dataset, on any device; compact or literal.
        device: where batches are laid out.
        networks: how many networks a batch is for.
        sizes: the shapes; None for one per number of graphs, and a few where batches are huge.
        at_once: whether what batches are gathered from is made at once and for one pass only, as of a sample.
        rooms: the shapes that are known from other batches; None for none.
        read: the fields that are known to be read; added to.
    """

    def __init__(
        self,
        bag: Bag,
        device: torch.device,
        networks: int = 1,
        sizes: Sizes | None = None,
        at_once: bool = False,
        *,
        rooms: Rooms | None = None,
        read: set[str] | None = None,
    ) -> None:
        self.bag, self.device, self.networks, self._sizes, self._at_once = bag, device, networks, sizes, at_once
        self._rooms = Rooms() if rooms is None else rooms
        #: The fields that something has read.
        self.read: set[str] = set() if read is None else read
        self._bytes: dict[Shape, int] = {}
        self._padder = Padder(bag, bag.num_layers or 1, device, at_once=at_once)
        self._literal: PaddedBatches | None = None

    def of(self, bag: Bag) -> "PaddedBatches":
        """The same shapes and fields for another sample of the bag."""
        return PaddedBatches(
            bag, self.device, self.networks, self._sizes, self._at_once, rooms=self._rooms, read=self.read
        )

    def __call__(self, steps: Sequence[np.ndarray]) -> Iterator[PaddedBag]:
        """The batches of these steps, `[S or 1, B]` each, −1 for no graph; the next ones are laid out ahead."""
        chunks = prefetched(self._laid_out, self._chunks(steps), _tensors, self.device)
        for chunk in chunks:
            yield from chunk

    def literal(self, bag: PaddedBag) -> Bag:
        """The same batch with a row for every pair."""
        if self._literal is None:
            self._literal = PaddedBatches(replace(self.bag, whole=None).to_literal(), self.device, self.networks)
        assert isinstance(bag.fields, LaidFields)
        ids = bag.fields.ids
        return self._literal.at(ids.cpu().numpy(), ids)

    def at(self, ids: np.ndarray, there: Tensor) -> PaddedBag:
        """One batch, of the graphs `[S or 1, B]`, whose numbers are on the device too."""
        ((shape, _),) = self._shapes(ids[None])
        return self._bag(shape, there, None, 0)

    # -- shapes --------------------------------------------------------------------------------------------------

    def _shapes(self, steps: np.ndarray) -> Iterator[tuple[Shape, slice]]:
        """The shapes of steps `[K, S, B]`, and which of them have each, in order."""
        size, counts = steps.shape[-1], self._padder.counts
        most = self._rooms.holding(steps.reshape(-1, size), counts)
        sizes = COARSE if self._sizes is None and sum(most.rows) >= _MANY_ROWS else self._sizes
        return iter([(most, slice(None))]) if sizes is None else sized(most, steps, counts, sizes)

    def _chunks(self, steps: Sequence[np.ndarray]) -> Iterator[tuple[Shape, Tensor]]:
        """Steps that follow one another and have one shape, some at a time; few at first, so that work begins soon."""
        begin, first = 0, True
        while begin < len(steps):
            end = begin
            while end < len(steps) and steps[end].shape == steps[begin].shape:
                end += 1
            alike = np.stack(steps[begin:end])
            ids = sent(torch.from_numpy(alike), self.device)
            for shape, some in self._shapes(alike):
                part = ids[some]
                while len(part):
                    taken = 1 if first else self._at_once_of(shape)
                    yield shape, part[:taken]
                    part, first = part[taken:], False
            begin = end

    def _at_once_of(self, shape: Shape) -> int:
        """Batches to lay out at a time; one before it is known how large they are."""
        size = self._bytes.get(shape)
        return 1 if size is None else max(1, min(_AT_ONCE // self.networks, _AT_ONCE_BYTES // size))

    # -- layout --------------------------------------------------------------------------------------------------

    def _laid_out(self, chunk: tuple[Shape, Tensor]) -> list[PaddedBag]:
        shape, ids = chunk
        only = frozenset(self.read)
        laid = self._padder.lay_out(ids, shape, self.networks, only) if only else None
        if laid is not None:
            self._bytes[shape] = laid.ints[0].nbytes + laid.floats[0].nbytes
        return [self._bag(shape, ids[k], laid, k) for k in range(len(ids))]

    def _bag(self, shape: Shape, ids: Tensor, laid: Batches | None, k: int) -> PaddedBag:
        fields = LaidFields(self, shape, ids, laid, k)
        return self.over(fields, shape)

    def over(self, fields: Mapping[str, Tensor], shape: Shape) -> PaddedBag:
        """The bag of these fields."""
        side = side_stream(self.device)
        bag = PaddedBag.over(fields, shape, self.bag, self.networks, side)
        return replace(bag, origin=self, covered=self._covered, loopless=self._loopless)

    @cached_property
    def _covered(self) -> bool:
        """Whether every edge is in some subgraph, so that their union is the graph."""
        return bool((self.bag.selection.holders(self.bag.graphs) > 0).all())

    @cached_property
    def _loopless(self) -> bool:
        """Whether no graph has a self-loop."""
        source, target = self.bag.graphs.edge_index
        return bool((source != target).all())

    def missing(self, name: str, shape: Shape, ids: Tensor) -> Tensor:
        """A field of a batch that was laid out without it."""
        if is_capturing():
            raise MissingFieldError(name)
        laid = self._padder.lay_out(ids[None], shape, self.networks, {name})
        return laid.views(laid.ints[0].long(), laid.floats[0])[name]


class MissingFieldError(Exception):
    """A batch lacks a field, and now is not the time to lay it out."""


class LaidFields(Mapping[str, Tensor]):
    """The fields of one batch by name; those that are read are noted, those that were not laid out are made.

    Args:
        batches: where the batch is from.
        shape: of the batch.
        ids: its graphs, on the device.
        laid: the batches that it was laid out with; None if nothing was.
        k: its place among them.
    """

    def __init__(self, batches: PaddedBatches, shape: Shape, ids: Tensor, laid: Batches | None, k: int) -> None:
        self.batches, self.shape, self.ids, self.laid, self.k = batches, shape, ids, laid, k
        self._views: dict[str, Tensor] = {}
        #: Whole numbers as work on a batch takes them, in 64 bits.
        self._ints: Tensor | None = None

    @property
    def buffers(self) -> tuple[Tensor, Tensor]:
        """All whole numbers and all fractions of the batch."""
        assert self.laid is not None
        return self.laid.ints[self.k], self.laid.floats[self.k]

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._views:
            self._views[name] = self._laid_out(name)
            self.batches.read.add(name)
        return self._views[name]

    def _laid_out(self, name: str) -> Tensor:
        if self.laid is None or name not in self.laid.fields:
            return self.batches.missing(name, self.shape, self.ids)
        ints, floats = self.buffers
        if self._ints is None:
            self._ints = ints.long()
        return self.laid.view(name, self._ints, floats)

    @property
    def tensors(self) -> list[Tensor]:
        """All memory that the batch has."""
        buffers = [] if self.laid is None else [self.laid.ints, self.laid.floats]
        return [self.ids, *buffers, *([] if self._ints is None else [self._ints])]

    def __contains__(self, name: object) -> bool:
        graphs = self.batches.bag.graphs
        given = {"x": graphs.x, "edge_attr": graphs.edge_attr, "y": graphs.y}
        return given.get(str(name), True) is not None

    def get(self, name: str, default: Tensor | None = None) -> Tensor | None:  # type: ignore[override]
        there = name in self
        return self[name] if there else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)


def _tensors(bags: list[PaddedBag]) -> list[Tensor]:
    found = []
    for bag in bags:
        assert isinstance(bag.fields, LaidFields)
        found += [*bag.fields.tensors, bag.graphs.edge_index]
    return found
