"""Graphs in the text format of the GIN repository: sizes, classes, and one line per node with its neighbours."""

import re
from pathlib import Path

import numpy as np

from esan.data.sets.set_arrays import category_column
from esan.graphs.readers.archives import gunzipped
from esan.graphs.readers.graph_arrays import GraphArrays

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def read_gin(path: Path) -> GraphArrays:
    """The graphs of a file, packed with gzip or not; node tags are renumbered 0, 1, ... in ascending order."""
    rows = iter(enumerate(_lines(path), start=1))
    number = 0
    sizes, classes, tags, sources, targets, columns = [], [], [], [], [], []
    try:
        number, line = next(rows)
        (announced,) = _integers(line)
        for _ in range(announced):
            number, line = next(rows)
            size, label = _integers(line)
            sizes.append(size)
            classes.append(label)
            columns.append(0)
            for node in range(size):
                number, line = next(rows)
                tag, degree, *neighbours = _integers(line)
                if len(neighbours) != degree:
                    raise ValueError(f"{degree} neighbours announced and {len(neighbours)} listed")
                tags.append(tag)
                sources += [node] * degree
                targets += neighbours
                columns[-1] += degree
    except StopIteration:
        raise ValueError(
            f"Expected more lines (got the end of {path} after line {number}). It is cut short; fetch it again."
        ) from None
    except ValueError as error:
        raise ValueError(
            f"Expected whole numbers in the format of GIN (got {error} at line {number} of {path}). Fetch it again."
        ) from None
    more = next(rows, None)
    if more is not None:
        raise ValueError(
            f"Expected the end after {announced} graphs (got more at line {more[0]} of {path}). Fetch it again."
        )
    return GraphArrays(
        num_nodes=np.array(sizes),
        num_directed_edges=np.array(columns),
        edge_index=np.array([sources, targets], dtype=np.int64),
        x=category_column(np.unique(tags, return_inverse=True)[1]),
        y=np.array(classes),
    )


def _lines(path: Path) -> list[str]:
    text = gunzipped(path) if path.suffix == ".gz" else path.read_bytes()
    try:
        lines = text.decode("ascii").replace("\r\n", "\n").rstrip()
        return lines.split("\n") if lines else []
    except UnicodeDecodeError as error:
        raise ValueError(f"Expected a text file (got {path}: {error}). It is damaged; fetch it again.") from None


def _integers(line: str) -> list[int]:
    """The numbers of a line; ValueError of anything else, and of what does not fit 64 bits."""
    words = line.split()
    strange = next((word for word in words if not _INTEGER.fullmatch(word)), None)
    if strange is not None or not words:
        raise ValueError(f"{(strange or line)[:20]!r}")
    return [int(word) for word in words]
