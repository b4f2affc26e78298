"""`graph_of`: one graph from PyG data, networkx, a name, a line of graph6, a file or an edge list."""

import difflib
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import networkx as nx
import numpy as np
import torch
from torch_geometric.data import Data

from esan.checks import shown
from esan.graphs import generators
from esan.graphs.networkx_graphs import KNOWN
from esan.graphs.readers.files import is_file
from esan.graphs.readers.graph6 import from_graph6, graph6_line, read_graph6
from esan.graphs.readers.graph_arrays import MOST_NODES
from esan.graphs.readers.molecule import SMILES, molecule

GraphLike: TypeAlias = Data | nx.Graph | str | Path | Sequence[tuple[int, int]] | np.ndarray

NAMED: dict[str, Callable[..., Data]] = {
    "cycle": generators.cycle,
    "path": generators.path,
    "star": generators.star,
    "complete": generators.complete,
    "csl": generators.csl,
    "rook": generators.rook,
    "shrikhande": generators.shrikhande,
    **KNOWN,
}
_NAME = re.compile(r"(?P<times>\d+x)?(?P<name>[a-z_]+)(?:\((?P<numbers>\d+(?:,\s*\d+)*)\))?")
#: Names that an error lists; it counts the rest.
_LISTED = 12
#: What a list of edges in one line begins with: "edges:0-1,1-2,4", where 4 stands alone.
EDGES = "edges:"


def graph_of(source: GraphLike) -> Data | nx.Graph:
    """The graph that `source` is or names.

    Args:
        source: PyG data or a networkx graph (returned as they are); a name such as "rook", "csl(12,3)" or, for
            disjoint unions, "2xcycle(3)" and "cycle(3)+path(4)" (`NAMED` lists them, with many of networkx: "petersen",
            "hypercube(4)"); a line of graph6; "smiles:" and a molecule; "edges:0-1,1-2"; the path of a graph6 file
            (.g6) that holds one graph, or "file.g6:3" for its third line, or of a list of edges with a line "u v" or
            "u,v" an edge and nothing else but comments behind "#"; a list of edges (u, v), each once.
    """
    if isinstance(source, Data | nx.Graph):
        return source
    if isinstance(source, Path):
        return _from_file(source)
    if isinstance(source, str):
        return _from_text(source)
    return _from_edges(source)


def graph_from_text(text: str) -> Data:
    """The graph that a text names or writes out, as `graph_of` does; no file is looked at."""
    return _from_text(text, files=False)


def _from_text(text: str, files: bool = True) -> Data:
    if text.startswith(SMILES):
        return molecule(text)
    if text.startswith(EDGES):
        return _from_line_of_edges(text)
    parts = [_NAME.fullmatch(part.strip()) for part in text.split("+")]
    if all(part is not None and part["name"] in NAMED for part in parts):
        graphs = [_named(part) for part in parts if part is not None]
        edges = sum(graph.num_edges for graph in graphs) // 2
        generators.check_size(text[:40], sum(graph.num_nodes or 0 for graph in graphs), edges)
        return graphs[0] if len(graphs) == 1 else generators.disjoint_union(*graphs)
    if files and is_file(text):
        return _from_file(Path(text))
    file, _, line = text.rpartition(":")
    if files and line.isdecimal() and is_file(file):
        return graph6_line(Path(file), _number(line))
    try:
        return from_graph6(text)
    except ValueError as error:
        word = text.partition("(")[0]
        if word in NAMED and "(" in text:
            raise ValueError(
                f"Expected {word} with whole numbers, as in csl(12,3) (got {shown(text)}). Correct the numbers."
            ) from None
        near = difflib.get_close_matches(word, NAMED, 3)
        expected = (
            f"Expected the name of a graph, {'a file or' if files else 'or'} a line of graph6 (got {shown(text)})."
        )
        if near:
            raise ValueError(f"{expected} Did you mean {' or '.join(near)}?") from None
        raise ValueError(
            f"{expected} Known names: {', '.join(list(NAMED)[:_LISTED])}, as in csl(12,3) or 2xcycle(3), and "
            f"{len(NAMED) - _LISTED} more (esan.graphs.readers.one_graph.NAMED). As graph6: {error}"
        ) from None


