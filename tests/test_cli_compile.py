"""`esan compile`: loops are compiled and cached before their first call."""

from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from esan.cli.commands import compile as command
from esan.cli.main import app
from esan.ops.numba import compiling
from esan.ops.numba import runtime as cpu

pytestmark = pytest.mark.skipif(not cpu.available(), reason="needs numba (the extra fast)")


def test_every_loop_is_known_in_both_precisions() -> None:
    known = compiling.loops()
    assert len(known) == len(set(known))
    names = {f"{loop.module}.{loop.name}" for loop in known}
    for loop in known:
        single, double = (f"{loop.module}.{loop.name.rsplit('_', 1)[0]}_{kind}" for kind in ("single", "double"))
        assert {single, double} <= names
    norms = import_module("esan.ops.numba.loops.norm")
    assert [*norms.moments][:2] == [getattr(norms, loop.name) for loop in known if loop.name.startswith("_moments_")]


@pytest.mark.exhaustive
def test_loops_are_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    some = [loop for loop in compiling.loops() if loop.name == "_merge_double"]
    monkeypatch.setattr(command, "loops", lambda: some)
    monkeypatch.setattr(command, "train_once", lambda: None)
    done = CliRunner().invoke(app, ["compile"])
    assert done.exit_code == 0, done.output
    assert "Compiled and cached: 1 kernel." in done.output
    (cached,) = tmp_path.rglob("*.nbi")
    assert cached.name.startswith("norm._merge_double")


def test_steps_use_what_is_compiled_for_what_it_is_given() -> None:
    from esan.ops.numba.loops import dedup as dedup_loops
    from esan.ops.numba.loops import indices as indices_loops
    from esan.ops.numba.loops import segments as segments_loops

    command.train_once()
    named = {
        dedup_loops: ("distinct_ids", "row_starts", "refine"),
        segments_loops: ("sort", "multiplicities", "sort_edges"),
        indices_loops: ("ego_counts", "ego_edges", "compact", "pick", "pick_sources"),
    }
    for module, names in named.items():
        for name in names:
            assert getattr(module, name).signatures, f"{module.__name__}.{name}"


def test_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "available", lambda: False)
    done = CliRunner().invoke(app, ["compile"])
    assert done.exit_code == 2
    assert "Install the extra: esan[fast]" in done.output


def test_the_help_names_the_extra() -> None:
    """Square brackets are text, not markup."""
    assert "pip install 'esan[fast]'" in " ".join(CliRunner().invoke(app, ["compile", "--help"]).output.split())
