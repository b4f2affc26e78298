"""The Triton kernels against plain torch, which is their meaning, in Triton's interpreter: no GPU is needed."""

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import esan
from esan.ops import Backend, backend

HERE = Path(__file__).parent
NEEDS_TRITON = pytest.mark.skipif(find_spec("triton") is None, reason="needs triton (the extra dev, on Linux)")
CHECKS = sorted(HERE.glob("interpreted_*.py"))
#: Two processes, which take about as long: each takes seconds to import what the checks need.
FIRST = [HERE / "interpreted_sooner.py", HERE / "interpreted_ensembles.py"]
SHARES = {"ensembles": FIRST, "others": [path for path in CHECKS if path not in FIRST]}


@NEEDS_TRITON
@pytest.mark.parametrize("share", SHARES)
def test_interpreted(share: str) -> None:
    """In a process of its own: the variable that turns the interpreter on must not reach the tests beside this one."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += map(str, SHARES[share])
    settings = {"TRITON_INTERPRET": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.strip().splitlines()[-1]
    assert "passed" in last
    assert "skipped" not in last


def test_nothing_is_interpreted_here() -> None:
    assert os.environ.get("TRITON_INTERPRET") is None
    for tensor in (torch.zeros(2, 2), torch.zeros(2, dtype=torch.long)):
        assert backend(tensor) is not Backend.TRITON


def _launchers(path: Path) -> set[str]:
    """The functions and classes of a file that launch a kernel."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        launches = (n for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript))
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and any(
            ast.unparse(call.func).split("[")[0].endswith("_kernel") for call in launches
        ):
            found.add(node.name)
    return found


def test_every_kernel_is_checked() -> None:
    launchers: set[str] = set()
    for path in sorted((Path(esan.__file__).parent / "ops" / "triton").rglob("*.py")):
        launchers |= _launchers(path)
    assert {"sum_rows", "linear_backward", "FlatAdam", "LookupFunction"} <= launchers
    named = {n.id for path in CHECKS for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Name)}
    assert not launchers - named, f"no check calls {sorted(launchers - named)}: add one to an interpreted_*.py"
