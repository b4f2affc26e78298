"""Sets as plain arrays in an .npz: EXP, CEXP, CSL and ZINC."""

from pathlib import Path

import numpy as np

from esan.data.sets.from_arrays import Laid
from esan.graphs.readers.arrays import arrays_in as arrays_in
from esan.graphs.readers.arrays import graph_arrays


def laid_in(arrays: dict[str, np.ndarray], prefix: str, path: Path, needs: tuple[str, ...]) -> Laid:
    """The graphs that the arrays `prefix + name` hold: edge_index, edge_ptr, node_ptr or num_nodes, and `needs`."""
    found = graph_arrays(arrays, str(path), prefix, needs)
    found.check(str(path))
    return Laid(**vars(found))


def write_arrays(path: Path, parts: dict[str, Laid]) -> None:
    """The file that `laid_in` reads, with the names of the parts as prefixes."""
    arrays: dict[str, np.ndarray] = {}
    for part, laid in parts.items():
        held = {
            "edge_index": laid.edge_index,
            "node_ptr": np.append(0, np.cumsum(laid.num_nodes)),
            "edge_ptr": np.append(0, np.cumsum(laid.num_arcs)),
            "x": laid.x,
            "edge_attr": laid.edge_attr,
            "y": laid.y,
        }
        arrays |= {f"{part}_{name}": value for name, value in held.items() if value is not None}
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]


def joined(parts: list[Laid]) -> Laid:
    """The graphs of all parts, one part after another."""

    def all_of(name: str) -> np.ndarray | None:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else np.concatenate(values)

    return Laid(
        num_nodes=np.concatenate([part.num_nodes for part in parts]),
        num_arcs=np.concatenate([part.num_arcs for part in parts]),
        edge_index=np.concatenate([part.edge_index for part in parts], 1),
        x=all_of("x"),
        edge_attr=all_of("edge_attr"),
        y=all_of("y"),
    )
