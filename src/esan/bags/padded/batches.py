"""`PaddedBatches`: the batches of a bag in a few fixed shapes, prefetched to a device."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import groupby, islice

import numpy as np
import torch
from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.padded.bag import PaddedBag
from esan.bags.padded.padder import Padder
from esan.bags.padded.plan import BatchBuffers
from esan.bags.padded.shapes import COARSE, KnownShapes, Shape, Sizes, smallest_shapes
from esan.ops.caching import plain_tensors
from esan.ops.device import is_capturing, prefetch, side_stream, to_device

#: The most batches prepared at a time, and the most bytes: enough to keep the device busy, with little memory.
_CHUNK, _CHUNK_BYTES = 4, 2**23
#: How many steps of a sampler are read before their batches are asked for.
_AHEAD = 16
#: Batches laid out one by one from their own graphs: a step that is captured runs once, and is captured on the second.
_BEFORE_COLUMNS = 2
#: From so many rows per network on, several shapes pay even if padding is skipped: idle GPU programs take time.
COARSE_FROM_ROWS = 2**20
#: Fields that are read beside a network: those of a replayed network need not be int64 for them.
_OF_LOSSES = ("y", "graph_multiplicity")


class PaddedBatches:
    """Lays out batches of a bag on a device, each in the smallest of a few shapes that holds it.

    The first batch shows which fields are read; the others are never computed. The columns of the whole dataset are
    computed after the second batch, when no step holds its activations: the peak of memory is not the sum of both.

    Args:
        bag: the bag of the dataset, on any device; compact or literal.
        device: where batches are prepared.
        networks: how many networks a batch is for.
        sizes: the shapes; None for one per number of graphs, and a few if batches are huge.
        at_once: whether columns are computed at once and for one epoch only, as for a sample.
        known_shapes: the shapes of earlier batches; None for none.
        fields_read: the fields that are known to be read; more are added to it.
    """

    def __init__(
        self,
        bag: Bag,
        device: torch.device,
        networks: int = 1,
        sizes: Sizes | None = None,
        at_once: bool = False,
        *,
        known_shapes: KnownShapes | None = None,
        fields_read: set[str] | None = None,
    ) -> None:
        self.bag, self.device, self.networks, self._sizes, self._at_once = bag, device, networks, sizes, at_once
        self._known_shapes = KnownShapes() if known_shapes is None else known_shapes
        #: The fields that have been read.
        self.fields_read: set[str] = set() if fields_read is None else fields_read
        self._bytes: dict[Shape, int] = {}
        self._padder = Padder(bag, bag.num_layers or 1, device, at_once=at_once)
        self._literal: PaddedBatches | None = None

    def of(self, bag: Bag) -> "PaddedBatches":
        """The same shapes and fields for another sample of the bag."""
        return PaddedBatches(
            bag,
            self.device,
            self.networks,
            self._sizes,
            self._at_once,
            known_shapes=self._known_shapes,
            fields_read=self.fields_read,
        )

    def __call__(self, steps: Iterable[np.ndarray]) -> Iterator[PaddedBag]:
        """The batches of these steps, `[S or 1, B]` each, −1 for no graph; the next ones are prefetched.

        A list is read at once, anything else some steps ahead.
        """
        chunks = self._chunks(steps)
        if not self.fields_read:
            for shape, ids in islice(chunks, _BEFORE_COLUMNS):
                for one in ids.split(1):  # several, where another iteration has found out their size
                    yield from self._from_own_graphs(shape, one)
        for chunk in prefetch(self._lay_out, chunks, _tensors, self.device):
            while chunk:  # what a batch computes goes with it, not with the last of its chunk
                yield chunk.pop(0)

    def plain(self, bag: PaddedBag) -> Bag:
        """The same graphs without padding."""
        ids = self._ids(bag).reshape(-1)
        return replace(self.bag, sampled_from=None)[ids[ids >= 0].to(self.bag.device)].to(self.device)

    def literal(self, bag: PaddedBag) -> Bag:
        """The same batch with one row per pair."""
        if is_capturing():
            raise RuntimeError(
                "Expected a literal bag in a step that is captured as a CUDA graph (got a compact one, on which the "
                "network is not exact). Build the bag with Bag.of(..., literal=True)."
            )
        if self._literal is None:
            self._literal = PaddedBatches(replace(self.bag, sampled_from=None).to_literal(), self.device, self.networks)
        ids = self._ids(bag)
        return self._literal.batch(ids.cpu().numpy(), ids)

    @staticmethod
    def _ids(bag: PaddedBag) -> Tensor:
        """The numbers of the graphs, as long as they are those of one batch."""
        ids: Tensor | None = getattr(bag.fields, "ids", None)
        if ids is None:
            raise RuntimeError(
                "Expected the padding to stay in a step that is captured as a CUDA graph (got without_padding()). "
                "Take it off outside of the step."
            )
        return ids

    def batch(self, ids: np.ndarray, on_device: Tensor) -> PaddedBag:
        """One batch, of the graphs `[S or 1, B]`; `on_device` are the same numbers on the device."""
        ((shape, _),) = self._shapes(ids[None])
        return self._lay_out((shape, on_device[None]))[0]

    # -- shapes --------------------------------------------------------------------------------------------------

    def _shapes(self, steps: np.ndarray) -> Iterator[tuple[Shape, slice]]:
        """The shapes of steps `[K, S, B]`: runs of steps with their shape."""
        size, counts = steps.shape[-1], self._padder.counts
        most = self._known_shapes.holding(steps.reshape(-1, size), counts)
        sizes = COARSE if self._sizes is None and sum(most.rows) >= COARSE_FROM_ROWS else self._sizes
        return iter([(most, slice(None))]) if sizes is None else smallest_shapes(most, steps, counts, sizes)

    def _chunks(self, steps: Iterable[np.ndarray]) -> Iterator[tuple[Shape, Tensor]]:
        """Consecutive steps of one shape, some at a time; one at first, so that work begins soon."""
        first, unread = True, iter(steps)
        while known := list(unread if isinstance(steps, list) else islice(unread, _AHEAD)):
            for _, alike in groupby(known, key=np.shape):
                stacked = np.stack([*alike])
                ids = to_device(torch.from_numpy(stacked), self.device)
                for shape, some in self._shapes(stacked):
                    left = ids[some]
                    while len(left):
                        size = 1 if first else self._chunk_size(shape)
                        yield shape, left[:size]
                        left, first = left[size:], False

    def _chunk_size(self, shape: Shape) -> int:
        """The number of batches to lay out at a time; one before their size is known."""
        size = self._bytes.get(shape)
        return 1 if size is None else max(1, min(_CHUNK // self.networks, _CHUNK_BYTES // max(1, size)))

    # -- layout --------------------------------------------------------------------------------------------------

    def _lay_out(self, steps: tuple[Shape, Tensor]) -> list[PaddedBag]:
        shape, ids = steps
        only = frozenset(self.fields_read)
        with plain_tensors():
            chunk = self._padder.lay_out(ids, shape, self.networks, only) if only else None
        return self._bags(shape, ids, chunk)

    def _from_own_graphs(self, shape: Shape, ids: Tensor) -> list[PaddedBag]:
        """One batch, `[1, S, B]`, without the columns of the dataset."""
        if not self.fields_read:
            return self._bags(shape, ids, None)
        with plain_tensors():
            padder, own_ids = self.padder_of(ids[0])
            chunk = padder.lay_out(own_ids[None], shape, self.networks, set(self.fields_read))
        return self._bags(shape, ids, chunk)

    def _bags(self, shape: Shape, ids: Tensor, chunk: BatchBuffers | None) -> list[PaddedBag]:
        if chunk is not None:
            self._bytes[shape] = chunk.ints[0].nbytes + chunk.floats[0].nbytes
        return [self._bag(shape, ids[k], chunk, k) for k in range(len(ids))]

    def _bag(self, shape: Shape, ids: Tensor, chunk: BatchBuffers | None, k: int) -> PaddedBag:
        return self.of_fields(BatchFields(self, shape, ids, chunk, k), shape)

    def of_fields(self, fields: Mapping[str, Tensor], shape: Shape) -> PaddedBag:
        """The bag of these fields."""
        return self._empty.with_fields(fields, shape)

    @cached_property
    def _empty(self) -> PaddedBag:
        """What all batches have in common."""
        facts = {"origin": self, "covered": self._covered, "loopless": self._loopless}
        return PaddedBag.of_fields(None, None, self.bag, self.networks, side=side_stream(self.device), **facts)

    @cached_property
    def _covered(self) -> bool:
        """Whether every edge is in some subgraph, so that their union is the graph."""
        return bool((self.bag.selection.subgraphs_per_edge(self.bag.graphs) > 0).all())

    @cached_property
    def _loopless(self) -> bool:
        """Whether no graph has a self-loop."""
        source, target = self.bag.graphs.edge_index
        return bool((source != target).all())

    def padder_of(self, ids: Tensor) -> tuple[Padder, Tensor]:
        """A padder for the graphs of one batch alone, and the batch in its numbers."""
        there, places = ids.unique(return_inverse=True)
        absent = int((there < 0).sum())
        bag = replace(self.bag, sampled_from=None)[there[absent:].to(self.bag.device) if len(there) > absent else [0]]
        return Padder(bag, bag.num_layers or 1, self.device), places - absent


class MissingFieldError(Exception):
    """A batch lacks a field that cannot be computed while a CUDA graph is captured."""


class BatchFields(Mapping[str, Tensor]):
    """The fields of one batch by name. Records which fields are read; lays out a field that is missing.

    Args:
        batches: where the batch comes from.
        shape: of the batch.
        ids: its graphs, on the device.
        chunk: the batches that were prepared together; None if there were none.
        k: its position among them.
    """

    def __init__(self, batches: PaddedBatches, shape: Shape, ids: Tensor, chunk: BatchBuffers | None, k: int) -> None:
        self.batches, self.shape, self.ids, self.chunk, self.k = batches, shape, ids, chunk, k
        self._views: dict[str, Tensor] = {}
        #: The integers of the batch as int64.
        self._ints: Tensor | None = None

    @property
    def device(self) -> torch.device:
        return self.ids.device

    @property
    def buffers(self) -> tuple[Tensor, Tensor]:
        """The buffers of all integers and of all floats of the batch."""
        assert self.chunk is not None
        return self.chunk.ints[self.k], self.chunk.floats[self.k]

    @property
    def current(self) -> tuple[Tensor, Tensor]:
        """The buffers, as somebody who has written to a field has left them."""
        ints, floats = self.buffers
        return ints if self._ints is None else self._ints, floats

    @property
    def wants_gradient(self) -> bool:
        """Whether somebody wants the gradient of a field."""
        return any(view.requires_grad for view in self._views.values())

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._views:
            with plain_tensors():
                self._views[name] = self._view(name)
            self.batches.fields_read.add(name)
        return self._views[name]

    def _view(self, name: str) -> Tensor:
        if self.chunk is None or name not in self.chunk.fields:
            return self._missing_field(name)
        ints, floats = self.buffers
        if name in _OF_LOSSES:
            return self.chunk.view(name, ints, floats).to(self.chunk.fields[name].dtype)
        if self._ints is None:
            self._ints = ints.long()
        return self.chunk.view(name, self._ints, floats)

    def _missing_field(self, name: str) -> Tensor:
        if is_capturing():
            raise MissingFieldError(name)
        padder, ids = self._own_padder
        chunk = padder.lay_out(ids[None], self.shape, self.batches.networks, {name})
        return chunk.view(name, chunk.ints[0].long(), chunk.floats[0])

    @cached_property
    def _own_padder(self) -> tuple[Padder, Tensor]:
        return self.batches.padder_of(self.ids)

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors that the batch keeps in memory."""
        buffers = [] if self.chunk is None else [self.chunk.ints, self.chunk.floats]
        return [self.ids, *buffers, *([] if self._ints is None else [self._ints])]

    def __contains__(self, name: object) -> bool:
        graphs = self.batches.bag.graphs
        optional = {"x": graphs.x, "edge_attr": graphs.edge_attr, "y": graphs.y}
        return optional.get(str(name), True) is not None

    def get(self, name: str, default: Tensor | None = None) -> Tensor | None:  # type: ignore[override]
        if name not in self:
            return default
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)


def _tensors(bags: list[PaddedBag]) -> list[Tensor]:
    """The memory of batches that were laid out together: that of the first, whose tensors are parts of theirs."""
    fields = bags[0].fields
    assert isinstance(fields, BatchFields)
    return fields.tensors
