"""Text files of the TU collection (`NAME_A.txt`, `NAME_graph_indicator.txt`, ...) as checked arrays."""

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from esan.graphs.readers.archives import opened_zip
from esan.graphs.readers.graph_arrays import GraphArrays, whole

_AGAIN = "The file is cut short or damaged; unpack it again."


@dataclass
class TUFiles:
    """The files of one set in a folder, in its folder `raw`, or in `raw.zip`, which is never unpacked.

    Attributes:
        folder: of the set.
        name: the prefix of the file names.
    """

    folder: Path
    name: str

    @classmethod
    def of(cls, folder: Path) -> "TUFiles":
        """The set in `folder`, whatever its name; an error if there is none or more than one."""
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
        """The bytes of a file; None if the set has no such file."""
        name = f"{self.name}_{part}.txt"
        for folder in (self.folder, self.folder / "raw"):
            if (folder / name).is_file():
                return io.BytesIO((folder / name).read_bytes())
        packed = self.folder / "raw.zip"
        if packed.is_file():
            with opened_zip(packed) as archive:
                inside = next((i for i in archive.namelist() if i.rsplit("/", 1)[-1] == name), None)
                return None if inside is None else io.BytesIO(archive.read(inside))
        return None

    def table(self, part: str, dtype: type) -> np.ndarray | None:
        """The numbers of a file, one row per line; None if the set has no such file."""
        text = self.text(part)
        if text is None:
            return None
        if not text.getvalue().strip():
            raise ValueError(f"Expected lines of numbers (got an empty file, {self.where(part)}). {_AGAIN}")
        try:
            found: np.ndarray = np.loadtxt(text, delimiter=",", dtype=dtype, ndmin=2, comments=None)
        except ValueError as error:
            kind = "integers" if dtype is np.int64 else "numbers"
            raise ValueError(
                f"Expected lines of {kind} in {self.where(part)} (got other text: {error!s:.200}). {_AGAIN}"
            ) from None
        return found

    def labels(self, part: str, lines: int) -> np.ndarray | None:
        """Integers, written as 1 or 1.0, one row per line; None if the set has no such file."""
        found = self.table(part, np.float64)
        if found is None:
            return None
        self.check_lines(part, found, lines)
        return whole(found, "labels", self.where(part))

    def check_lines(self, part: str, found: np.ndarray, lines: int) -> None:
        """An error unless the file has as many lines as the other files imply."""
        if len(found) != lines:
            raise ValueError(
                f"Expected {lines:,} lines, as many as the other files have (got {len(found):,} in "
                f"{self.where(part)}). One of them is cut short, or has lines too many; unpack them again."
            )


@dataclass
class TUGraphs:
    """The graphs of a set without features.

    Attributes:
        arrays: nodes and edges; a repeated column and a self-loop are dropped, as PyG does.
        line: the line of `NAME_A.txt` of each column of edge_index.
        num_lines: the number of lines of that file.
    """

    arrays: GraphArrays
    line: np.ndarray
    num_lines: int

    @staticmethod
    def of(files: TUFiles) -> "TUGraphs":
        pairs, owners = _needed(files, "A"), _needed(files, "graph_indicator")
        for part, found, width, shown in (("A", pairs, 2, '"u, v"'), ("graph_indicator", owners, 1, "of one number")):
            if found.shape[1] != width:
                raise ValueError(
                    f"Expected lines {shown} (got {found.shape[1]} numbers per line in {files.where(part)}). {_AGAIN}"
                )
        graph = owners[:, 0]
        steps = np.diff(graph)
        if graph[0] != 1 or (steps < 0).any():
            raise ValueError(
                f"Expected the nodes graph after graph, from graph 1 on (got others in "
                f"{files.where('graph_indicator')}). Sort them, and the node numbers with them."
            )
        if (steps > 1).any():
            bad = int((steps > 1).argmax())
            raise ValueError(
                f"Expected graphs with at least one node (got none of graph {graph[bad] + 1}, after line {bad + 1} of "
                f"{files.where('graph_indicator')}). Leave such graphs out, and number the others on."
            )
        n = graph.size
        outside = ((pairs < 1) | (pairs > n)).any(1)
        if outside.any():
            bad = int(outside.argmax())
            raise ValueError(
                f"Expected node numbers from 1 to {n}, the lines of graph_indicator (got {tuple(pairs[bad].tolist())} "
                f"at line {bad + 1} of {files.where('A')}). One of the two files is cut short; unpack them again."
            )
        source, target = pairs.T - 1
        across = graph[source] != graph[target]
        if across.any():
            bad = int(across.argmax())
            raise ValueError(
                f"Expected edges inside graphs (got {tuple(pairs[bad].tolist())}, of graphs {graph[source[bad]]} and "
                f"{graph[target[bad]]}, at line {bad + 1} of {files.where('A')}). {_AGAIN}"
            )
        # Some sets list an edge twice, or a node as its own neighbour; simple graphs are meant.
        _, line = np.unique(source * n + target, return_index=True)
        line = line[source[line] != target[line]]
        nodes = np.bincount(graph - 1)
        of_column = graph[source[line]] - 1
        arrays = GraphArrays(
            num_nodes=nodes,
            num_directed_edges=np.bincount(of_column, minlength=nodes.size),
            edge_index=np.stack([source[line], target[line]]) - (np.cumsum(nodes) - nodes)[of_column],
        )
        return TUGraphs(arrays, line, len(pairs))


def _needed(files: TUFiles, part: str) -> np.ndarray:
    found = files.table(part, np.int64)
    if found is None:
        raise FileNotFoundError(f"Expected {files.where(part)} (got no such file). Unpack all files of the set.")
    return found


def _listed(folder: Path) -> list[str]:
    names = [path.name for one in (folder, folder / "raw") if one.is_dir() for path in one.iterdir()]
    packed = folder / "raw.zip"
    if not any(name.endswith("_A.txt") for name in names) and zipfile.is_zipfile(packed):
        with opened_zip(packed) as archive:
            names += [name.rsplit("/", 1)[-1] for name in archive.namelist()]
    return names
