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
CHECKS = sorted((HERE / "interpreted").glob("*.py"))


def _interpret(marks: str) -> None:
    """Run the checks in a process of their own: the variable that turns the interpreter on must not reach this one."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", marks]
    settings = {"TRITON_INTERPRET": "1", "PYTEST_ADDOPTS": ""}
    command += map(str, CHECKS)
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.strip().splitlines()[-1]
    assert "passed" in last
    assert "skipped" not in last


@NEEDS_TRITON
def test_interpreted() -> None:
    _interpret("not exhaustive")


@NEEDS_TRITON
@pytest.mark.exhaustive
def test_all_others_interpreted() -> None:
    _interpret("exhaustive")


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
    parts = [node for path in CHECKS for node in ast.parse(path.read_text()).body if not _is_exhaustive(node)]
    named = {n.id for node in parts for n in ast.walk(node) if isinstance(n, ast.Name)}
    assert not launchers - named, f"no check calls {sorted(launchers - named)}: add one to tests/ops/interpreted"


def _is_exhaustive(node: ast.stmt) -> bool:
    """Whether a check is left out of `make test`."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return any(ast.unparse(one) == "pytest.mark.exhaustive" for one in decorators)
