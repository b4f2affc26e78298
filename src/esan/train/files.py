"""Files that are whole or not there: written beside their place, then put into it in one step."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`; what was there before stays until all of it is on the disk."""
    _write(path, lambda file: file.write(text.encode()))


def write_tensors(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain values, for `torch.load(weights_only=True)`."""
    _write(path, lambda file: torch.save(state, file))


def remove_scraps(folder: Path) -> None:
    """Remove what a process that was killed while it wrote has left in a folder."""
    for scrap in folder.glob(".*.part"):
        scrap.unlink(missing_ok=True)


def _write(path: Path, fill: Callable[[IO[bytes]], Any]) -> None:
    scratch: Path | None = None
    try:
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
        if scratch is not None:
            scratch.unlink(missing_ok=True)
        # torch tells a full disk as a RuntimeError of its own.
        if isinstance(error, OSError | RuntimeError):
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
            raise OSError(
                f"Expected to write {path} (got: {why}). What was there before is unharmed: make room, or choose "
                "another folder, and run the same command again to continue."
            ) from error
        raise
