"""The text format of GIN: how many graphs, then of each its size and class, and a line a node with its neighbours."""

import gzip
import zlib
from pathlib import Path

import numpy as np

from esan.data.laid import Laid, column


def read_gin(path: Path) -> Laid:
    """The graphs of a file, packed with gzip or not; node tags are renumbered 0, 1, ... in ascending order."""
    rows = iter(enumerate(_lines(path), start=1))
    number = 0
    sizes, classes, tags, sources, targets, arcs = [], [], [], [], [], []
    try:
        number, line = next(rows)
        for _ in range(int(line)):
            number, line = next(rows)
            size, label = map(int, line.split())
            sizes.append(size)
            classes.append(label)
            arcs.append(0)
            for node in range(size):
                number, line = next(rows)
                tag, degree, *neighbours = map(int, line.split())
                if len(neighbours) != degree:
                    raise ValueError(f"{degree} neighbours announced and {len(neighbours)} listed")
                tags.append(tag)
                sources += [node] * degree
                targets += neighbours
                arcs[-1] += degree
    except StopIteration:
        raise ValueError(
            f"Expected more lines (got the end of {path} after line {number}). It is cut short; fetch it again."
        ) from None
    except ValueError as error:
        raise ValueError(
            f"Expected whole numbers in the format of GIN (got {error} at line {number} of {path}). Fetch it again."
        ) from None
    return Laid(
        num_nodes=np.array(sizes),
        num_arcs=np.array(arcs),
        edge_index=np.array([sources, targets], dtype=np.int64),
        x=column(np.unique(tags, return_inverse=True)[1]),
        y=np.array(classes),
    )


def _lines(path: Path) -> list[str]:
    content = path.read_bytes()
    try:
        text = gzip.decompress(content) if path.suffix == ".gz" else content
        return text.decode("ascii").splitlines()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"Expected a text file (got {path}: {error}). It is damaged; fetch it again.") from None
