"""Downloads from a server on this machine: what is fetched, where it is kept, and what happens when it fails."""

import functools
import hashlib
import http.server
import io
import pickle
import re
import shutil
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch_geometric.datasets import ZINC, TUDataset

from esan import data
from esan.data.sets import downloads
from esan.data.sets.folders import DataFolders
from shared_sets import ROOT, needs


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder, and the address under which a server hands out its files; it has no certificate."""
    monkeypatch.setattr(downloads, "SCHEMES", ("https", "http"))
    folder = tmp_path / "served"
    folder.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def _packed(target: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


@needs("TU/MUTAG/raw")
def test_a_tu_set_is_fetched_once_into_the_cache(
    served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = served
    raw = ROOT / "TU" / "MUTAG" / "raw"
    _packed(folder / "MUTAG.zip", {f"MUTAG/{path.name}": path.read_bytes() for path in raw.iterdir()})
    monkeypatch.setattr(TUDataset, "url", address)
    root, cache = tmp_path / "root", tmp_path / "cache"
    root.mkdir()
    first = data.load("mutag", root, cache=cache)
    assert first.source == str(cache / "TU" / "MUTAG" / "raw" / "MUTAG_A.txt")
    assert first.fingerprint == data.load("mutag", ROOT).fingerprint
    assert not list(root.iterdir()), "a root is only read"
    assert [path.name for path in (cache / "TU").iterdir()] == ["MUTAG"], "no scratch is left"
    shutil.rmtree(folder)
    assert data.load("mutag", root, cache=cache).fingerprint == first.fingerprint
    assert data.load("mutag", cache, download=False).fingerprint == first.fingerprint


@pytest.mark.exhaustive
@needs("ZINC/raw/train.pickle")
def test_zinc_is_kept_as_plain_arrays(
    served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = served
    raw = ROOT / "ZINC" / "raw"
    _packed(folder / "molecules.zip", {f"molecules/{path.name}": path.read_bytes() for path in raw.glob("*.pickle")})
    for path in raw.glob("*.index"):
        shutil.copy(path, folder)
    monkeypatch.setattr(ZINC, "url", f"{address}/molecules.zip")
    monkeypatch.setattr(downloads, "ZINC_LISTS", {name: f"{address}/{name}.index" for name in ("train", "val", "test")})
    cache = tmp_path / "cache"
    fetched = data.load("zinc", cache=cache, root=tmp_path)
    assert [path.name for path in (cache / "ZINC").iterdir()] == ["zinc12k.npz"]
    assert fetched.fingerprint == data.load("zinc", ROOT).fingerprint


@needs("TU/PTC/PTC.txt.gz", "EXP/raw/GRAPHSAT.pkl")
def test_files_known_byte_for_byte_are_compared_with_their_checksum(
    served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gzip

    folder, address = served
    text = gzip.decompress((ROOT / "TU" / "PTC" / "PTC.txt.gz").read_bytes())
    _packed(folder / "dataset.zip", {"dataset/PTC/PTC.txt": text})
    monkeypatch.setattr(downloads, "GIN_FILES", f"{address}/dataset.zip")
    assert len(data.load("ptc", tmp_path, cache=tmp_path / "cache")) == 344
    _packed(folder / "dataset.zip", {"dataset/PTC/PTC.txt": text + b"\n"})
    with pytest.raises(FileNotFoundError, match=r"Expected PTC\.txt with the checksum 711729eaf2a5"):
        data.load("ptc", tmp_path, cache=tmp_path / "other")
    pickled = ROOT / "EXP" / "raw" / "GRAPHSAT.pkl"
    assert hashlib.sha256(pickled.read_bytes()).hexdigest() == downloads.SHA256["GRAPHSAT.pkl"]
    shutil.copy(pickled, folder)
    monkeypatch.setattr("esan.data.sets.expressivity.EXP_FILE", f"{address}/GRAPHSAT.pkl")
    assert len(data.load("exp", tmp_path, cache=tmp_path / "cache")) == 1_200


@needs("OGB/ogbg_moltox21")
def test_ogb_is_fetched_from_the_address_that_ogb_names(
    served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ogb")
    folder, address = served
    source, asked, fetch = ROOT / "OGB" / "ogbg_moltox21", [], downloads.fetch_file
    paths = [path for path in source.rglob("*") if path.is_file()]
    _packed(folder / "tox21.zip", {f"tox21/{path.relative_to(source)}": path.read_bytes() for path in paths})

    def handed(url: str, target: Path) -> None:
        asked.append(url)
        fetch(f"{address}/{url.rpartition('/')[2]}", target)

    monkeypatch.setattr(downloads, "fetch_file", handed)
    fetched = data.load("ogbg-moltox21", tmp_path, cache=tmp_path / "cache")
    assert len(asked) == 1
    assert asked[0].startswith("https://snap.stanford.edu/")
    assert asked[0].endswith("/tox21.zip")
    assert fetched.fingerprint == data.load("ogbg-moltox21", ROOT).fingerprint
    assert not list((tmp_path / "cache").rglob("*.zip"))


def test_addresses_are_https_and_those_of_repositories_name_a_commit() -> None:
    for url in (downloads.EXP_FILE, downloads.CEXP_FILE, *downloads.ZINC_LISTS.values()):
        assert re.search(r"^https://.*/[0-9a-f]{40}/", url), url
    for url in (downloads.GIN_FILES, TUDataset.url, ZINC.url):
        assert url.startswith("https://")


def test_plain_http_is_refused_from_the_start_and_after_a_redirect(
    served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = served
    (folder / "a.txt").write_text("a")
    (folder / "folder").mkdir()
    downloads.fetch_file(f"{address}/a.txt", tmp_path / "a.txt")
    monkeypatch.setattr(downloads, "SCHEMES", ("https",))
    for url in (f"{address}/a.txt", "file:///etc/hostname", "ftp://127.0.0.1/a.txt"):
        with pytest.raises(ValueError, match=r"Expected an address of https \(got "):
            downloads.fetch_file(url, tmp_path / "b.txt")
    asked = iter([("http",), ("https",)])
    # The first question is allowed, the one that the server's redirect leads to is not.
    monkeypatch.setattr(downloads, "check_scheme", lambda url: _only(url, next(asked)))
    with pytest.raises(ValueError, match="not this one"):
        downloads.fetch_file(f"{address}/folder", tmp_path / "b.txt")
    assert not (tmp_path / "b.txt").exists()


def _only(url: str, schemes: tuple[str, ...]) -> None:
    if not url.startswith(tuple(f"{scheme}:" for scheme in schemes)):
        raise ValueError("not this one")


@pytest.mark.parametrize("name", ["../out.txt", "SET/../../out.txt", "/out.txt", "C:\\out.txt", "SET/..\\..\\out.txt"])
def test_archives_stay_in_their_folder(
    name: str, served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = served
    _packed(folder / "SET.zip", {"SET/SET_A.txt": b"1, 2\n", name: b"out"})
    monkeypatch.setattr(TUDataset, "url", address)
    inside = tmp_path / "deep" / "deeper"
    inside.mkdir(parents=True)
    with pytest.raises(ValueError, match="lies outside its folder"):
        downloads.fetch_tu_files(inside, "SET")
    assert not [path for path in (tmp_path / "deep").rglob("*") if path != inside]
    assert not (tmp_path / "out.txt").exists()


def test_archives_bring_no_links(served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, address = served
    with zipfile.ZipFile(folder / "SET.zip", "w") as archive:
        link = zipfile.ZipInfo("SET/link")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    monkeypatch.setattr(TUDataset, "url", address)
    inside = tmp_path / "deep"
    inside.mkdir()
    with pytest.raises(ValueError, match="is a link or a device"):
        downloads.fetch_tu_files(inside, "SET")
    assert not list(inside.iterdir())


def test_without_a_network_the_error_says_what_to_put_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("esan.data.sets.expressivity.CEXP_FILE", "https://127.0.0.1:9/data.pt")
    with pytest.raises(
        FileNotFoundError, match=r"Expected CEXP/cexp.npz or .* the download failed: URLError.*\$ESAN_DATA"
    ):
        data.load("cexp", tmp_path, cache=tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*")), "nothing is left of it"
    with pytest.raises(FileNotFoundError, match=r"Expected CEXP/cexp.npz or .* downloads are off"):
        data.load("cexp", tmp_path, download=False)


def test_a_download_is_put_in_place_whole_or_not_at_all(tmp_path: Path) -> None:
    places = DataFolders(tmp_path, tmp_path / "cache")

    def breaks(folder: Path) -> None:
        (folder / "a.txt").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(FileNotFoundError, match="No space left on device"):
        places.find_or_fetch(("SET/a.txt",), breaks, "SET")
    assert places.find("SET/a.txt") is None
    found = places.find_or_fetch(("SET/a.txt",), lambda folder: _write(folder / "a.txt", "whole"), "SET")
    assert found.read_text() == "whole"


def test_a_download_may_meet_that_of_another_process(tmp_path: Path) -> None:
    places = DataFolders(tmp_path, tmp_path / "cache")

    def raced(folder: Path) -> None:
        _write(tmp_path / "cache" / "SET" / "a.txt", "theirs")
        _write(folder / "a.txt", "ours")

    assert places.find_or_fetch(("SET/a.txt",), raced, "SET").read_text() == "theirs"
    with pytest.raises(FileNotFoundError, match=r"after the download \(got other files in .*SET"):
        places.find_or_fetch(("SET/b.txt",), raced, "SET")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Evil:
    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.write_text, (Path("evil.txt"), "it ran")


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_pickle_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int) -> None:
    from esan.data.sets.safe_unpickle import unpickled

    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.pickle"
    path.write_bytes(pickle.dumps([Evil()], protocol))
    with pytest.raises(ValueError, match=r"it names \S+, which no data needs"):
        unpickled(path)
    assert not (tmp_path / "evil.txt").exists()
    pickle.loads(path.read_bytes())  # noqa: S301
    assert (tmp_path / "evil.txt").exists(), "the pickle does run where nothing holds it back"


def test_a_pickle_inside_a_pickle_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from esan.data.sets.safe_unpickle import PickledStorage, PickledTensor

    monkeypatch.chdir(tmp_path)
    content = io.BytesIO()
    torch.save([Evil()], content)
    with pytest.raises(pickle.UnpicklingError):
        PickledTensor(PickledStorage(content.getvalue()), 0, (1,), (1,)).numpy()
    assert not (tmp_path / "evil.txt").exists()


def test_a_pickle_that_is_cut_or_asks_for_memory_is_refused(tmp_path: Path) -> None:
    from esan.data.sets.safe_unpickle import numbers, unpickled

    path = tmp_path / "a.pickle"
    whole = pickle.dumps([torch.arange(5), torch.ones(2, 2)])
    path.write_bytes(whole)
    assert [numbers(value).tolist() for value in unpickled(path)] == [[0, 1, 2, 3, 4], [[1, 1], [1, 1]]]
    for length in range(0, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="Expected a pickle of plain tensors"):
            unpickled(path)
    path.write_bytes(b"ctorch\nLongTensor\n(I1000000000000\ntR.")
    with pytest.raises(ValueError, match="a list of numbers"):
        unpickled(path)
