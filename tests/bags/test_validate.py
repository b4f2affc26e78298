"""Bag files whose arrays were edited, with all checksums of the archive in order."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import esan
import strategies
from esan.bags.io import _digest

GRAPHS = strategies.odd_graphs()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    esan.Bag.of(GRAPHS, esan.EgoNets(2, marked=True), 3).save(tmp_path / "bag.npz")
    return tmp_path / "bag.npz"


def _parts(file: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    with np.load(file) as held:
        arrays = {name: held[name] for name in held.files}
    return json.loads(str(arrays.pop("header"))), arrays


def _write(file: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    np.savez(file, header=np.array(json.dumps(header)), **arrays)  # type: ignore[arg-type]


def _before(header: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in header.items() if name not in ("sha256", "esan")}
    return kept | {"format": "esan bag 1"}


def test_contents_are_compared_with_the_digest(file: Path) -> None:
    header, arrays = _parts(file)
    _write(file, header, arrays | {"graphs/x": arrays["graphs/x"] * 100})
    with pytest.raises(ValueError, match=r"Expected a whole bag file at .*esan bag 2.*not those of its SHA-256"):
        esan.Bag.load(file, source=GRAPHS, policy=esan.EgoNets(2, marked=True), num_layers=3)
    _write(file, header | {"num_layers": 2}, arrays)
    with pytest.raises(ValueError, match="SHA-256"):
        esan.Bag.load(file)


def test_files_of_the_version_before_are_read_and_checked(file: Path) -> None:
    """They have no digest: graphs are compared with their fingerprint, and rows with rows built from scratch."""
    whole = esan.Bag.load(file)
    header, arrays = _parts(file)
    _write(file, _before(header), arrays)
    again = esan.Bag.load(file, source=GRAPHS, policy=esan.EgoNets(2, marked=True), num_layers=3)
    assert all(getattr(again, part).fingerprint == getattr(whole, part).fingerprint for part in ("graphs", "rows"))
    _write(file, _before(header), arrays | {"graphs/x": arrays["graphs/x"] * 100})
    with pytest.raises(ValueError, match=r"esan bag 1.*Expected the graphs of its fingerprint"):
        esan.Bag.load(file)
    # Another stored pair in place of the background: every index is in range.
    source = arrays["rows/source"].copy()
    stored = source >= whole.num_nodes
    source[stored] = whole.rows.node.numpy()[source[stored] - whole.num_nodes]
    _write(file, _before(header), arrays | {"rows/source": source})
    with pytest.raises(ValueError, match=r"esan bag 1.*Expected the rows of its selection"):
        esan.Bag.load(file)


@pytest.mark.each_value
@pytest.mark.parametrize("literal", [True, None])
@pytest.mark.parametrize("number", [-1, 2**62, -(2**63), 10**6])
def test_indices_are_checked_whatever_the_digest_says(literal: bool | None, number: int, tmp_path: Path) -> None:
    """Who changes a file can change its digest too; what compiled loops read must be in range all the same."""
    file = tmp_path / "bag.npz"
    esan.Bag.of(GRAPHS, esan.NodeDeletion(), 2, literal=literal).save(file)
    header, arrays = _parts(file)
    names = [name for name, array in arrays.items() if array.dtype == np.int64 and array.size]
    assert len(names) >= 12
    for name in names:
        # More subgraphs that change nothing are a bag too: in a compact one they have no rows.
        fine = name == "selection/num_subgraphs" and literal is None and number == 10**6
        if fine or name in ("graphs/x", "graphs/edge_attr"):
            continue
        for place in (0, -1):
            changed = arrays[name].copy()
            changed.reshape(-1)[place] = number
            forged = arrays | {name: changed}
            _write(file, header | {"sha256": _digest(header, forged)}, forged)
            with pytest.raises(ValueError, match=r"Expected a whole bag file at .*Expected "):
                esan.Bag.load(file)


def test_what_a_bag_is_built_of_is_checked_too() -> None:
    """A selection carried by data comes from outside."""
    data = esan.NodeDeletion()(GRAPHS[5])
    data.selection_entry_edge = data.selection_entry_edge + 10**9
    with pytest.raises(ValueError, match="Expected entry_edge from 0 to below 5"):
        esan.Bag.of(data, num_layers=2)
    data = esan.NodeMarking()(GRAPHS[5])
    data.selection_mark_node = torch.flip(data.selection_mark_node, (0,)) - 7
    with pytest.raises(ValueError, match="Expected mark_node from 0 to below 5"):
        esan.Bag.of(data, num_layers=2)
