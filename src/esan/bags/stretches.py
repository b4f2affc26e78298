"""Stretches: graphs that follow one another, cut out of a bag as slices and numbered anew on the device they go to."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import torch
from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.cuts import Before, graphs_between, selection_between, subgraphs_before
from esan.bags.rows import Rows
from esan.ops import ragged


def stretch(bag: Bag, first: int, end: int, device: torch.device) -> Bag:
    """The bags of the graphs from `first` to before `end`, as `bag[first:end]` has them, on a device.

    Slices are moved, so that the work and the memory there are those of the stretch, whatever else the bag holds.
    """
    return replace(
        bag,
        graphs=graphs_between(bag.graphs, first, end, device),
        selection=selection_between(bag.selection, bag.graphs, first, end, device),
        rows=_rows_between(bag, first, end, device),
        whole=None,
    )


def _rows_between(bag: Bag, first: int, end: int, device: torch.device) -> Rows:
    rows, before = bag.rows, Before.of(bag.graphs, first)
    row_begins, row_counts = _slots(rows.num_rows, first, end)
    arc_begins, arc_counts = _slots(rows.num_arcs, first, end)
    pair_begins = [begin - rows.background for begin in row_begins[1:]]

    def pairs(values: Tensor) -> Tensor:
        return _slices(values, pair_begins, row_counts[1:]).to(device)

    def arcs(values: Tensor) -> Tensor:
        return _slices(values, arc_begins, arc_counts).to(device)

    row_ends, source = [*accumulate(row_counts)], arcs(rows.source)
    # What is added to the number of a row of each slot.
    new = torch.tensor([0, *row_ends[:-1]], device=device)
    shift, ends = new - torch.tensor(row_begins, device=device), torch.tensor(rows.row_ends, device=device)
    into = shift.repeat_interleave(torch.tensor(arc_counts, device=device), output_size=sum(arc_counts))
    found = Rows(
        num_rows=rows.num_rows[:, first:end].to(device),
        num_arcs=rows.num_arcs[:, first:end].to(device),
        node=pairs(rows.node) - before.nodes,
        subgraph=pairs(rows.subgraph) - subgraphs_before(bag.selection, first),
        marked=pairs(rows.marked),
        source=source + shift[torch.bucketize(source, ends, right=True)],
        target=arcs(rows.target) + into,
        arc=arcs(rows.arc) - before.arcs,
    )
    # Known here: the device need not be asked.
    found.__dict__.update(row_ends=row_ends, arc_ends=[*accumulate(arc_counts)])
    return found


def _slots(counts: Tensor, first: int, end: int) -> tuple[list[int], list[int]]:
    """Where the lines of these graphs begin in each slot, and how many they are."""
    return ragged.starts(counts)[:, first].tolist(), counts[:, first:end].sum(1).tolist()


def _slices(values: Tensor, begins: Sequence[int], counts: Sequence[int]) -> Tensor:
    return torch.cat([values[begin : begin + count] for begin, count in zip(begins, counts, strict=True)])
