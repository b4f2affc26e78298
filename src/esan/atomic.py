"""Files that are whole or not there: written beside their place, then put into it in one step."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def write_file(path: Path, fill: Callable[[IO[bytes]], Any], then: str = "") -> None:
    """Have `fill` write a file; what was at `path` before stays until all of it is on the disk.

    Folders that were not there are made, and removed again if the file could not be written.

    Args:
        path: where the file goes.
        fill: writes its contents.
        then: what else to do, at the end of the error of a full disk.
    """
    scratch: Path | None = None
    made: list[Path] = []
    try:
        if path.is_dir():
            raise IsADirectoryError(f"Expected a file to write to (got the folder {path}). Add a file name to it.")
        made = [folder for folder in path.parents if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        # Not mkstemp: what it makes is for its owner alone, whatever the umask says.
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
                f"Expected to write {path} (got: {error.strerror}). What was there before is unharmed: make room, or "
                f"choose another folder{then}."
            ) from error
        raise


def _tidy(scratch: Path | None, made: list[Path]) -> None:
    """Remove the half of a file, and the folders made for it, if nobody has put anything else there."""
    try:
        if scratch is not None:
            scratch.unlink(missing_ok=True)
        for folder in made:
            folder.rmdir()
    except OSError:
        # What cannot be removed must not hide the error that led here.
        return
