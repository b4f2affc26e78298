"""A published set as arrays (`SetArrays`): .npz files of graphs, and the conversions that several sets share."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from esan.data.dataset import Split
from esan.graphs.readers.graph_arrays import GraphArrays, graph_arrays, whole
from esan.graphs.readers.graph_arrays import arrays_in as arrays_in


@dataclass
class SetArrays:
    """The graphs of a set as arrays, where they were read from, and the split that comes with them, if any."""

    arrays: GraphArrays
    source: str
    split: Split | None = None


def checked_arrays(arrays: dict[str, np.ndarray], prefix: str, path: Path, needs: tuple[str, ...]) -> GraphArrays:
    """The graphs in the arrays `prefix + name`: edge_index, edge_ptr, node_ptr or num_nodes, and `needs`."""
    graphs = graph_arrays(arrays, str(path), prefix, needs)
    graphs.check(str(path))
    return graphs


def write_arrays(path: Path, parts: dict[str, GraphArrays]) -> None:
    """The file that `checked_arrays` reads, with the names of the parts as prefixes."""
    arrays: dict[str, np.ndarray] = {}
    for part, graphs in parts.items():
        fields = {
            "edge_index": graphs.edge_index,
            "node_ptr": np.append(0, np.cumsum(graphs.num_nodes)),
            "edge_ptr": np.append(0, np.cumsum(graphs.num_directed_edges)),
            "x": graphs.x,
            "edge_attr": graphs.edge_attr,
            "y": graphs.y,
        }
        arrays |= {f"{part}_{name}": value for name, value in fields.items() if value is not None}
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]


def concatenate(parts: list[GraphArrays]) -> GraphArrays:
    """The graphs of all parts, in order."""

    def field(name: str) -> np.ndarray | None:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else np.concatenate(values)

    return GraphArrays(
        num_nodes=np.concatenate([part.num_nodes for part in parts]),
        num_directed_edges=np.concatenate([part.num_directed_edges for part in parts]),
        edge_index=np.concatenate([part.edge_index for part in parts], 1),
        x=field("x"),
        edge_attr=field("edge_attr"),
        y=field("y"),
    )


def category_column(values: np.ndarray, where: str = "the arrays") -> np.ndarray:
    """Category numbers as PyG holds them: one column of 64-bit integers."""
    return whole(values, "categories", where).reshape(-1, 1)
