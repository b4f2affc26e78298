"""Downloads: the raw files of PyG's and OGB's classes, and of the repositories that publish the other sets."""

import csv
import hashlib
import urllib.request
import zipfile
from pathlib import Path

from torch_geometric.datasets import ZINC, TUDataset

EXP_FILE = "https://raw.githubusercontent.com/ralphabb/GNN-RNI/HEAD/Data/EXP/raw/GRAPHSAT.pkl"
CEXP_FILE = "https://raw.githubusercontent.com/ralphabb/GNN-RNI/HEAD/Data/CEXP/processed/data.pt"
GIN_FILES = "https://github.com/weihua916/powerful-gnns/raw/HEAD/dataset.zip"

#: Of files that are known byte for byte.
SHA256 = {
    "GRAPHSAT.pkl": "82f25cfab85e8bf51d518271afc12f45340f8a297d68994259c5b8bb9618ef17",
    "PTC.txt": "711729eaf2a5308752aa7c11062dd99f645f978afc400909a5927051b314ec55",
}


class _TURaw(TUDataset):
    """PyG's class as far as its raw files: what it would process and cache is read here without a pickle."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name, self.cleaned = str(root), name, False
        Path(self.raw_dir).mkdir(parents=True, exist_ok=True)
        self.download()


class _ZINCRaw(ZINC):
    """PyG's class as far as its raw files; see `_TURaw`."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        Path(self.raw_dir).mkdir(parents=True, exist_ok=True)
        self.download()


def fetch_tu_files(folder: Path, name: str) -> None:
    """The text files of a set of the TU collection, into `folder`/raw."""
    raw = Path(_TURaw(folder, name).raw_dir)
    raw.rename(folder / "raw")
    raw.parent.rmdir()


def fetch_zinc_files(folder: Path) -> Path:
    """The pickles and lists of ZINC; the folder that they are in."""
    return Path(_ZINCRaw(folder).raw_dir)


def fetch_ogb_files(folder: Path, name: str) -> None:
    """OGB's files of a set into `folder`, with OGB's own address of it."""
    from ogb import graphproppred
    from ogb.utils.url import download_url

    with (Path(graphproppred.__file__).parent / "master.csv").open(encoding="utf-8") as file:
        master = {row[""]: row[name] for row in csv.DictReader(file)}
    packed = Path(download_url(master["url"], str(folder), log=False))
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(folder)
    packed.unlink()
    inside = folder / master["download_name"]
    for path in inside.iterdir():
        path.rename(folder / path.name)
    inside.rmdir()


def fetch_file(url: str, target: Path) -> None:
    """One file, compared with its checksum if that is known."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with urllib.request.urlopen(url, timeout=60) as answer:
        content = answer.read()
    _check_sum(content, target.name)
    target.write_bytes(content)


def fetch_gin_file(folder: Path, name: str) -> None:
    """A set in the text format of GIN, out of the archive that holds them all."""
    packed = folder / "dataset.zip"
    fetch_file(GIN_FILES, packed)
    with zipfile.ZipFile(packed) as archive:
        content = archive.read(f"dataset/{name}/{name}.txt")
    packed.unlink()
    _check_sum(content, f"{name}.txt")
    (folder / f"{name}.txt").write_bytes(content)


def _check_sum(content: bytes, name: str) -> None:
    wanted, got = SHA256.get(name), hashlib.sha256(content).hexdigest()
    if wanted is not None and got != wanted:
        raise ValueError(
            f"Expected {name} with the checksum {wanted[:12]}… (got {got[:12]}…). The address gives another file now."
        )
