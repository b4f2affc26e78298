"""`write_file`: writes a file atomically: to a temporary file first, which then replaces the target."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def write_file(path: Path, fill: Callable[[IO[bytes]], Any], then: str = "") -> None:
    """Write a file with `fill`; an old file at `path` stays until the new one is complete on disk.

    Missing folders are created, and removed again if the file could not be written.

    Args:
        path: where the file goes.
        fill: writes its contents.
        then: what else to do, for the end of an error message.
    """
    scratch: Path | None = None
    made: list[Path] = []
    try:
        if path.is_dir():
            raise IsADirectoryError(f"Expected a file to write to (got the folder {path}). Add a file name to it.")
        made = [folder for folder in path.parents if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        # Not mkstemp: its files ignore the umask and are readable by their owner only.
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        with os.fdopen(handle, "wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except BaseException as error:
        _tidy(scratch, made)
        if isinstance(error, OSError) and error.strerror:
            raise OSError(
                f"Expected to write {path} (got: {error.strerror}). The old file, if any, is unchanged: free some "
                f"space, or choose another folder{then}."
            ) from error
        raise


def _tidy(scratch: Path | None, made: list[Path]) -> None:
    """Remove the incomplete file, and the folders made for it, if they are empty."""
    try:
        if scratch is not None:
            scratch.unlink(missing_ok=True)
        for folder in made:
            folder.rmdir()
    except OSError:
        # A failed removal must not hide the original error.
        return
