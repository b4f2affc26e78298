"""The origin of a record: the commit of the code, and the content of the data."""

import re
import subprocess
from pathlib import Path

import pytest
import torch

import esan
from esan.data import Split
from esan.train import Job, run_jobs
from esan.train.runs import provenance
from esan.train.runs.provenance import code_commit, data_sha256
from esan.version import __version__
from small_sets import quick, small


def git(folder: Path, *command: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def checkout(folder: Path) -> str | None:
    provenance.checkout_of.cache_clear()
    return provenance.checkout_of(folder)


def test_the_commit_is_that_of_the_repository_that_tracks_the_package(tmp_path: Path) -> None:
    package = tmp_path / "src" / "esan"
    package.mkdir(parents=True)
    (package / "version.py").write_text("1\n")
    assert checkout(package) is None
    git(tmp_path, "init", "-q")
    assert checkout(package) is None, "installed below a repository that does not track it"
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert checkout(package) == commit
    (tmp_path / "notes.txt").write_text("untracked, and beside the package\n")
    assert checkout(package) == commit
    (package / "version.py").write_text("2\n")
    assert checkout(package) == f"{commit}+changes"


def test_without_a_checkout_it_is_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ESAN_COMMIT", raising=False)
    monkeypatch.setattr(provenance, "checkout_of", lambda _: None)
    assert code_commit() == f"version {__version__}"


def test_the_environment_names_the_commit_of_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESAN_COMMIT", "ab" * 20)
    assert code_commit() == "ab" * 20
    monkeypatch.setenv("ESAN_COMMIT", "main")
    with pytest.raises(ValueError, match=r"Expected the 40 digits of a commit in \$ESAN_COMMIT \(got 'main'\)"):
        code_commit()


def test_the_data_are_their_graphs_targets_and_split() -> None:
    graphs = [esan.graphs.cycle(n) for n in (4, 5, 6)]
    one, same = (esan.data.own(graphs, labels=[0, 1, 0], name=name) for name in ("a", "b"))
    other = esan.data.own(graphs, labels=[0, 1, 1], name="a")
    # A constant: the same on every machine, and in every version that reads data in the same way.
    assert data_sha256(one.fingerprint, None) == "c601b23428144444481d96c1760405f8bf41e233f0b750434677c557878b5bd1"
    assert data_sha256(one.fingerprint, None) == data_sha256(same.fingerprint, None)
    assert data_sha256(one.fingerprint, None) != data_sha256(other.fingerprint, None)
    ids = [([0], [1], [2]), ([0], [1, 2], []), ([0, 1], [2], []), ([1], [0], [2])]
    splits = [Split(*(torch.tensor(part, dtype=torch.long) for part in parts)) for parts in ids]
    assert len({data_sha256(one.fingerprint, split) for split in [*splits, None]}) == 5


def test_a_run_records_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESAN_COMMIT", "cd" * 20)
    dataset = small()
    (record,) = run_jobs([Job(quick())], tmp_path, dataset=dataset)
    assert record.commit == "cd" * 20
    assert record.data_sha256 == data_sha256(dataset.fingerprint, dataset.given)
    assert re.fullmatch("[0-9a-f]{64}", record.data_sha256)
