"""The files of runs: texts and tensors, whole or not there."""

from pathlib import Path
from typing import IO, Any

import torch

from esan.atomic import write_file

_THEN = ", and run the same command again to continue"


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`; what was there before stays until all of it is on the disk."""
    write_file(path, lambda file: file.write(text.encode()), _THEN)


def write_tensors(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain values, for `torch.load(weights_only=True)`."""

    def fill(file: IO[bytes]) -> None:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # so torch tells of a full disk
            raise OSError(None, str(error).splitlines()[0]) from error

    write_file(path, fill, _THEN)


def remove_scraps(folder: Path) -> None:
    """Remove what a process that was killed while it wrote has left in a folder."""
    for scrap in folder.glob(".*.part"):
        scrap.unlink(missing_ok=True)
