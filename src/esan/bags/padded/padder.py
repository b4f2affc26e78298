"""`Padder`: one plan per batch shape of a dataset; graph numbers → the buffers of padded batches."""

from collections.abc import Collection
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.padded.column_store import USUAL, ColumnLimits, Columns
from esan.bags.padded.fields import fields_of
from esan.bags.padded.plan import BatchBuffers, Plan
from esan.bags.padded.shapes import GraphCounts, Shape
from esan.bags.rows import block_of_layer


class Padder:
    """Lays out batches of a bag in a fixed shape, on a device; only the first batch of a shape waits for it.

    Args:
        bag: the bag of the dataset; on the host it takes no memory of the device.
        num_layers: the layers of the network plus its lookahead: which layer views are needed.
        device: where batches are prepared; None for where the bag is.
        at_once: whether columns are computed for all graphs at once and stay on the device, as for a sample that
            is used for one epoch only.
        limits: the sizes of chunks of columns, and the budget of those on a GPU.
    """

    def __init__(
        self,
        bag: Bag,
        num_layers: int,
        device: torch.device | None = None,
        *,
        at_once: bool = False,
        limits: ColumnLimits = USUAL,
    ) -> None:
        self.bag, self._device, self._at_once, self._limits = bag, device or bag.device, at_once, limits
        self.counts = GraphCounts(bag)
        self._num_layers = num_layers
        self._columns: Columns | None = None
        self._plans: dict[tuple[Shape, int, frozenset[str] | None], Plan] = {}

    def __getstate__(self) -> dict[str, Any]:
        # What is compiled for this process is made again where it is needed.
        return vars(self) | {"_columns": None, "_plans": {}}

    def lay_out(
        self, ids: Tensor, shape: Shape, networks: int = 1, only: Collection[str] | None = None
    ) -> BatchBuffers:
        """Batches for one network or several, each network's behind the other's.

        Args:
            ids: the graphs of each batch, `[K, S, B]`, −1 for no graph; they must fit the shape.
            shape: of the batch of one network.
            networks: S; where all networks get the same batches, ids may be `[K, 1, B]`.
            only: the fields that are needed; None for all.
        """
        return self._plan(shape, networks, only).lay_out(ids)

    def forget(self, graphs: int) -> None:
        """Drop the plans of batches of so many graphs; the columns stay."""
        self._plans = {key: plan for key, plan in self._plans.items() if key[0].graphs != graphs}

    def _plan(self, shape: Shape, networks: int, only: Collection[str] | None) -> Plan:
        # Plans for another number of networks belong to an ensemble that no longer exists.
        self._plans = {key: plan for key, plan in self._plans.items() if key[1] == networks}
        key = shape, networks, None if only is None else frozenset(only)
        if key not in self._plans:
            if self._columns is None:
                self._columns = Columns(self.bag, self._device, networks, at_once=self._at_once, limits=self._limits)
            # From the shape, since another sample of the same bag may have rows in fewer blocks.
            ends = [*accumulate(shape.rows)]
            blocks = sorted({block_of_layer(ends, t) for t in range(1, self._num_layers + 1)})
            fields = [field for field in fields_of(self.bag, blocks) if only is None or field.name in only]
            self._plans[key] = Plan(fields, self._columns, shape, networks)
        return self._plans[key]
