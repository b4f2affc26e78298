"""Split graphs into chunks, and concatenate the rows that are built from each."""

from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from esan.bags.rows import Rows
from esan.graphs import Graphs
from esan.policies import Selection

#: The first graph of a chunk and the end (exclusive).
Chunk = tuple[int, int]


def chunks(sizes: Tensor, most: int) -> list[Chunk]:
    """Consecutive graphs whose sizes sum to at most `most`; a larger graph is a chunk of its own.

    Args:
        sizes: the size of each graph, `[G]`.
        most: the largest size of a chunk.
    """
    ends = sizes.cumsum(0).cpu()
    ranges, first, before = [], 0, 0
    while first < ends.numel():
        end = max(first + 1, int(torch.searchsorted(ends, before + most, right=True)))
        ranges.append((first, end))
        first, before = end, int(ends[end - 1])
    return ranges or [(0, 0)]


def graph_numbers(graphs: Graphs, chunk: Chunk) -> Tensor:
    """The numbers of the graphs of a chunk, for `Graphs.take` and `Selection.take`."""
    return torch.arange(*chunk, device=graphs.device)


def count_before(counts: Tensor, some: list[Chunk]) -> list[int]:
    """The number of items of all graphs before each chunk."""
    ends = [0, *counts.cumsum(0).tolist()]
    return [ends[first] for first, _ in some]


def concatenate_rows(parts: list[Rows], graphs: Graphs, selection: Selection, some: list[Chunk]) -> Rows:
    """The rows of all graphs, from those of consecutive chunks: equal to the rows built at once.

    Args:
        parts: the rows of each chunk; the list is emptied, so that chunks are freed while they are concatenated.
        graphs: all graphs.
        selection: the selection of all graphs.
        some: the chunks.
    """
    rows_of, edges_of = ([c.sum(1).tolist() for c in field] for field in zip(*map(_counts, parts), strict=True))
    # How far the rows of each block and chunk are shifted; [blocks][chunks] → [chunks][blocks].
    by_block = list(zip(*rows_of, strict=True))
    begins = accumulate((n for block in by_block for n in block), initial=0)
    start = list(zip(*([next(begins) for _ in block] for block in by_block), strict=True))
    shifts = [
        [new - old for new, old in zip(mine, accumulate(sizes, initial=0), strict=False)]
        for mine, sizes in zip(start, rows_of, strict=True)
    ]
    num_rows, num_edges = (torch.cat(counts, 1) for counts in zip(*map(_counts, parts), strict=True))
    tensors = [part.tensors() for part in parts]
    parts.clear()

    def joined(name: str, sizes: list[list[int]], moved: Callable[[int, list[Tensor]], Sequence[Tensor]]) -> Tensor:
        mine = enumerate(zip(tensors, sizes, strict=True))
        blocks = [moved(k, [*fields.pop(name).split(lengths)]) for k, (fields, lengths) in mine]
        return torch.cat([block for same in zip(*blocks, strict=True) for block in same])

    def by(shift: list[int]) -> Callable[[int, list[Tensor]], Sequence[Tensor]]:
        return lambda k, blocks: [block + shift[k] for block in blocks]

    def source(k: int, blocks: list[Tensor]) -> Sequence[Tensor]:
        device = num_rows.device
        ends, shift = torch.tensor([*accumulate(rows_of[k])], device=device), torch.tensor(shifts[k], device=device)
        return [block + shift[torch.bucketize(block, ends, right=True)] for block in blocks]

    pairs = [sizes[1:] for sizes in rows_of]
    return Rows(
        num_rows=num_rows,
        num_edges=num_edges,
        node=joined("node", pairs, by(count_before(graphs.num_nodes, some))),
        subgraph=joined("subgraph", pairs, by(count_before(selection.num_subgraphs, some))),
        marked=joined("marked", pairs, lambda _, blocks: blocks),
        source=joined("source", edges_of, source),
        target=joined("target", edges_of, lambda k, blocks: [b + s for b, s in zip(blocks, shifts[k], strict=True)]),
        edge_id=joined("edge_id", edges_of, by(count_before(graphs.num_directed_edges, some))),
    )


def _counts(rows: Rows) -> tuple[Tensor, Tensor]:
    return rows.num_rows, rows.num_edges
