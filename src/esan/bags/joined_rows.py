"""The rows of a collection of graphs, from those of one part of it after another."""

from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from esan.bags.rows import Rows


def joined_rows(parts: list[Rows], nodes: Sequence[int], subgraphs: Sequence[int], arcs: Sequence[int]) -> Rows:
    """The rows of all parts, slot by slot and in each slot part by part: exactly those of all graphs at once.

    Args:
        parts: the rows of each part; the list is emptied, so that there is never much more than once all of them.
        nodes: how many nodes there are before each part.
        subgraphs: how many subgraphs.
        arcs: how many arcs.
    """
    rows_of, arcs_of = (
        [counts.sum(1).tolist() for counts in field] for field in zip(*map(_counts, parts), strict=True)
    )
    # Where the rows of each slot and part begin, less where they begin in their part; [slots][parts] → [parts][slots].
    by_slot = list(zip(*rows_of, strict=True))
    begins = accumulate((n for slot in by_slot for n in slot), initial=0)
    start = list(zip(*([next(begins) for _ in slot] for slot in by_slot), strict=True))
    shifts = [
        [new - old for new, old in zip(mine, accumulate(sizes, initial=0), strict=False)]
        for mine, sizes in zip(start, rows_of, strict=True)
    ]
    num_rows, num_arcs = (torch.cat(counts, 1) for counts in zip(*map(_counts, parts), strict=True))
    left = [part.tensors() for part in parts]
    parts.clear()

    def joined(name: str, sizes: list[list[int]], moved: Callable[[int, list[Tensor]], Sequence[Tensor]]) -> Tensor:
        pieces = [moved(k, [*mine.pop(name).split(of)]) for k, (mine, of) in enumerate(zip(left, sizes, strict=True))]
        return torch.cat([piece for slot in zip(*pieces, strict=True) for piece in slot])

    def source(k: int, pieces: list[Tensor]) -> Sequence[Tensor]:
        device = num_rows.device
        ends, shift = torch.tensor([*accumulate(rows_of[k])], device=device), torch.tensor(shifts[k], device=device)
        return [piece + shift[torch.bucketize(piece, ends, right=True)] for piece in pieces]

    pairs = [sizes[1:] for sizes in rows_of]
    return Rows(
        num_rows=num_rows,
        num_arcs=num_arcs,
        node=joined("node", pairs, lambda k, pieces: [piece + nodes[k] for piece in pieces]),
        subgraph=joined("subgraph", pairs, lambda k, pieces: [piece + subgraphs[k] for piece in pieces]),
        marked=joined("marked", pairs, lambda _, pieces: pieces),
        source=joined("source", arcs_of, source),
        target=joined("target", arcs_of, lambda k, pieces: [p + s for p, s in zip(pieces, shifts[k], strict=True)]),
        arc=joined("arc", arcs_of, lambda k, pieces: [piece + arcs[k] for piece in pieces]),
    )


def _counts(rows: Rows) -> tuple[Tensor, Tensor]:
    return rows.num_rows, rows.num_arcs
