"""Compiled loops that were kept from an older version: numba looks at the file of a loop, not at what it is made of."""

import contextlib
import hashlib
import os
from pathlib import Path

_LOOPS = Path(__file__).parent / "loops"


def forget_older(folder: Path = _LOOPS) -> None:
    """Remove what numba has kept of the loops in a folder, if any of their files has changed since.

    Who takes a new version into a checkout gets new files for some of them; a loop whose own file is the same would go
    on with the old code of the functions that it calls.
    """
    sources = sorted(folder.glob("*.py"))
    now = hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in sources)).hexdigest()
    kept = folder / "__pycache__"
    known = kept / "loops.sha256"
    # Where nothing can be written here, or NUMBA_CACHE_DIR is set, numba keeps loops elsewhere, which is not looked at:
    # these are installed as a whole, and all files are new then.
    with contextlib.suppress(OSError):
        if known.is_file() and known.read_text() == now:
            return
        for path in kept.glob("*.nbi"):
            path.unlink(missing_ok=True)
        kept.mkdir(exist_ok=True)
        beside = kept / f"loops.sha256.{os.getpid()}"
        beside.write_text(now)
        beside.replace(known)
