"""`Tones`: the colours of two graphs, numbered and put in words for a picture."""

import torch
from torch import Tensor

from esan.bags.rows import Rows
from esan.wl.colouring import Colouring


class Tones:
    """The colours of both graphs, renumbered so that a class keeps its number when others are split off it.

    Args:
        found: the colourings of both, with colours in common.

    Attributes:
        found: the same.
        parted: the round in which they first differ; None if they never do.
        rounds: how many rounds there are, the initial colouring included.
    """

    def __init__(self, found: list[Colouring]) -> None:
        self.found = found
        self.parted: int | None = None
        self.rounds = len(found[0].rounds)
        self._all = [torch.cat([one.rounds[t].reshape(-1) for one in found]) for t in range(self.rounds)]
        self._numbers = [{int(colour): place for place, colour in enumerate(self._all[0].unique())}]
        for was, now in zip(self._all, self._all[1:], strict=False):
            self._numbers.append(self._renumber(was, now, self._numbers[-1]))
        for t in range(self.rounds):
            if self.parted is None and found[0].graphs[t] != found[1].graphs[t]:
                self.parted = t

    @staticmethod
    def _renumber(was: Tensor, now: Tensor, old: dict[int, int]) -> dict[int, int]:
        fresh = max(old.values()) + 1
        numbers: dict[int, int] = {}
        for parent in was.unique().tolist():
            children, often = now[was == parent].unique(return_counts=True)
            # The largest part keeps the parent's number.
            for place, child in enumerate(children[often.argsort(descending=True, stable=True)].tolist()):
                numbers[child] = old[parent] if place == 0 else fresh
                fresh += place > 0
        return numbers

    def meanings(self, t: int, rows: Rows) -> list[str]:
        """What each colour of round t stands for: the colour before it and those of the neighbours."""
        now, names, before = self._all[t], self._numbers[t], self._numbers[t - 1]
        texts = []
        for colour, number in sorted(names.items(), key=lambda item: item[1]):
            cell = int((now == colour).nonzero()[0])
            seen = sorted(before[int(c)] + 1 for c in self._all[t - 1][rows.source[rows.target == cell]])
            own = before[int(self._all[t - 1][cell])] + 1
            texts.append(f"{number + 1} = was {own}, saw {' '.join(map(str, seen)) or 'nothing'}")
        return texts

    def of(self, graph: int, t: int, subgraph: int | None) -> list[int]:
        """The number of each node's colour after round t; rounds after the last are like it."""
        t = min(t, self.rounds - 1)
        colours = self.found[graph].rounds[t]
        line = colours if subgraph is None else colours[subgraph]
        return [self._numbers[t][int(colour)] for colour in line]
