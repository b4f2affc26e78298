"""Find the Python blocks of a Markdown page and run them in order, in one namespace.

A block that cannot run says why in its first line: ```` ```python no-run="needs a GPU" ````.
"""

import ast
import base64
import contextlib
import io
import json
import re
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```python(?P<more>[^\n]*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
REASON = re.compile(r'^ no-run="(?P<reason>[^"]+)"$')


@dataclass(frozen=True)
class Block:
    """The code of a block.

    Attributes:
        line: the line of the page before its first line of code, counted from 1.
        code: what stands between the fences.
        reason: why it is not run; empty if it is.
    """

    line: int
    code: str
    reason: str


@dataclass(frozen=True)
class Output:
    """What a block printed, and the figures it ended with, as PNG."""

    text: str
    figures: tuple[bytes, ...]


def blocks(text: str) -> list[Block]:
    """All Python blocks of a page."""
    found = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("code"))
        more = match["more"].rstrip()
        reason = REASON.match(more)
        if more and not reason:
            raise ValueError(f'Expected ```python or ```python no-run="why" at line {line} (got ```python{more}).')
        found.append(Block(line, match["code"], reason["reason"] if reason else ""))
    return found


def run(block: Block, page: Path, names: dict[str, Any]) -> Output:
    """Run a block; as in a notebook, the value of a last expression is shown.

    Args:
        block: it is compiled with blank lines in front, so that an error names the line of the page.
        page: for messages.
        names: the namespace of the page, changed in place.
    """
    tree = ast.parse("\n" * block.line + block.code, str(page))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    figures: list[bytes] = []
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, str(page), "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), str(page), "eval"), names)
            if hasattr(value, "savefig"):
                figures.append(_png(value))
            elif value is not None:
                printed.write(f"{value!r}\n")
    return Output(printed.getvalue(), tuple(figures))


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight")
    return buffer.getvalue()


def main(page: Path, out: Path) -> None:
    """Run a page in a process of its own and write what its blocks gave as JSON."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for block in blocks(text):
            output = Output("", ()) if block.reason else run(block, page, names)
            found.append({"text": output.text, "figures": [base64.b64encode(one).decode() for one in output.figures]})
    out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
