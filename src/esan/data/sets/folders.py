"""Where the files of a data set are looked for: a root that is only read, and a cache for downloads."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


def cache_folder(cache: str | Path | None = None) -> Path:
    """The folder of the cache: `cache`, else $ESAN_CACHE, else .cache/esan in the user's home."""
    return _folder(cache, "ESAN_CACHE") or Path.home() / ".cache" / "esan"


def data_root(root: str | Path | None = None, cache: str | Path | None = None) -> Path:
    """The folder that holds the sets: `root`, else $ESAN_DATA, else the cache. Nothing is ever written to a root."""
    found = _folder(root, "ESAN_DATA")
    if found is None:
        return cache_folder(cache)
    if not found.is_dir():
        raise FileNotFoundError(
            f"Expected a folder of data (got {str(found)!r}, which is none). "
            "Pass another (--data, or root=...), or set $ESAN_DATA."
        )
    return found


def _folder(path: str | Path | None, variable: str) -> Path | None:
    text = os.environ.get(variable) if path is None else path
    return Path(text).expanduser() if text else None


@dataclass(frozen=True)
class DataFolders:
    """Where a set is searched, and whether it may be downloaded.

    Attributes:
        root: the user's folder of data, searched first.
        cache: where downloads are stored.
        download: whether the network may be used.
    """

    root: Path
    cache: Path
    download: bool = True

    def find(self, *names: str) -> Path | None:
        """The first of `names`, paths relative to a root, that exists."""
        return next((p / name for p in (self.root, self.cache) for name in names if (p / name).exists()), None)

    def find_or_fetch(self, names: tuple[str, ...], fetch: Callable[[Path], None], into: str) -> Path:
        """The first of `names` that exists, after a download if none does.

        Args:
            names: paths relative to a root.
            fetch: downloads the set into an empty folder, which then replaces the target at once.
            into: the folder of the set, relative to a root.
        """
        found = self.find(*names)
        if found is not None:
            return found
        sought = " or ".join(names)
        if not self.download:
            raise FileNotFoundError(
                f"Expected {sought} in {self.root} (got nothing there, and downloads are off). "
                "Put it there, or point root or $ESAN_DATA to where it is."
            )
        target = self.cache / into
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
            download = Path(scratch) / target.name
            download.mkdir()
            try:
                fetch(download)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                raise FileNotFoundError(
                    f"Expected {sought} in {self.root} (got nothing there, and the download failed: {reason[:200]}). "
                    "Put it there, point root or $ESAN_DATA to where it is, or try again with a network."
                ) from error
            _move(download, target)
        found = self.find(*names)
        if found is None:
            raise FileNotFoundError(
                f"Expected {sought} after the download (got other files in {target}). "
                "Empty that folder and try again, or put the set there by hand."
            )
        return found


def _move(download: Path, target: Path) -> None:
    try:
        download.rename(target)
    except OSError:
        # Another process was faster, and its folder is as complete as this one.
        if not target.is_dir():
            raise
