"""A job over two processes: the files and, up to rounding, the record of one process, also when it was interrupted."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from esan.train.runs.distributed import run_over
from esan.train.runs.job import Job
from esan.train.runs.training_loop import run_jobs
from small_campaign import InterruptedTrainingError, Interrupting, fingerprints, recipe, write_set

pytestmark = pytest.mark.skipif(
    find_spec("lightning") is None, reason="needs the extra fabric: pip install 'esan[fabric]'"
)


@pytest.mark.exhaustive
def test_two_processes_continue_what_one_has_started_and_end_as_one_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path / "cache"))
    job = Job(recipe(write_set(tmp_path), epochs=4, model="dss", policy="EGO+(1)"))
    (whole,) = run_jobs([job], tmp_path / "one")
    with pytest.raises(InterruptedTrainingError):
        run_jobs([job], tmp_path / "two", every=0, loggers=[Interrupting(after=2)])
    (record,) = run_over([job], tmp_path / "two", processes=2)
    assert list(fingerprints(tmp_path / "two")) == ["small/ds/0-0/record.json"]
    # The epoch in which it was interrupted was not saved, so that three of four are trained by two processes.
    assert record.curve[0] == whole.curve[0]
    for found, wanted in zip(record.curve, whole.curve, strict=True):
        assert found.loss == pytest.approx(wanted.loss, rel=1e-4)
        assert found.valid == pytest.approx(wanted.valid, abs=0.13), "one graph of eight may lie on the border"


def test_impossible_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="processes of at least 1"):
        run_over([], tmp_path, processes=0)
