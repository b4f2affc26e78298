"""`Palette`: the HASH of Weisfeiler-Leman tests, made injective by ranking: equal numbers mean equal inputs, always."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

#: A table of this many entries a key is still faster to fill and scan than the keys are to sort.
_TABLE_FACTOR = 4


@dataclass(frozen=True, eq=False)
class Colours:
    """One colour a cell.

    Attributes:
        values: the colours, from 0 to `count` - 1, `[cells]`.
        count: how many colours there are; each is used.
    """

    values: Ints
    count: int

    def __len__(self) -> int:
        return self.values.size

    def __getitem__(self, index: Ints | NDArray[np.bool_] | slice) -> "Colours":
        """The colours of some cells, numbered as before: not every number need be used."""
        return Colours(self.values[index], self.count)


class Palette:
    """Turns tuples and multisets of colours into colours, exactly: by their rank among all that occur.

    No hash is taken, so there are no collisions. A rank depends on which tuples occur and not on the order in
    which cells are listed, so the colours of isomorphic graphs are equal even when each is coloured on its own.

    Args:
        recording: whether to keep the table of every ranking made; together they say what each colour stands for.
    """

    def __init__(self, recording: bool = False) -> None:
        self._tables: list[Ints] | None = [] if recording else None

    @property
    def certificate(self) -> bytes:
        """All tables as bytes: two runs with equal certificates gave equal meanings to equal colours."""
        if self._tables is None:
            raise ValueError("Expected a palette that records (got one that does not). Make it with recording=True.")
        sizes = np.array([table.size for table in self._tables], dtype=np.int64)
        return b"".join(part.astype("<i8").tobytes() for part in [*self._tables, sizes])

    def rank(self, key: Ints, bound: int) -> Colours:
        """Colours for keys in [0, bound): equal keys get equal colours, greater keys greater ones."""
        if bound <= _TABLE_FACTOR * key.size + 1024:
            occurs = np.zeros(bound, dtype=bool)
            occurs[key] = True
            number = np.cumsum(occurs, dtype=np.int64)
            number -= 1
            count = int(number[-1]) + 1 if bound else 0
            if self._tables is not None:
                self._tables.append(np.flatnonzero(occurs).astype(np.int64))
            return Colours(number[key], count)
        table, values = np.unique(key, return_inverse=True)
        if self._tables is not None:
            self._tables.append(table)
        return Colours(values.astype(np.int64, copy=False), table.size)

    def pair(self, first: Colours, second: Colours) -> Colours:
        """Colours for the pairs (first, second), cell by cell."""
        return self.rank(first.values * second.count + second.values, first.count * second.count)

    def lines(self, matrix: Ints) -> Colours:
        """Colours for the lines of a matrix of integers, `[cells, width]`; greater lines get greater colours."""
        colours = Colours(np.zeros(len(matrix), dtype=np.int64), 1)
        for column in matrix.T:
            table, values = np.unique(column, return_inverse=True)
            if self._tables is not None:
                self._tables.append(table)
            colours = self.pair(colours, Colours(values.astype(np.int64), table.size))
        return colours

    def multiset(self, owner: Ints, colours: Colours, owners: int) -> Colours:
        """Colours for the multisets of what each owner has; an owner may have nothing.

        Args:
            owner: who has each element, from 0 to `owners` - 1, in any order.
            colours: the colour of each element.
            owners: how many owners there are.
        """
        colours = self._short(colours, owners)
        bits = max(colours.count - 1, 0).bit_length()
        key = np.sort((owner << bits) | colours.values)
        first = np.flatnonzero(distinct(key))
        run = key[first]
        repeats = np.diff(np.append(first, key.size))
        return self._multiset_of_runs(run >> bits, Colours(run & ((1 << bits) - 1), colours.count), repeats, owners)

    def others(self, owner: Ints, colours: Colours, owners: int) -> Colours:
        """For each element, a colour for the multiset of what its owner has besides this element.

        Only distinct cases are written out: one for every (multiset, colour in it), however many elements share it.
        """
        colours = self._short(colours, owners)
        bits = max(colours.count - 1, 0).bit_length()
        key = (owner << bits) | colours.values
        order = np.argsort(key, kind="stable")
        new = distinct(key[order])
        first = np.flatnonzero(new)
        run = key[order][first]
        run_owner, run_colour = run >> bits, Colours(run & ((1 << bits) - 1), colours.count)
        repeats = np.diff(np.append(first, key.size))
        whole = self._multiset_of_runs(run_owner, run_colour, repeats, owners)
        case = self.pair(whole[run_owner], run_colour)

        example = np.zeros(case.count, dtype=np.int64)
        example[case.values] = np.arange(run.size)
        runs_of = np.bincount(run_owner, minlength=owners)
        length = runs_of[run_owner[example]]
        shift = (np.cumsum(runs_of) - runs_of)[run_owner[example]] - (np.cumsum(length) - length)
        listed = np.arange(int(length.sum())) + np.repeat(shift, length)
        of_case = np.repeat(np.arange(case.count), length)
        left = repeats[listed] - (listed == example[of_case])
        kept = left > 0
        reduced = self._multiset_of_runs(of_case[kept], run_colour[listed[kept]], left[kept], case.count)

        run_of = np.empty_like(order)
        run_of[order] = np.cumsum(new) - 1
        return reduced[case.values[run_of]]

    def _multiset_of_runs(self, owner: Ints, colours: Colours, repeats: Ints, owners: int) -> Colours:
        """Colours for multisets given as runs: who has it (ascending), which colour (ascending), how often."""
        most = int(repeats.max(initial=1))
        if self._tables is not None:
            self._tables.append(np.array([most], dtype=np.int64))
        item = self.rank(colours.values * most + repeats - 1, colours.count * most)
        return self._sequence(item, np.bincount(owner, minlength=owners))

    def _short(self, colours: Colours, owners: int) -> Colours:
        """The same colours, renumbered without gaps where owner, colour and repeats would not fit in 63 bits."""
        size = len(colours)
        if owners.bit_length() + colours.count.bit_length() + size.bit_length() < 63:
            return colours
        return self.rank(colours.values, colours.count)

    def _sequence(self, item: Colours, length: Ints) -> Colours:
        """Colours for the sequences of items, `length` of them per owner, concatenated.

        Neighbours are joined into one item, (first, second), (third, fourth), ..., until each owner has one left; a
        last one without a neighbour is joined with a blank. Each joining can be undone, so the last item tells all.
        """
        filled = np.flatnonzero(length)
        size = length[filled]
        while size.size and int(size.max()) > 1:
            start = np.cumsum(size) - size
            half = (size + 1) // 2
            new_start = np.cumsum(half) - half
            total = int(half.sum())
            left = 2 * np.arange(total) + np.repeat(start - 2 * new_start, half)
            right = np.append(item.values, item.count)[left + 1]
            right[(new_start + half - 1)[size % 2 == 1]] = item.count  # the blank
            item = self.rank(item.values[left] * (item.count + 1) + right, item.count * (item.count + 1))
            size = half
        if self._tables is not None:
            self._tables.append(np.array([filled.size, length.size], dtype=np.int64))
        if filled.size == length.size:
            return item
        values = np.zeros(length.size, dtype=np.int64)
        values[filled] = item.values + 1
        return Colours(values, item.count + 1)


def distinct(key: Ints) -> NDArray[np.bool_]:
    """Where sorted keys change: True at the first of each run."""
    new = np.ones(key.size, dtype=bool)
    np.not_equal(key[1:], key[:-1], out=new[1:])
    return new
