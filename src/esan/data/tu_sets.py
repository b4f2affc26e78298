"""The sets of the TU collection that the paper reports on: node labels, or the degree, or nothing; no edge features."""

from collections.abc import Callable

import numpy as np

from esan.data.found import Found
from esan.data.laid import column
from esan.data.places import Places
from esan.data.tu import TUFiles, read_tu


def tu_set(title: str, *, degree: bool = False) -> Callable[[Places], Found]:
    """A finder of one set.

    Args:
        title: its name in the collection, e.g. "IMDB-BINARY".
        degree: whether the degree of a node stands for its label.
    """

    def find(places: Places) -> Found:
        folder = places.find(f"TU/{title}", title)
        assert folder is not None
        laid = read_tu(TUFiles(folder, title), attributes=False, edge_labels=False)
        if degree:
            laid.x = column(laid.degree())
        if laid.y is not None:
            laid.y = np.unique(laid.y, return_inverse=True)[1].astype(np.int64)
        return Found(laid, str(folder))

    return find
