"""Where the tests find the benchmark sets: $ESAN_DATA, else shared/data beside the project."""

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("ESAN_DATA") or Path(__file__).parents[3] / "shared" / "data")


def needs(*paths: str) -> pytest.MarkDecorator:
    """Skips a test where one of the files or folders below the root is not there."""
    missing = [path for path in paths if not (ROOT / path).exists()]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not in {ROOT}: set $ESAN_DATA")
