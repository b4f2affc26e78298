"""Bags on disk: what was saved comes back whole, and nothing else is let in."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import esan
import strategies

GRAPHS = strategies.odd_graphs()
PARTS = ("graphs", "selection", "rows")


def _same(one: esan.Bag, other: esan.Bag) -> bool:
    return all(getattr(one, part).fingerprint == getattr(other, part).fingerprint for part in PARTS)


@pytest.mark.parametrize("literal", [True, False, None])
@pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=strategies.POLICIES)
def test_round_trip(policy: esan.Policy, literal: bool | None, tmp_path: Path) -> None:
    bag = esan.Bag.of(GRAPHS, policy, 3, literal=literal)
    bag.save(tmp_path / "deep" / "bag.npz")
    again = esan.Bag.load(tmp_path / "deep" / "bag.npz", source=GRAPHS, policy=policy, num_layers=3)
    assert _same(bag, again)
    assert (again.policy, again.num_layers, again.strict) == (policy, bag.num_layers, bag.strict)
    assert again.graphs.y_level == bag.graphs.y_level


def test_round_trip_of_a_sample(tmp_path: Path) -> None:
    policy = esan.Sampled(esan.EgoNets(2, marked=True), 0.5)
    bag = esan.Bag.of(GRAPHS, policy, 2)
    bag.save(tmp_path / "bag")
    again = esan.Bag.load(tmp_path / "bag", policy=policy)
    assert _same(bag, again)
    assert bag.sampled_from is not None
    assert again.sampled_from is not None
    assert _same(bag.sampled_from, again.sampled_from)
    seeds = [torch.Generator().manual_seed(3) for _ in range(2)]
    assert _same(bag.resample(seeds[0]), again.resample(seeds[1]))


def test_predictions_survive(tmp_path: Path) -> None:
    policy = esan.NodeDeletion()
    network = strategies.model("dss", "gine", policy).eval()
    bag = esan.Bag.of(GRAPHS, policy, 3)
    bag.save(tmp_path / "bag.npz")
    assert torch.equal(network(bag), network(esan.Bag.load(tmp_path / "bag.npz")))


def test_arrays_have_the_names_of_all_versions(tmp_path: Path) -> None:
    """Attributes were renamed, names in files were not: files of older versions load."""
    path = tmp_path / "bag.npz"
    esan.Bag.of(GRAPHS, esan.NodeDeletion(), 2).save(path)
    names = set(np.load(path).files)
    assert {"graphs/num_arcs", "graphs/arc_edge", "rows/num_arcs", "rows/arc"} <= names
    assert not {"graphs/num_directed_edges", "graphs/undirected_edge", "rows/num_edges", "rows/edge_id"} & names


def test_nothing_is_pickled(tmp_path: Path) -> None:
    esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3).save(tmp_path / "bag.npz")
    with zipfile.ZipFile(tmp_path / "bag.npz") as file:
        assert all(name.endswith(".npy") for name in file.namelist())
    with np.load(tmp_path / "bag.npz", allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)
        assert json.loads(str(file["header"]))["policy"] == "NodeDeletion(k=1)"


def test_a_pickle_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "bag.npz").open("wb") as file:
        np.savez(file, header=np.array([{"format": "esan bag 1"}], dtype=object))
    with pytest.raises(ValueError, match=r"Expected a whole bag file at .*build the bag again"):
        esan.Bag.load(tmp_path / "bag.npz")


class BrokenError(RuntimeError):
    pass


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bag.npz"
    esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3).save(path)
    before = path.read_bytes()

    def breaks(file: object, **arrays: object) -> None:
        file.write(b"half of")  # type: ignore[attr-defined]
        raise BrokenError

    monkeypatch.setattr(np, "savez", breaks)
    with pytest.raises(BrokenError):
        esan.Bag.of(GRAPHS, esan.EdgeDeletion(), 3).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["bag.npz"]


def test_stale_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bag.npz"
    esan.Bag.of(GRAPHS, esan.EgoNets(2), 3).save(path)
    with pytest.raises(ValueError, match=r"Expected a bag of EgoNets\(hops=3, .*got one of EgoNets\(hops=2.*build"):
        esan.Bag.load(path, policy=esan.EgoNets(3))
    with pytest.raises(ValueError, match=r"Expected a bag of EdgeDeletion\(\) at .*got one of EgoNets\(hops=2"):
        esan.Bag.load(path, policy="ED")
    with pytest.raises(ValueError, match=r"Expected a bag built for 4 layers or more at .*got 3\)\. Check the path"):
        esan.Bag.load(path, num_layers=4)
    changed = strategies.odd_graphs()
    changed[2].x = changed[2].x + 1
    with pytest.raises(ValueError, match=r"Expected a bag of these graphs at .*got one of other data.*Check the path"):
        esan.Bag.load(path, source=changed)
    assert esan.Bag.load(path, source=GRAPHS, policy=esan.EgoNets(2), num_layers=2).num_layers == 3


def test_a_literal_bag_is_never_too_shallow(tmp_path: Path) -> None:
    esan.Bag.of(GRAPHS, esan.EgoNets(2), literal=True).save(tmp_path / "bag.npz")
    assert esan.Bag.load(tmp_path / "bag.npz", num_layers=9).literal


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999])
def test_truncated_files_are_refused(share: float, tmp_path: Path) -> None:
    path = tmp_path / "bag.npz"
    esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3).save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"Expected a whole bag file at .*cut short or not of esan.*Check the path"):
        esan.Bag.load(path)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.95])
def test_damaged_files_are_refused(share: float, tmp_path: Path) -> None:
    path = tmp_path / "bag.npz"
    esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3).save(path)
    content = bytearray(path.read_bytes())
    place = int(share * len(content))
    content[place : place + 64] = bytes(b ^ 0xFF for b in content[place : place + 64])
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="Expected a"):
        esan.Bag.load(path)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a bag")
    array, arrays, other = (tmp_path / name for name in ("one.npy", "some.npz", "other.npz"))
    np.save(array, np.arange(3))
    np.savez(arrays, x=np.arange(3))
    for path in (text, array, arrays):
        with pytest.raises(ValueError, match=r"Expected a whole bag file at .*not of esan.*Check the path") as refused:
            esan.Bag.load(path)
        assert "pickle" not in str(refused.value)
    assert "not of esan: arrays without the header of a bag)" in str(refused.value)
    np.savez(other, header=np.array(json.dumps({"format": "esan bag 999"})))
    with pytest.raises(ValueError, match=r"Expected a file of the format 'esan bag \d' at .*esan bag 999.*again"):
        esan.Bag.load(other)
    np.savez(other, header=np.array(json.dumps(["a", "list"])))
    with pytest.raises(ValueError, match="Expected a file of the format"):
        esan.Bag.load(other)


def test_files_with_more_than_a_bag_are_refused(tmp_path: Path) -> None:
    """What stands behind an archive is passed over by zipfile, and of two archives the first."""
    path = tmp_path / "bag.npz"
    esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3).save(path)
    content = path.read_bytes()
    for more in (b"\0", b"a few more bytes than none", content):
        path.write_bytes(content + more)
        with pytest.raises(ValueError, match=r"Expected a whole bag file at .*other bytes before or behind it"):
            esan.Bag.load(path)


def test_files_that_lack_a_part_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bag.npz"
    esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3).save(path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files if name != "rows/source"}
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=r"Expected a whole bag file at .*build the bag again"):
        esan.Bag.load(path)


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"Expected a bag file at .*got nothing there.*Write it with bag.save"):
        esan.Bag.load(tmp_path / "nothing.npz")


def test_a_policy_of_ones_own_comes_back_as_its_name(tmp_path: Path) -> None:
    class Twice(esan.Policy):
        def select(self, graphs: esan.graphs.Graphs) -> esan.Selection:
            nothing = graphs.num_nodes[:0]
            return esan.Selection.deleting(graphs, torch.full_like(graphs.num_nodes, 2), nothing, nothing)

    path = tmp_path / "bag.npz"
    esan.Bag.of(GRAPHS, Twice(), 3).save(path)
    assert esan.Bag.load(path).policy == "Twice()"
    assert isinstance(esan.Bag.load(path, policy=Twice()).policy, Twice)
    esan.Bag.load(path).save(path)
    assert isinstance(esan.Bag.load(path, policy=Twice()).policy, Twice)
