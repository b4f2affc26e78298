"""Benchmarks still run: their scripts on the smallest of inputs. What they measure is in benchmarks/figures."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shared_sets import ROOT, needs

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


@needs("TU/MUTAG")
@pytest.mark.exhaustive
def test_plain_pyg_on_a_tu_set(tmp_path: Path) -> None:
    out = tmp_path / "plain_tu.json"
    command = [sys.executable, "plain_tu.py", "--epochs", "2", "--folds", "2", "--out", str(out)]
    ran = subprocess.run(
        command, cwd=BENCHMARKS, capture_output=True, text=True, env=os.environ | {"ESAN_DATA": str(ROOT)}
    )
    assert ran.returncode == 0, ran.stderr
    assert [row["network"] for row in json.loads(out.read_text())["rows"]][:2] == ["GIN", "DropEdge"]
