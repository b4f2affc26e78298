"""The examples run: the demo on a few small graphs, the rest whole."""

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_a_policy_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    load("own_policy").main()
    assert "MarkedDeletion()" in capsys.readouterr().out


@pytest.mark.exhaustive
def test_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    demo = load("demo")
    monkeypatch.setattr(demo, "SKIPS", (2, 3))
    monkeypatch.setattr(demo, "NODES", 9)
    monkeypatch.setattr(demo, "LARGER", (20, 40))
    monkeypatch.setattr(demo, "COPIES", 5)
    events: list[str] = []
    train = demo.train

    def seen(run: Any, *args: Any, **more: Any) -> None:
        events.append(run.name)
        train(run, *args, **more)

    def clock() -> float:
        events.append("clock")
        return time.perf_counter()

    monkeypatch.setattr(demo, "train", seen)
    monkeypatch.setattr(demo, "time", SimpleNamespace(perf_counter=clock))
    plain, ds, dss = demo.main(epochs=8, seed=0, folder=tmp_path)
    # Every network has made a step before the first is timed.
    assert events[: events.index("clock")] == [plain.name, ds.name, dss.name]
    assert all(len(run.folds) == demo.FOLDS for run in (plain, ds, dss))
    assert plain.curve == [50] * 9
    # Of ten graphs at some epoch, not at the last: with so few, rounding decides over one of them.
    assert max(ds.curve) == 100
    assert len(dss.curve) == 9
    assert (tmp_path / "demo.png").stat().st_size > 10_000
