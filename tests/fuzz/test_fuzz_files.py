"""Damaged files: what comes of them is the right answer or one clear error, never a crash, a hang or another answer."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from child import Child, Outcome, told_clearly
from files_trials import GROUPS, READERS, Trial


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child() as one:
        assert one.ask(READERS, "ready").value == "ready"
        yield one


def _fault(trial: Trial, outcome: Outcome) -> str:
    """What is wrong with what came of a trial; empty if nothing is."""
    if outcome.kind in ("crash", "hang"):
        return f"{outcome.kind}: {outcome.words}"
    if outcome.kind == "error":
        if not told_clearly(outcome):
            return f"not a clear error: {outcome.error[0]}: {outcome.words[:300]}"
        return f"refused: {outcome.words[:300]}" if trial.must == "value" else ""
    if trial.right is None:
        return "read, though it contradicts itself"
    return "" if trial.right(outcome.value) else f"another answer: {str(outcome.value)[:200]}"


def _try(name: str, seeds: range, child: Child, folder: Path) -> list[str]:
    group, base = GROUPS[name], folder / "whole"
    base.mkdir()
    group.write(base)
    faults = []
    for seed in seeds:
        place = folder / "damaged"
        place.mkdir()
        trial = group.make(base, place, seed)
        outcome = child.ask(READERS, trial.function, *trial.arguments)
        if fault := _fault(trial, outcome):
            faults.append(f"{name} {seed} ({trial.function}): {fault}")
        shutil.rmtree(place)
    return faults


@pytest.mark.parametrize("name", [name for name, group in GROUPS.items() if group.sample])
def test_a_sample_of_damaged_files(name: str, child: Child, tmp_path: Path) -> None:
    group = GROUPS[name]
    # Spread over all seeds; the step has no divisor in common with the ways of damage, which go by the seed.
    step = next(s for s in range(group.count // group.sample, group.count) if all(s % k for k in (2, 3, 5)) or s == 1)
    faults = _try(name, range(0, min(step * group.sample, group.count), step), child, tmp_path)
    assert not faults, "\n".join(faults)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", GROUPS)
def test_all_damaged_files(name: str, child: Child, tmp_path: Path) -> None:
    faults = _try(name, range(GROUPS[name].count), child, tmp_path)
    assert not faults, f"{len(faults)} of {GROUPS[name].count}:\n" + "\n".join(faults)


def test_there_are_enough_of_them() -> None:
    assert sum(group.count for group in GROUPS.values()) >= 1_200


def test_a_crash_a_hang_and_an_unclear_error_are_seen(tmp_path: Path) -> None:
    """The child itself: without this, a suite in which nothing ever runs would be green."""
    (tmp_path / "bad_readers.py").write_text(
        "import ctypes, time\n"
        "def crash(): ctypes.string_at(0)\n"
        "def hang(): time.sleep(60)\n"
        "def hungry(): return len(bytearray(2**36))\n"
        "def unclear(): return {}['x']\n"
        "def clear(): raise ValueError('Expected a (got b). Do c.')\n"
        "def fine(): return 1\n"
    )
    with Child([str(tmp_path)], seconds=0.5) as one:
        assert one.ask("bad_readers", "fine").value == 1
        assert one.ask("bad_readers", "crash").words == "SIGSEGV"
        assert one.ask("bad_readers", "fine").value == 1, "it is started again"
        assert one.ask("bad_readers", "hang").kind == "hang"
        assert one.ask("bad_readers", "hungry").error[0] == "MemoryError"
        assert not told_clearly(one.ask("bad_readers", "unclear"))
        assert told_clearly(one.ask("bad_readers", "clear"))
