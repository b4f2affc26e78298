"""`kill -9` at any moment, then the same command: the record is that of an undisturbed run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from esan.cli.main import app
from esan.train import Job, Record, run_jobs
from small_campaign import recipe, write_set

#: Epochs are quick; this many keep a process busy while it is being killed.
EPOCHS = 20


def started(command: list[str]) -> "subprocess.Popen[bytes]":
    threads = str(torch.get_num_threads())
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", "from esan.cli.main import app; app()", *command],
        env=os.environ | {"OMP_NUM_THREADS": threads},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("kills", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_a_killed_training_continues(kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path / "cache"))
    wanted = recipe(write_set(tmp_path), epochs=EPOCHS, policy="ED@0.5", votes=1, dropout=0.2, split="random")
    wanted.save(tmp_path / "small.toml")
    job = Job(wanted)
    (undisturbed,) = run_jobs([job], None)
    # A checkpoint after every epoch: most of the time something is being written when the signal comes.
    command = ["train", str(tmp_path / "small.toml"), "--runs", str(tmp_path / "runs"), "--every", "0", "--quiet"]
    curve, lengths = job.folder(tmp_path / "runs") / "curve.csv", [0]
    for _ in range(kills):
        process = started(command)
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.005)
            if curve.is_file() and len(curve.read_text().splitlines()) > lengths[-1] + 5:
                break
        process.send_signal(signal.SIGKILL)
        result = process.communicate()[1]
        assert process.returncode == -signal.SIGKILL, result.decode()
        lengths.append(len(curve.read_text().splitlines()))
        assert not (curve.parent / "record.json").exists()
    assert lengths == sorted({*lengths})
    assert lengths[-1] <= EPOCHS
    finished = CliRunner().invoke(app, command)
    assert finished.exit_code == 0, finished.output
    assert Record.load(curve.parent / "record.json") == undisturbed
    assert not list(curve.parent.glob("*.part"))
