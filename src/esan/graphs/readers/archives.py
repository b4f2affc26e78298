"""Zip and gzip files from outside, read within size limits and without writing outside the target folder."""

import errno
import gzip
import io
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

#: Any file may unpack to this many bytes.
ALWAYS_UNPACKED = 2**28
#: A larger file may unpack to this many times its own size; plain text and arrays of numbers stay far below.
MOST_TIMES = 200

_CHUNK = 2**20
_KINDS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


def most_unpacked(size: int) -> int:
    """How many bytes a compressed file of `size` bytes may unpack to."""
    return max(ALWAYS_UNPACKED, MOST_TIMES * size)


@contextmanager
def opened_zip(path: Path, what: str = "a whole archive", *, exact: bool = False) -> Iterator[zipfile.ZipFile]:
    """The archive at `path`, its directory checked; whatever goes wrong with it is one ValueError.

    Refused are encrypted members, compressions other than deflate, members of one name, and members that together
    promise more than the file can hold: that is read off the directory, before anything is unpacked.

    Args:
        path: of the file.
        what: it should be, for errors.
        exact: whether other bytes before or behind the archive are refused too.
    """
    try:
        size = path.stat().st_size
        with zipfile.ZipFile(path) as archive:
            _check_directory(archive, size)
            if exact:
                _check_ends(archive, path)
            yield archive
    # zipfile raises whatever a damaged archive leads it to: struct.error, NotImplementedError, OSError of a seek.
    except Exception as error:
        of_disk = isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)
        if of_disk or (isinstance(error, ValueError) and str(error).startswith("Expected")):
            raise
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"Expected {what} (got {path}: {why}). Fetch or write it again.") from None


def check_archive(path: Path) -> None:
    """ValueError if a file is an archive with a member whose checksum differs; torch reads those without a word."""
    if zipfile.is_zipfile(path):
        with opened_zip(path) as archive:
            damaged = archive.testzip()
            if damaged is not None:
                raise _ArchiveError(f"the member {damaged!r} is not what its checksum says")


def extract(path: Path, folder: Path) -> None:
    """Unpack an archive into `folder` and nowhere else: absolute paths, "..", drives and links are refused."""
    with opened_zip(path) as archive:
        root = folder.resolve()
        for info in archive.infolist():
            name = PurePosixPath(info.filename)
            strange = "\\" in info.filename or ":" in info.filename or "\0" in info.filename
            inside = not name.is_absolute() and ".." not in name.parts and not strange
            kind = stat.S_IFMT(info.external_attr >> 16)
            if not inside or not (root / name).resolve().is_relative_to(root):
                raise _ArchiveError(f"the member {info.filename!r} lies outside its folder")
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _ArchiveError(f"the member {info.filename!r} is a link or a device")
        for info in archive.infolist():
            target = root / PurePosixPath(info.filename)
            if info.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(info) as source, target.open("wb") as sink:
                while chunk := source.read(_CHUNK):
                    sink.write(chunk)


def gunzipped(path: Path) -> bytes:
    """What a gzip file holds; ValueError if it is damaged or unpacks to too much."""
    content = path.read_bytes()
    most = most_unpacked(len(content))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            found = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"Expected a whole gzip file (got {path}: {error}). Fetch or write it again.") from None
    if len(found) > most:
        raise ValueError(
            f"Expected at most {most:,} bytes in a gzip file of {len(content):,} (got more in {path}). "
            "Is it the right file? Unpack it yourself if you trust it."
        )
    return found


class _ArchiveError(Exception):
    """What is wrong with an archive, in words."""


def _check_directory(archive: zipfile.ZipFile, size: int) -> None:
    members = archive.infolist()
    name, times = Counter(info.filename for info in members).most_common(1)[0] if members else ("", 1)
    if times > 1:
        raise _ArchiveError(f"{times} members of the name {name!r}")
    for info in members:
        if info.flag_bits & 0x1:
            raise _ArchiveError(f"the member {info.filename!r} is encrypted")
        if info.compress_type not in _KINDS:
            raise _ArchiveError(f"the member {info.filename!r} is compressed otherwise than with deflate")
        if info.compress_type == zipfile.ZIP_STORED and info.file_size != info.compress_size:
            raise _ArchiveError(f"the member {info.filename!r} names two sizes")
    packed, unpacked = (sum(getattr(info, name) for info in members) for name in ("compress_size", "file_size"))
    if packed > size:
        raise _ArchiveError(f"members of {packed:,} bytes in a file of {size:,}")
    if unpacked > most_unpacked(size):
        raise _ArchiveError(
            f"members that unpack to {unpacked:,} bytes from a file of {size:,}, more than {most_unpacked(size):,}"
        )


def _check_ends(archive: zipfile.ZipFile, path: Path) -> None:
    """zipfile finds an archive among other bytes, and of two archives the last."""
    before = min((info.header_offset for info in archive.infolist()), default=0)
    with path.open("rb") as file:
        file.seek(-22, 2)
        # The record that ends an archive without a comment.
        ends = file.read(4) == b"PK\5\6"
    if before or not ends:
        raise _ArchiveError("other bytes before or behind it")
