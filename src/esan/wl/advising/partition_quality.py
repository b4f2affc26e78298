"""`Judge`: compares the classes of graphs that a test finds with those of 1-WL and with the labels."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from esan.checks import shown
from esan.graphs import Graphs
from esan.wl.advising.advice import Option
from esan.wl.palette import Colours, Palette


def targets(graphs: Graphs, labels: Tensor | np.ndarray | Sequence[float] | None) -> np.ndarray | None:
    """One label a graph, integers where all are whole numbers; None where there are none.

    Args:
        graphs: the collection.
        labels: what the user gave; None takes `y` of the graphs where it is one number a graph.
    """
    given = labels is not None
    if labels is None:
        if graphs.y is None or graphs.y_level != "graph" or graphs.y.reshape(len(graphs), -1).size(1) != 1:
            return None
        labels = graphs.y
    try:
        values = torch.as_tensor(labels).detach().cpu()
    except (TypeError, ValueError, RuntimeError, NotImplementedError, OverflowError):
        raise ValueError(
            f"Expected one number per graph as labels (got {shown(labels, 60)}). Number the classes 0, 1, 2 and so on."
        ) from None
    if values.numel() != len(graphs):
        raise ValueError(
            f"Expected one label a graph, {len(graphs)} in all (got {values.numel()}). Pass one number for each."
        )
    values = values.reshape(-1)
    if not bool(values.isfinite().all()):
        where = "labels" if given else "y"
        bad = float(values[~values.isfinite()][0])
        raise ValueError(f"Expected a finite label for every graph (got {bad} in {where}). Leave those graphs out.")
    if values.dtype == torch.bool or (values.is_floating_point() and bool((values == values.round()).all())):
        values = values.long()
    return values.numpy()


class Judge:
    """Compares partitions with that of 1-WL and with the labels.

    Args:
        labels: one per graph, or None.
    """

    def __init__(self, labels: np.ndarray | None) -> None:
        self._labels = labels
        if labels is not None:
            _, kind = np.unique(labels, return_inverse=True)
            self._kind = Colours(kind.astype(np.int64), int(kind.max()) + 1)

    def option(
        self, test: str, policy: str, found: Colours, plain: Colours, pairs: int, rows: int, seconds: float
    ) -> Option:
        """What the partition `found` makes of the collection, where 1-WL finds `plain`."""
        confused, common = _couples(found), _couples(Palette().pair(found, plain))
        bare = Option(
            test=test,
            policy=policy,
            classes=found.count,
            confused=confused,
            split=_couples(plain) - common,
            lost=confused - common,
            confused_labels=None,
            error_floor=None,
            pairs=pairs,
            rows=rows,
            seconds=round(seconds, 3),
        )
        if self._labels is None:
            return bare
        same = _couples(Palette().pair(found, self._kind))
        return replace(bare, confused_labels=confused - same, error_floor=self._floor(found))

    def _floor(self, found: Colours) -> float:
        """The least error of any function that is constant on each class."""
        assert self._labels is not None
        order = np.lexsort((self._labels, found.values))
        size = np.bincount(found.values, minlength=found.count)
        if np.issubdtype(self._labels.dtype, np.integer):
            both = Palette().pair(found, self._kind)
            often = np.bincount(both.values, minlength=both.count)[both.values]
            most = np.zeros(found.count, dtype=np.int64)
            np.maximum.at(most, found.values, often)
            return float((size - most).sum() / len(found))
        # The median is the constant with the least absolute error.
        middle = self._labels[order][np.cumsum(size) - size + (size - 1) // 2]
        return float(np.abs(self._labels - middle[found.values]).mean())


def _couples(found: Colours) -> int:
    """How many pairs of graphs share a class."""
    size = np.bincount(found.values)
    return int((size * (size - 1) // 2).sum())
