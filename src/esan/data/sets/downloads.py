"""Downloads: the published files of each set, over https only, compared with a checksum where one is known."""

import csv
import hashlib
import shutil
import urllib.request
import warnings
from http.client import HTTPMessage
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from torch_geometric.datasets import ZINC, TUDataset

from esan.graphs.readers.archives import extract, opened_zip

#: Files of repositories are taken from a commit, not from a branch that may move.
EXP_FILE = (
    "https://raw.githubusercontent.com/ralphabb/GNN-RNI/43c69c06462d3a165ba2b532d76cbc045fc767d7"
    "/Data/EXP/raw/GRAPHSAT.pkl"
)
CEXP_FILE = (
    "https://raw.githubusercontent.com/ralphabb/GNN-RNI/43c69c06462d3a165ba2b532d76cbc045fc767d7"
    "/Data/CEXP/processed/data.pt"
)
#: A branch that may move; of its file, PTC.txt is compared with its checksum.
GIN_FILES = "https://github.com/weihua916/powerful-gnns/raw/HEAD/dataset.zip"
#: The lists of the 12,000 molecules, each at a commit that has it.
ZINC_LISTS = {
    part: f"https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/{commit}/data/molecules/{part}.index"
    for part, commit in (
        ("train", "1068260d2d58cbe616d3d34de9a3c1fbf8332715"),
        ("val", "7125b402b4f386e1897549cebf76fcab32738e21"),
        ("test", "7125b402b4f386e1897549cebf76fcab32738e21"),
    )
}

#: Of files that are known byte for byte. What is read of the others is held against the counts of the catalogue.
SHA256 = {
    "GRAPHSAT.pkl": "82f25cfab85e8bf51d518271afc12f45340f8a297d68994259c5b8bb9618ef17",
    "PTC.txt": "711729eaf2a5308752aa7c11062dd99f645f978afc400909a5927051b314ec55",
}
#: What an address may begin with.
SCHEMES = ("https",)
#: No published file of the sets is larger.
MOST_BYTES = 2**31

_CHUNK = 2**20


def fetch_tu_files(folder: Path, name: str) -> None:
    """The text files of a set of the TU collection, into `folder`/raw."""
    _fetch_archive(f"{TUDataset.url}/{name}.zip", folder / "raw")


def fetch_zinc_files(folder: Path) -> Path:
    """The pickles and lists of ZINC; the folder that they are in."""
    raw = folder / "raw"
    _fetch_archive(ZINC.url, raw)
    for part, url in ZINC_LISTS.items():
        fetch_file(url, raw / f"{part}.index")
    return raw


def fetch_ogb_files(folder: Path, name: str) -> None:
    """OGB's files of a set into `folder`, with OGB's own address of it."""
    try:
        with warnings.catch_warnings():  # ogb looks for a newer version of itself, and warns where there is no network
            warnings.simplefilter("ignore")
            from ogb import graphproppred
    except ImportError:
        raise ImportError("the package ogb has the address, and is missing: pip install 'esan[molecules]'") from None
    with (Path(graphproppred.__file__).parent / "master.csv").open(encoding="utf-8") as file:
        master = {row[""]: row[name] for row in csv.DictReader(file)}
    # OGB still writes http, and serves the same files over https.
    _fetch_archive(master["url"].replace("http://", "https://", 1), folder)


def fetch_file(url: str, target: Path) -> None:
    """One file, compared with its checksum if that is known; it is there whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    digest, size = hashlib.sha256(), 0
    try:
        with _opened(url) as answer, part.open("wb") as file:
            while chunk := answer.read(_CHUNK):
                size += len(chunk)
                if size > MOST_BYTES:
                    raise ValueError(f"Expected at most {MOST_BYTES:,} bytes from {url} (got more). Is it right?")
                digest.update(chunk)
                file.write(chunk)
        _check_sum(digest.hexdigest(), target.name)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def fetch_gin_file(folder: Path, name: str) -> None:
    """A set in the text format of GIN, out of the archive that holds them all."""
    packed = folder / "dataset.zip"
    fetch_file(GIN_FILES, packed)
    with opened_zip(packed) as archive:
        content = archive.read(f"dataset/{name}/{name}.txt")
    packed.unlink()
    _check_sum(hashlib.sha256(content).hexdigest(), f"{name}.txt")
    (folder / f"{name}.txt").write_bytes(content)


def _fetch_archive(url: str, folder: Path) -> None:
    """Extract the one folder of an archive into `folder`; other members are left out."""
    scratch = folder.with_name(f".{folder.name}.unpacked")
    packed = folder.with_name(f".{folder.name}.zip")
    try:
        fetch_file(url, packed)
        scratch.mkdir()
        extract(packed, scratch)
        inside = [path for path in scratch.iterdir() if path.is_dir() and path.name != "__MACOSX"]
        if len(inside) != 1:
            raise ValueError(f"Expected an archive of one folder at {url} (got {len(inside)}). Is it the right one?")
        folder.mkdir(parents=True, exist_ok=True)
        for path in inside[0].iterdir():
            path.rename(folder / path.name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        packed.unlink(missing_ok=True)


class _SameScheme(urllib.request.HTTPRedirectHandler):
    """Follows redirects only to addresses that are allowed themselves."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        check_scheme(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opened(url: str) -> IO[bytes]:
    check_scheme(url)
    found: IO[bytes] = urllib.request.build_opener(_SameScheme).open(url, timeout=60)
    return found


def check_scheme(url: str) -> None:
    """Refuse an address that is not encrypted; of a redirect, too."""
    if urlsplit(url).scheme not in SCHEMES:
        raise ValueError(f"Expected an address of {' or '.join(SCHEMES)} (got {url}). Fetch the file yourself.")


def _check_sum(got: str, name: str) -> None:
    wanted = SHA256.get(name)
    if wanted is not None and got != wanted:
        raise ValueError(
            f"Expected {name} with the checksum {wanted[:12]}… (got {got[:12]}…). The address gives another file now."
        )
