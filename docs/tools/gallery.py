"""Run the blocks of the gallery in order, Python and `esan` commands, and collect the files that each block makes."""

import base64
import json
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blocks import Block, run
from typer.testing import CliRunner

from esan.cli.main import app

BLOCK = re.compile(r"^```(?P<kind>python|bash)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
#: What a block may make for the page to show, by its ending.
SHOWN = (".png", ".html")


@dataclass(frozen=True)
class Made:
    """The files of a block by name, in the order of their names."""

    files: dict[str, bytes]


def run_gallery(page: Path, folder: Path) -> list[Made]:
    """Run all blocks in a folder, which must be the working directory; RuntimeError names a command that failed."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    found = []
    for number, match in enumerate(BLOCK.finditer(text), 1):
        before = {path.name for path in folder.iterdir()}
        figures: dict[str, bytes] = {}
        if match["kind"] == "python":
            line = text.count("\n", 0, match.start("code"))
            given = run(Block(line, match["code"], ""), page, names)
            figures = {f"figure_{number}_{i}.png": one for i, one in enumerate(given.figures, 1)}
        else:
            for command in commands(match["code"]):
                done = CliRunner().invoke(app, command)
                if done.exit_code:
                    raise RuntimeError(f"Expected esan {shlex.join(command)} to run (got):\n{done.output}")
        new = sorted(path for path in folder.iterdir() if path.name not in before and path.suffix in SHOWN)
        found.append(Made({path.name: path.read_bytes() for path in new} | figures))
    return found


def commands(code: str) -> list[list[str]]:
    """The arguments of each `esan` command of a block; comments are left out."""
    lines = [shlex.split(line, comments=True) for line in code.splitlines()]
    if strange := [line[0] for line in lines if line and line[0] != "esan"]:
        raise ValueError(f"Expected commands of esan alone (got {strange[0]}).")
    return [line[1:] for line in lines if line]


def main(page: Path, out: Path) -> None:
    """Run the gallery in the working directory and write the files of each block as JSON."""
    made = run_gallery(page, Path.cwd())
    text = json.dumps([{name: base64.b64encode(data).decode() for name, data in one.files.items()} for one in made])
    out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
