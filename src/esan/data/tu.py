"""The text files of the TU collection: `NAME_A.txt`, `NAME_graph_indicator.txt` and their companions → arrays."""

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from esan.data.laid import Laid

_AGAIN = "The file is cut short or damaged; unpack it again."


@dataclass
class TUFiles:
    """The files of one set in a folder, in its folder `raw`, or in `raw.zip` (read where it lies, never unpacked).

    Attributes:
        folder: of the set.
        name: what the names of the files begin with.
    """

    folder: Path
    name: str

    @classmethod
    def of(cls, folder: Path) -> "TUFiles":
        """The set in `folder`, whatever its name; an error where there is none or more than one."""
        names = sorted({name.removesuffix("_A.txt") for name in _listed(folder) if name.endswith("_A.txt")})
        if len(names) != 1:
            got = f"{len(names)}: {', '.join(names)}" if names else "none"
            raise ValueError(
                f"Expected one file NAME_A.txt in {folder}, its folder raw or its raw.zip (got {got}). "
                "Give each set its own folder, with its text files in it."
            )
        return cls(folder, names[0])

    def where(self, part: str) -> str:
        return f"{self.name}_{part}.txt in {self.folder}"

    def text(self, part: str) -> io.BytesIO | None:
        """A file's bytes, or None where the set has no such file."""
        name = f"{self.name}_{part}.txt"
        for place in (self.folder, self.folder / "raw"):
            if (place / name).is_file():
                return io.BytesIO((place / name).read_bytes())
        packed = self.folder / "raw.zip"
        if packed.is_file():
            try:
                with zipfile.ZipFile(packed) as archive:
                    inside = next((i for i in archive.namelist() if i.rsplit("/", 1)[-1] == name), None)
                    return None if inside is None else io.BytesIO(archive.read(inside))
            except zipfile.BadZipFile as error:
                raise ValueError(f"Expected a whole archive (got {packed}: {error}). Fetch it again.") from None
        return None

    def table(self, part: str, dtype: type) -> np.ndarray | None:
        """The numbers of a file, a row a line, or None where the set has no such file."""
        text = self.text(part)
        if text is None:
            return None
        if not text.getbuffer().nbytes:
            raise ValueError(f"Expected lines of numbers (got an empty file, {self.where(part)}). {_AGAIN}")
        try:
            return np.loadtxt(text, delimiter=",", dtype=dtype, ndmin=2, comments=None)
        except ValueError as error:
            kind = "integers" if dtype is np.int64 else "numbers"
            raise ValueError(
                f"Expected lines of {kind} (got other text in {self.where(part)}: {error}). {_AGAIN}"
            ) from None


