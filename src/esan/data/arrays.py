"""Sets as plain arrays in an .npz: EXP, CEXP, CSL and ZINC."""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from esan.data.laid import Laid


def arrays_in(path: Path) -> dict[str, np.ndarray]:
    """Every array of an .npz; no pickle is ever read."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, zipfile.BadZipFile, zlib.error, EOFError, AttributeError, TypeError, KeyError) as error:
        raise ValueError(
            f"Expected an .npz of plain arrays (got {path}: {str(error) or type(error).__name__}). "
            "The file is cut short or damaged; fetch it again."
        ) from None


def laid_in(arrays: dict[str, np.ndarray], prefix: str, path: Path, needs: tuple[str, ...]) -> Laid:
    """The graphs that the arrays `prefix + name` hold: edge_index, edge_ptr, node_ptr or num_nodes, and `needs`."""
    there = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
    if "num_nodes" not in there and "node_ptr" in there:
        there["num_nodes"] = np.diff(there["node_ptr"].astype(np.int64))
    for name in ("edge_index", "edge_ptr", "num_nodes", *needs):
        if name not in there:
            raise ValueError(
                f"Expected the arrays edge_index, edge_ptr, {', '.join(needs)} and node_ptr or num_nodes (got no "
                f"{prefix}{name} in {path}, but {', '.join(sorted(arrays))}). Is it the right file?"
            )
    return Laid(
        num_nodes=there["num_nodes"].astype(np.int64),
        num_arcs=np.diff(there["edge_ptr"].astype(np.int64)),
        edge_index=there["edge_index"],
        x=there.get("x"),
        edge_attr=there.get("edge_attr"),
        y=there.get("y"),
    )


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
