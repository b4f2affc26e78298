"""graph6: read and write the one-line text format of nauty and of most catalogues of small graphs."""

from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from esan.graphs.generators import undirected

_HEADER = ">>graph6<<"
#: A character stands for six bits, counted from this code.
_ZERO = 63
#: Not all that Python takes for blank: other characters are damage.
_BLANKS = " \t\r\n"


def from_graph6(line: str) -> Data:
    """The graph that a line of graph6 stands for.

    Args:
        line: one line, with or without the header `>>graph6<<`.
    """
    text = line.strip(_BLANKS).removeprefix(_HEADER)
    codes = np.frombuffer(text.encode("utf-8"), dtype=np.uint8).astype(np.int64) - _ZERO
    if codes.size == 0 or codes.min() < 0 or codes.max() > 63:
        raise ValueError(
            f"Expected a line of graph6, characters from '?' to '~' (got {_shown(line)}). "
            "Write it with networkx.to_graph6_bytes or nauty; sparse6 and digraph6 are other formats."
        )
    n, codes = _size(codes, line)
    bits = n * (n - 1) // 2
    if codes.size != (bits + 5) // 6:
        raise ValueError(
            f"Expected {(bits + 5) // 6} characters of edges for {n} nodes (got {codes.size} in {_shown(line)}). "
            "Is the line cut, or two lines in one?"
        )
    joined = np.unpackbits(codes.astype(np.uint8)[:, None], axis=1)[:, 2:].reshape(-1)
    if joined[bits:].any():
        raise ValueError(
            f"Expected zeros behind the last edge (got ones, in {_shown(line)}). The line is damaged; write it again."
        )
    # Column by column of the upper triangle: edge number v(v-1)/2 + u joins u < v.
    edge = np.flatnonzero(joined[:bits])
    v = ((1 + np.sqrt(1 + 8 * edge)) / 2).astype(np.int64)
    v -= edge < v * (v - 1) // 2  # where the root was rounded up
    u = edge - v * (v - 1) // 2
    return undirected(n, torch.from_numpy(np.stack([u, v], 1)))


def to_graph6(data: Data) -> str:
    """The graph as a line of graph6, without header; features are not part of the format."""
    n = int(data.num_nodes or 0)
    u, v = data.edge_index.numpy()
    if (u == v).any():
        raise ValueError("Expected a graph without self-loops (got one). graph6 has none; remove them first.")
    bits = np.zeros((n * (n - 1) // 2 + 5) // 6 * 6, dtype=np.uint8)
    u, v = u[u < v], v[u < v]
    bits[v * (v - 1) // 2 + u] = 1
    codes = np.packbits(np.pad(bits.reshape(-1, 6), ((0, 0), (2, 0))), axis=1).reshape(-1)
    return "".join(chr(_ZERO + int(code)) for code in [*_size_codes(n), *codes])


def read_graph6(path: str | Path) -> list[Data]:
    """All graphs of a graph6 file, one per line; empty lines are skipped."""
    # Not splitlines: other characters than the end of a line would make two graphs of one line.
    lines = Path(path).read_bytes().decode("utf-8", errors="replace").split("\n")
    graphs = []
    for number, line in enumerate(lines, start=1):
        if line.strip(_BLANKS) not in ("", _HEADER):
            try:
                graphs.append(from_graph6(line))
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from None
    if not graphs:
        raise ValueError(f"Expected at least one line of graph6 (got none in {path}). Is it the right file?")
    return graphs


def graph6_line(path: Path, number: int) -> Data:
    """The graph in one line of a graph6 file; lines are counted from 1, as editors do."""
    lines = path.read_bytes().decode("utf-8", errors="replace").split("\n")
    if not 1 <= number <= len(lines) or lines[number - 1].strip(_BLANKS) in ("", _HEADER):
        raise ValueError(f"Expected a line of {path} that holds a graph (got line {number}). Count lines from 1.")
    try:
        return from_graph6(lines[number - 1])
    except ValueError as error:
        raise ValueError(f"{path}, line {number}: {error}") from None


def _size(codes: np.ndarray, line: str) -> tuple[int, np.ndarray]:
    """The number of nodes, and the codes behind it: one character up to 62 nodes, else ~ and 3, or ~~ and 6 more."""
    marks = 0 if codes[0] < 63 else 1 if codes[1:2].tolist() != [63] else 2
    used = (1, 3, 6)[marks]
    number = codes[marks : marks + used]
    if number.size < used:
        raise ValueError(f"Expected {used} characters of size behind ~ (got {number.size} in {_shown(line)}).")
    n = 0
    for code in number.tolist():
        n = n * 64 + code
    return n, codes[marks + used :]


def _size_codes(n: int) -> list[int]:
    if n <= 62:
        return [n]
    digits = 3 if n < 64**3 - 64**2 else 6
    return [63] * (digits // 3) + [n >> 6 * place & 63 for place in reversed(range(digits))]


def _shown(line: str) -> str:
    text = line.strip()
    return repr(text if len(text) <= 40 else text[:37] + "...")