def read_tu(files: TUFiles, *, attributes: bool, edge_labels: bool, numbers: int | None = None) -> Laid:
    """The graphs, with node labels as `x` (integers from 0) and graph labels, else graph attributes, as `y`.

    A repeated column and a self-loop are dropped, as PyG does.

    Args:
        files: of the set.
        attributes: whether real-valued attributes of nodes stand in `x`, in front of the labels shown as 0/1.
        edge_labels: whether `edge_attr` holds the labels of edges, if there are any.
        numbers: of a regression, how many targets a graph has, 0 if that is not known: graph attributes of so many
            columns are then the targets even where there are graph labels; None for other tasks.
    """
    arcs, graph = _needed(files, "A"), _needed(files, "graph_indicator")[:, 0]
    if arcs.shape[1] != 2:
        raise ValueError(f'Expected lines "u, v" (got {arcs.shape[1]} numbers a line in {files.where("A")}). {_AGAIN}')
    if (np.diff(graph) < 0).any() or graph[0] != 1:
        raise ValueError(
            f"Expected the nodes graph after graph, from graph 1 on (got others in {files.where('graph_indicator')}). "
            "Sort them, and the node numbers with them."
        )
    nodes = np.bincount(graph - 1)
    n = graph.size
    outside = ((arcs < 1) | (arcs > n)).any(1)
    if outside.any():
        bad = int(outside.argmax())
        raise ValueError(
            f"Expected node numbers from 1 to {n}, the lines of graph_indicator (got {tuple(arcs[bad].tolist())} at "
            f"line {bad + 1} of {files.where('A')}). One of the two files is cut short; unpack them again."
        )
    source, target = arcs.T - 1
    across = graph[source] != graph[target]
    if across.any():
        bad = int(across.argmax())
        raise ValueError(
            f"Expected edges inside graphs (got {tuple(arcs[bad].tolist())}, of graphs {graph[source[bad]]} and "
            f"{graph[target[bad]]}, at line {bad + 1} of {files.where('A')}). {_AGAIN}"
        )
    _, kept = np.unique(source * n + target, return_index=True)
    kept = kept[source[kept] != target[kept]]
    of_arc = graph[source[kept]] - 1
    start = np.cumsum(nodes) - nodes
    label = _labels(files, "edge_labels", len(arcs)) if edge_labels else None
    return Laid(
        num_nodes=nodes,
        num_arcs=np.bincount(of_arc, minlength=nodes.size),
        edge_index=np.stack([source[kept], target[kept]]) - start[of_arc],
        x=_node_features(files, n) if attributes else _labels(files, "node_labels", n),
        edge_attr=None if label is None else label[kept],
        y=_targets(files, nodes.size, numbers),
    )


def _needed(files: TUFiles, part: str) -> np.ndarray:
    found = files.table(part, np.int64)
    if found is None:
        raise FileNotFoundError(f"Expected {files.where(part)} (got no such file). Unpack all files of the set.")
    return found


def _labels(files: TUFiles, part: str, lines: int) -> np.ndarray | None:
    """Integer labels from 0, a column a label."""
    found = files.table(part, np.int64)
    if found is None:
        return None
    _check_lines(files, part, found, lines)
    return found - found.min(0)


def _check_lines(files: TUFiles, part: str, found: np.ndarray, lines: int) -> None:
    if len(found) != lines:
        raise ValueError(
            f"Expected {lines:,} lines, as many as the other files have (got {len(found):,} in {files.where(part)}). "
            "One of them is cut short; unpack them again."
        )


def _node_features(files: TUFiles, nodes: int) -> np.ndarray | None:
    labels = _labels(files, "node_labels", nodes)
    attributes = files.table("node_attributes", np.float64)
    if attributes is None:
        return labels
    _check_lines(files, "node_attributes", attributes, nodes)
    shown = [] if labels is None else [np.eye(int(c.max()) + 1)[c] for c in labels.T]
    return np.concatenate([attributes, *shown], 1).astype(np.float32)


def _targets(files: TUFiles, graphs: int, numbers: int | None) -> np.ndarray | None:
    part = "graph_labels" if files.text("graph_labels") is not None else "graph_attributes"
    if numbers is not None and (attributes := files.table("graph_attributes", np.float64)) is not None:
        part = "graph_attributes" if numbers in (0, attributes.shape[1]) else part
    # Class numbers are written as 1 or 1.0; real targets have fractions.
    found = files.table(part, np.float64)
    if found is None:
        return None
    _check_lines(files, part, found, graphs)
    found = found[:, 0] if found.shape[1] == 1 else found
    whole = part == "graph_labels" and bool((found == np.round(found)).all())
    return found.astype(np.int64) if whole else found


def _listed(folder: Path) -> list[str]:
    names = [path.name for place in (folder, folder / "raw") if place.is_dir() for path in place.iterdir()]
    packed = folder / "raw.zip"
    if not any(name.endswith("_A.txt") for name in names) and zipfile.is_zipfile(packed):
        with zipfile.ZipFile(packed) as archive:
            names += [name.rsplit("/", 1)[-1] for name in archive.namelist()]
    return names