def _from_line_of_edges(text: str) -> Data:
    edges, most = [], -1
    for part in text.removeprefix(EDGES).split(","):
        ends = part.strip().split("-")
        if len(ends) > 2 or not all(end.isdecimal() and end.isascii() and len(end) <= 7 for end in ends):
            raise ValueError(
                f"Expected edges as in {EDGES}0-1,1-2,4, where node 4 stands alone (got {shown(part)}). Number the "
                "nodes from 0."
            )
        most = max(most, *(int(end) for end in ends))
        edges += [(int(ends[0]), int(ends[1]))] if len(ends) == 2 else []
    generators.check_size(text[:40], most + 1, len(edges))
    return generators.undirected(most + 1, torch.tensor(edges, dtype=torch.long).reshape(-1, 2))


def _named(match: re.Match[str]) -> Data:
    numbers = [_number(number) for number in (match["numbers"] or "").split(",") if number.strip()]
    make = NAMED[match["name"]]
    try:
        inspect.signature(make).bind(*numbers)
    except TypeError:
        raise ValueError(
            f"Expected other numbers behind {match['name']} (got {match[0]!r}). Write cycle(6), csl(12,3) or rook."
        ) from None
    graph, times = make(*numbers), _number((match["times"] or "1x")[:-1])
    if times < 1:
        raise ValueError(f"Expected at least one copy of a graph (got {match[0]!r}). Write e.g. 2xcycle(3).")
    generators.check_size(match[0][:40], (graph.num_nodes or 0) * times, graph.num_edges // 2 * times)
    return graph if times == 1 else generators.copies(graph, times)


def _number(digits: str) -> int:
    # More digits than this are no size of anything, and Python itself reads no more than 4,300.
    if len(digits.strip()) > 18:
        raise ValueError(f"Expected numbers of at most 18 digits in the name of a graph (got {shown(digits)}).")
    return int(digits)


def _from_file(path: Path) -> Data:
    if not path.is_file():
        raise FileNotFoundError(f"Expected a file (got {str(path)!r}, which is not there). Check the path.")
    if path.suffix == ".g6":
        graphs = read_graph6(path)
        if len(graphs) > 1:
            raise ValueError(
                f"Expected one graph (got {len(graphs)} in {path}). Pick one, e.g. {path}:1 for its first line, or "
                "read them all with esan.graphs.read_graph6."
            )
        return graphs[0]
    return _from_edges(_edges_in(path))


def _edges_in(path: Path) -> list[tuple[int, int]]:
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            f'Expected a text file of lines "u v" in UTF-8 (got {path}, whose byte {error.start} is not). '
            "Is it the right file? graph6 ends in .g6."
        ) from None
    edges = []
    for number, line in enumerate(lines, start=1):
        ends = line.split("#")[0].replace(",", " ").split()
        if not ends:
            continue
        if len(ends) != 2 or not all(end.isdecimal() and end.isascii() for end in ends):
            raise ValueError(
                f'Expected lines "u v" of two node numbers (got {line.strip()[:40]!r} in {path}, line {number}). '
                "Labels of edges go into edge_attr of PyG data; graph6 ends in .g6."
            )
        if any(len(end) > 18 or int(end) >= MOST_NODES for end in ends):
            raise ValueError(
                f"Expected node numbers below {MOST_NODES:,} (got {line.strip()[:40]!r} in {path}, line {number}). "
                "Number the nodes from 0 on."
            )
        edges.append((int(ends[0]), int(ends[1])))
    if not edges:
        raise ValueError(f'Expected at least one line "u v" (got none in {path}). Is it the right file?')
    return edges


def _from_edges(edges: Any) -> Data:
    try:
        ends = np.asarray(edges)
    except (ValueError, TypeError, RuntimeError, OverflowError):
        ends = np.empty(0)
    if ends.ndim != 2 or ends.shape[1] != 2 or not np.issubdtype(ends.dtype, np.integer) or ends.min() < 0:
        raise TypeError(
            f"Expected a graph: PyG data, networkx, a name, graph6 or a list of edges (u, v) of node numbers, at least "
            f"one (got {type(edges).__name__} {shown(edges, 60)}). Nodes with other names go into a networkx graph."
        )
    largest = int(ends.max())
    if largest >= MOST_NODES:
        raise ValueError(
            f"Expected node numbers below {MOST_NODES:,} in a list of edges (got {largest}). Number the nodes 0, 1, "
            "2, ... without gaps: all numbers up to the largest are nodes."
        )
    return generators.undirected(largest + 1, torch.from_numpy(ends.astype(np.int64)))
