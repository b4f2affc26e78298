"""Benchmarks still run: their scripts on the smallest of inputs. What they measure is in benchmarks/figures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.exhaustive
def test_a_training_step(tmp_path: Path) -> None:
    """The script also compares the network with plain PyG, so that both compute the same."""
    out = tmp_path / "step.json"
    options = ["--graphs", "like", "--policies", "EGO(3)", "--width", "8", "--repeats", "1", "--out", str(out)]
    ran = subprocess.run([sys.executable, "step.py", *options], cwd=BENCHMARKS, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    rows = json.loads(out.read_text())["rows"]
    assert [row["network"] for row in rows] == ["DS", "DSS"]
    assert all(row["row-layers"] > 1 for row in rows)
