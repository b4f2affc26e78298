"""Files that could not be written leave nothing behind: no half, no empty file, no folders made for them."""

import errno
from pathlib import Path
from typing import IO

import pytest

import esan
from esan.atomic_write import write_file


def _full(file: IO[bytes]) -> None:
    file.write(b"half")
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"before")
    for path in (tmp_path / "a.txt", tmp_path / "new" / "newer" / "a.txt"):
        with pytest.raises(OSError, match=r"Expected to write .*a.txt \(got: No space left on device\)\. .*unchanged"):
            write_file(path, _full)
    assert (tmp_path / "a.txt").read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    write_file(tmp_path / "new" / "b.txt", lambda file: file.write(b"b"))
    assert (tmp_path / "new" / "b.txt").read_bytes() == b"b"
    with pytest.raises(IsADirectoryError, match="got the folder"):
        write_file(tmp_path / "new", lambda file: file.write(b"b"))


def test_folders_that_others_use_stay(tmp_path: Path) -> None:
    def fails_late(file: IO[bytes]) -> None:
        (tmp_path / "new" / "other.txt").write_text("of another process")
        _full(file)

    with pytest.raises(OSError, match="No space left"):
        write_file(tmp_path / "new" / "deep" / "a.txt", fails_late)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["other.txt"]


def test_a_picture_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = pytest.importorskip("matplotlib.figure")
    bag = esan.Bag.of(esan.graphs.cycle(4), "ED", 2)
    monkeypatch.setattr(figure.Figure, "savefig", lambda self, file, **_: _full(file))
    with pytest.raises(OSError, match=r"Expected to write .*No space left"):
        bag.draw(path=tmp_path / "new" / "bag.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["bag.png", "bag.svg", "bag.pdf", "bag"])
def test_a_picture_is_of_the_kind_of_its_name(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    esan.Bag.of(esan.graphs.cycle(4), "ED", 2).draw(path=tmp_path / name)
    begins = {"bag.png": b"\x89PNG", "bag.svg": b"<?xml", "bag.pdf": b"%PDF", "bag": b"\x89PNG"}
    assert (tmp_path / name).read_bytes().startswith(begins[name])
