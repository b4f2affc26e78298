"""What numba has kept of loops is forgotten when any of their files changes."""

from pathlib import Path

import pytest

from esan.ops.numba.runtime import drop_stale_cache


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "loops.py").write_text("inner = 1")
    (tmp_path / "layer_loops.py").write_text("outer = 1")
    (tmp_path / "__pycache__").mkdir()
    drop_stale_cache(tmp_path)
    return tmp_path


def _kept(folder: Path) -> Path:
    path = folder / "__pycache__" / "layer_loops._first-10.py311.nbi"
    path.write_bytes(b"compiled")
    return path


def test_the_same_loops_are_kept(folder: Path) -> None:
    kept = _kept(folder)
    drop_stale_cache(folder)
    assert kept.is_file()


def test_another_file_than_its_own_has_changed(folder: Path) -> None:
    kept = _kept(folder)
    (folder / "loops.py").write_text("inner = 2")
    drop_stale_cache(folder)
    assert not kept.is_file()
    kept = _kept(folder)
    drop_stale_cache(folder)
    assert kept.is_file()


def test_what_is_not_of_loops_is_left_alone(folder: Path) -> None:
    other = folder / "__pycache__" / "cpu.cpython-311.pyc"
    other.write_bytes(b"python")
    (folder / "loops.py").write_text("inner = 3")
    drop_stale_cache(folder)
    assert other.is_file()
