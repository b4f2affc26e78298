"""HTML pages of one file: assets of a package, JSON inside a script, digests for the Content-Security-Policy."""

import base64
import hashlib
import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def asset(package: str, name: str) -> str:
    """The text of a file in the folder `static` of a package."""
    return resources.files(package).joinpath("static", name).read_text(encoding="utf-8")


def script_data(value: Any) -> str:
    """JSON that may stand inside a script element: no "<" can end it or begin a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def digest(text: str) -> str:
    """The source of an inline script or style in a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"
