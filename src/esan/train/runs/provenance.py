"""What a record says of its origin: the commit of esan, and the SHA-256 of the data."""

import hashlib
import os
import re
import subprocess
from functools import cache
from pathlib import Path

import numpy as np

from esan.checks import shown
from esan.data import Split
from esan.version import __version__

#: Names the commit of a copy of the code that has no repository around it, such as one on a cluster.
COMMIT_VARIABLE = "ESAN_COMMIT"
#: Follows the commit if files of the package differ from it.
CHANGED = "+changes"
_COMMIT = re.compile(rf"[0-9a-f]{{40}}({re.escape(CHANGED)})?")


def code_commit() -> str:
    """The commit of the checkout that esan runs from, with "+changes" if the package differs from it.

    $ESAN_COMMIT goes first. Without both it is the version of the package: "version 0.2.0".
    """
    given = os.environ.get(COMMIT_VARIABLE)
    if not given:
        return _checkout(Path(__file__).parents[2]) or f"version {__version__}"
    if not _COMMIT.fullmatch(given):
        raise ValueError(
            f"Expected the 40 digits of a commit in ${COMMIT_VARIABLE} (got {shown(given)}). Set it to what "
            "git rev-parse HEAD prints, or unset it."
        )
    return given


def data_sha256(fingerprint: str, given: Split | None) -> str:
    """The SHA-256 of a dataset: of its graphs, with features and targets, as loaded, and of the split it comes with.

    Args:
        fingerprint: of the graphs (`esan.data.Dataset.fingerprint`), which is the result where there is no split.
        given: the split that comes with the data.
    """
    if given is None:
        return fingerprint
    digest = hashlib.sha256(fingerprint.encode())
    for name in ("train", "valid", "test"):
        ids = getattr(given, name).numpy().astype("<i8")
        digest.update(f"{name} {ids.size} ".encode() + np.ascontiguousarray(ids).tobytes())
    return digest.hexdigest()


@cache
def _checkout(package: Path) -> str | None:
    """The commit of the repository that tracks the package; None if it is installed elsewhere, or git is missing."""
    # A virtual environment may lie in a repository of the user's, which does not track it.
    if _git(package, "ls-files", "--error-unmatch", "version.py") is None:
        return None
    commit = _git(package, "rev-parse", "HEAD")
    if commit is None:
        return None
    return commit + (CHANGED if _git(package, "status", "--porcelain", "--untracked-files=no", "--", ".") else "")


def _git(folder: Path, *command: str) -> str | None:
    try:
        done = subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
