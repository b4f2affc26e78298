"""The run directory: which files a run has, how they are written, and how to find one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import torch

from esan.atomic_write import write_file

#: The files of a run that hold weights, by their names on the command line.
WEIGHT_FILES = {"best": "best.pt", "last": "checkpoint.pt"}
#: The predictions for validation and test graphs at the best epoch.
PREDICTIONS = "predictions.csv"
#: What to do when the disk is full, at the end of the error.
_AFTER_FULL_DISK = ", and run the same command again to continue"
T = TypeVar("T")


def find_run_directory(path: Path) -> Path:
    """The directory of one run: this one, or the only one below it."""
    if any((path / name).is_file() for name in WEIGHT_FILES.values()):
        return path
    found = sorted({file.parent for name in WEIGHT_FILES.values() for file in path.rglob(name)})
    if len(found) != 1:
        some = f": {', '.join(str(f.relative_to(path)) for f in found[:5])}" if found else ""
        raise ValueError(
            f"Expected the folder of one run at {path} (got {len(found)}{some}). Name one, <recipe>/<fold>-<seed>."
        )
    return found[0]


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`; an existing file stays until all of the new one is on the disk."""
    write_file(path, lambda file: file.write(text.encode()), _AFTER_FULL_DISK)


def read_json_lines(path: Path, read: Callable[[Any], T], content: bytes | None = None) -> list[T]:
    """Read a file of one JSON value per line; ValueError names the file and the first line that is damaged.

    Args:
        path: the file.
        read: what a value means; its ValueError, TypeError, KeyError or AttributeError says that it is damaged.
        content: of the file, where it was read before.
    """
    found: list[T] = []
    try:
        text = (path.read_bytes() if content is None else content).decode()
        # Not splitlines, which also splits at separators that JSON allows inside of text.
        for line in text.replace("\r\n", "\n").removesuffix("\n").split("\n"):
            found.append(read(json.loads(line, parse_constant=refuse_constant)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else str(error).splitlines()[0][:300]
        raise ValueError(
            f"Expected whole lines in {path} (got damage in line {len(found) + 1}: {why}). Restore the file, or "
            "remove the line and run again."
        ) from None
    return found


def json_line(values: Any) -> str:
    """A value as one line of such a file."""
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"


def refuse_constant(text: str) -> Any:
    """For `json.loads(parse_constant=...)`: NaN and infinities are no numbers of JSON."""
    raise ValueError(f"{text}, which is no number of JSON")


def write_tensors(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain values, for `torch.load(weights_only=True)`."""

    def fill(file: IO[bytes]) -> None:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # torch's error for a full disk
            raise OSError(None, str(error).splitlines()[0]) from error

    write_file(path, fill, _AFTER_FULL_DISK)


def remove_partial_files(folder: Path) -> None:
    """Remove the temporary files of a process that was killed while writing."""
    for file in folder.glob(".*.part"):
        file.unlink(missing_ok=True)
