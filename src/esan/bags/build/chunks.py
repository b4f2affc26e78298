"""Chunks: some graphs of a collection at a time, and what was found for each chunk joined to that of all graphs."""

from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from esan.bags.rows import Rows
from esan.graphs import Graphs
from esan.policies import Selection

#: The first graph of a chunk and the one behind its last.
Chunk = tuple[int, int]


def chunks(sizes: Tensor, most: int) -> list[Chunk]:
    """Graphs that follow one another, whose sizes come to `most` at most; a larger graph is a chunk of its own.

    Args:
        sizes: what each graph counts, `[G]`.
        most: of a chunk.
    """
    ends = sizes.cumsum(0).cpu()
    found, first, before = [], 0, 0
    while first < ends.numel():
        end = max(first + 1, int(torch.searchsorted(ends, before + most, right=True)))
        found.append((first, end))
        first, before = end, int(ends[end - 1])
    return found or [(0, 0)]


def graph_numbers(graphs: Graphs, chunk: Chunk) -> Tensor:
    """The graphs of a chunk, as `Graphs.take` and `Selection.take` ask for them."""
    return torch.arange(*chunk, device=graphs.device)


def _before(counts: Tensor, some: list[Chunk]) -> list[int]:
    """How many items the graphs before each chunk have."""
    ends = [0, *counts.cumsum(0).tolist()]
    return [ends[first] for first, _ in some]


def joined_selections(parts: list[Selection], graphs: Graphs, some: list[Chunk]) -> Selection:
    """The selection of all graphs, from those of one chunk after another."""
    kinds = {(part.keeps_edges, part.marked) for part in parts}
    if len(kinds) > 1:
        raise ValueError(
            "Expected a policy that treats each graph by itself (got selections that keep edges, or mark nodes, for "
            "some graphs and not for others). Let `select` not depend on the other graphs."
        )
    num_subgraphs = torch.cat([part.num_subgraphs for part in parts])
    subgraphs, edges, nodes = (_before(n, some) for n in (num_subgraphs, graphs.num_edges, graphs.num_nodes))

    def joined(name: str, shifts: list[int]) -> Tensor:
        return torch.cat([getattr(part, name) + shift for part, shift in zip(parts, shifts, strict=True)])

    return Selection(
        num_subgraphs=num_subgraphs,
        keeps_edges=parts[0].keeps_edges,
        entry_subgraph=joined("entry_subgraph", subgraphs),
        entry_edge=joined("entry_edge", edges),
        marked=parts[0].marked,
        mark_subgraph=joined("mark_subgraph", subgraphs),
        mark_node=joined("mark_node", nodes),
    )


def joined_rows(parts: list[Rows], graphs: Graphs, selection: Selection, some: list[Chunk]) -> Rows:
    """The rows of all graphs, slot by slot and in each slot chunk by chunk: exactly those of all graphs at once.

    Args:
        parts: the rows of each chunk; the list is emptied, so that there is never much more than once all of them.
        graphs: all graphs.
        selection: what is selected of them.
        some: the chunks.
    """
    rows_of, edges_of = ([c.sum(1).tolist() for c in field] for field in zip(*map(_counts, parts), strict=True))
    # Where the rows of each slot and chunk begin, less where they do in the chunk; [slots][chunks] → [chunks][slots].
    by_slot = list(zip(*rows_of, strict=True))
    begins = accumulate((n for slot in by_slot for n in slot), initial=0)
    start = list(zip(*([next(begins) for _ in slot] for slot in by_slot), strict=True))
    shifts = [
        [new - old for new, old in zip(mine, accumulate(sizes, initial=0), strict=False)]
        for mine, sizes in zip(start, rows_of, strict=True)
    ]
    num_rows, num_edges = (torch.cat(counts, 1) for counts in zip(*map(_counts, parts), strict=True))
    left = [part.tensors() for part in parts]
    parts.clear()

    def joined(name: str, sizes: list[list[int]], moved: Callable[[int, list[Tensor]], Sequence[Tensor]]) -> Tensor:
        blocks = [moved(k, [*mine.pop(name).split(of)]) for k, (mine, of) in enumerate(zip(left, sizes, strict=True))]
        return torch.cat([block for slot in zip(*blocks, strict=True) for block in slot])

    def by(shift: list[int]) -> Callable[[int, list[Tensor]], Sequence[Tensor]]:
        return lambda k, blocks: [block + shift[k] for block in blocks]

    def source(k: int, blocks: list[Tensor]) -> Sequence[Tensor]:
        device = num_rows.device
        ends, shift = torch.tensor([*accumulate(rows_of[k])], device=device), torch.tensor(shifts[k], device=device)
        return [block + shift[torch.bucketize(block, ends, right=True)] for block in blocks]

    pairs = [sizes[1:] for sizes in rows_of]
    return Rows(
        num_rows=num_rows,
        num_arcs=num_edges,
        node=joined("node", pairs, by(_before(graphs.num_nodes, some))),
        subgraph=joined("subgraph", pairs, by(_before(selection.num_subgraphs, some))),
        marked=joined("marked", pairs, lambda _, blocks: blocks),
        source=joined("source", edges_of, source),
        target=joined("target", edges_of, lambda k, blocks: [b + s for b, s in zip(blocks, shifts[k], strict=True)]),
        arc=joined("arc", edges_of, by(_before(graphs.num_arcs, some))),
    )


def _counts(rows: Rows) -> tuple[Tensor, Tensor]:
    return rows.num_rows, rows.num_arcs
