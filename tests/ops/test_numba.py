"""Compiled loops are an extra: numba is imported when it is needed, and one that is broken is done without."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.exhaustive
@pytest.mark.parametrize("error", ["ImportError", "OSError"])
def test_a_numba_that_cannot_be_imported_is_done_without(error: str, tmp_path: Path) -> None:
    """It is said once, and networks go on."""
    (tmp_path / "numba.py").write_text(f"raise {error}('needs another numpy')")
    code = """
import warnings, esan
model = esan.dss_gnn(None, 8, 2, 2)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        model(esan.Bag.of([esan.graphs.cycle(4)], esan.NodeDeletion(), 2)).sum().backward()
print([str(one.message) for one in caught if "numba" in str(one.message)])
"""
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Expected a numba that can be imported (got: needs another numpy)") == 1


@pytest.mark.exhaustive
def test_a_loop_is_compiled_when_it_is_needed_in_the_precision_that_is_asked_for(tmp_path: Path) -> None:
    # Numba may be there already: PyG imports it where it is installed.
    code = """
import sys, esan
def loops():
    return [name for name in sys.modules if "ops.numba.loops" in name]
assert not loops()
from esan.ops.numba.loops.norm import moments
assert loops()
moments[0].address
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}, check=False)
    assert done.returncode == 0
    (kept,) = tmp_path.rglob("*.nbi")
    assert kept.name.startswith("norm._moments_single")
