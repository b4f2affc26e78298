"""The sets of the TU collection that the paper reports on: node labels, or the degree, or nothing; no edge features."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from esan.data.sets.downloads import fetch_gin_file, fetch_tu_files
from esan.data.sets.found import Found
from esan.data.sets.from_arrays import column
from esan.data.sets.gin import read_gin
from esan.data.sets.places import Places
from esan.data.sets.tu import TUFiles, read_tu


def tu_set(title: str, *, degree: bool = False) -> Callable[[Places], Found]:
    """A finder of one set.

    Args:
        title: its name in the collection, e.g. "IMDB-BINARY".
        degree: whether the degree of a node stands for its label.
    """

    def find(places: Places) -> Found:
        path = places.find_or_fetch(_names(title), partial(_fetch, title), f"TU/{title}")
        if path.name.startswith(f"{title}.txt"):
            laid = read_gin(path)
        else:
            folder = path.parent.parent if path.parent.name == "raw" else path.parent
            laid = read_tu(TUFiles(folder, title), attributes=False, edge_labels=False)
        if degree:
            laid.x = column(laid.degree())
        if laid.y is not None:
            laid.y = np.unique(laid.y, return_inverse=True)[1].astype(np.int64)
        return Found(laid, str(path))

    return find


def _names(title: str) -> tuple[str, ...]:
    inside = [f"raw/{title}_A.txt", f"{title}_A.txt", "raw.zip"]
    # The PTC that is reported on is not one of the collection's; it is published in GIN's format.
    inside += ["PTC.txt", "PTC.txt.gz"] if title == "PTC" else []
    return tuple(f"{folder}/{name}" for folder in (f"TU/{title}", title) for name in inside)


def _fetch(title: str, folder: Path) -> None:
    if title == "PTC":
        fetch_gin_file(folder, title)
    else:
        fetch_tu_files(folder, title)
