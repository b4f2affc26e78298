"""Whatever a command is given, it does its work, or ends soon with one clear line and exit code 2."""

import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands_corpus import command_lines, made
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from esan.cli.main import app
from hypothesis_examples import examples

LINES = command_lines()
SAMPLE = LINES[::17]
RUNNER = CliRunner(env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("given")
    there = made(folder)
    trained = RUNNER.invoke(app, ["train", there["recipe"], "--runs", str(folder / "runs"), "--quiet"])
    assert trained.exit_code == 0, trained.output
    return there | {"run": str(folder / "runs")}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ESAN_DATA", str(tmp_path / "no data"))
    monkeypatch.setenv("ESAN_CACHE", str(tmp_path / "cache"))


def invoked(line: list[str], files: dict[str, str]) -> Result:
    """The outcome of a command line, in bounded time and memory."""
    named = [re.sub(r"\{(\w+)\}", lambda match: files[match[1]], word) for word in line]
    began, peak = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = RUNNER.invoke(app, named)
    assert time.monotonic() - began < 30
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 2**20  # KiB
    return result


def check_error(result: Result) -> None:
    """One line on stderr besides warnings, which says what was expected and what it got; code 2."""
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert result.exit_code == 2, (result.exit_code, result.output, result.exception)
    assert lines, result.output
    # Some begin with the file and line of what is wrong.
    assert re.search(r"(^|: )Expected ", lines[-1]), lines[-1]
    assert "(got" in lines[-1], lines[-1]
    assert "ESAN_TRACEBACK" not in lines[-1], lines[-1]  # an error that nobody foresaw
    assert "Traceback" not in result.output
    assert len(lines[-1]) < 1500, lines[-1]
    assert all(not line.startswith("Expected") for line in lines[:-1]), lines


def _named(line: list[str]) -> str:
    return re.sub(r"[^\w{}=.,^@()+-]", "_", " ".join(line).encode("ascii", "replace").decode())[:60]


@pytest.mark.parametrize("line", SAMPLE, ids=_named)
def test_some_command_lines(line: list[str], files: dict[str, str]) -> None:
    check_error(invoked(line, files))


@pytest.mark.exhaustive
@pytest.mark.parametrize("line", LINES, ids=_named)
def test_all_command_lines(line: list[str], files: dict[str, str]) -> None:
    check_error(invoked(line, files))


WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["rook", "cycle(3)", "2xpath(2)", "ED", "EGO(2)", "--policy", "--num-layers", "--test", "--most"]),
    st.integers(-3, 10**25).map(str),
    st.from_regex(r"[a-z]{3,5}\([0-9,]{0,4}\)(\+[a-z]{3}\([0-9]\))?", fullmatch=True),
)


def check_any(line: list[str], files: dict[str, str]) -> None:
    """An answer, or one clear error."""
    result = invoked(line, files)
    if result.exit_code != 0:
        check_error(result)


@examples(5)
@given(st.sampled_from(["bag", "wl"]), st.lists(WORDS, max_size=4))
def test_some_words(files: dict[str, str], command: str, words: list[str]) -> None:
    check_any([command, *(word.replace("{", "").replace("}", "") for word in words)], files)


@pytest.mark.exhaustive
@examples(1000)
@given(st.sampled_from(["bag", "wl", "advise", "predict", "report"]), st.lists(WORDS, max_size=5))
def test_many_words(files: dict[str, str], command: str, words: list[str]) -> None:
    check_any([command, *(word.replace("{", "").replace("}", "") for word in words)], files)


def _child(*line: str, limit: int | None = None) -> subprocess.Popen[str]:
    """A command in a process of its own, where a crash or hang is seen; `limit` is its address space in bytes."""
    code = "import sys; from esan.cli.main import app; sys.argv[0] = 'esan'; print('ready', flush=True); app()"
    shrink = (lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))) if limit else None
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code, *line], stdout=pipe, stderr=pipe, text=True, preexec_fn=shrink)


@pytest.mark.parametrize("line", [["bag", "rook"], ["train", "{recipe}"]], ids=lambda line: line[0])
def test_an_interrupt_is_one_line(line: list[str], files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("esan.cli.commands.bag.some_graphs", interrupt)
    monkeypatch.setattr("esan.cli.commands.train.run_jobs", interrupt)
    result = invoked(line, files)
    assert result.exit_code == 130
    assert result.stderr.startswith("Interrupted.")
    assert len(result.stderr.splitlines()) == 1


def test_a_bug_has_its_traceback_and_says_how_to_report_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AttributeError("nobody's input")

    monkeypatch.setattr("esan.cli.commands.bag.some_graphs", fail)
    result = RUNNER.invoke(app, ["bag", "rook"])
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("This is a bug in esan (AttributeError)")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "Expected the work to fit into memory (got no more of it"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "Expected the work to fit into memory (got"),
        (RecursionError("too deep"), "Expected input that is nested less deeply (got"),
        (OverflowError("int too big"), "Expected input that esan can work with (got OverflowError: int too big)."),
        (KeyError("z"), "Expected input that esan can work with (got KeyError: z)."),
        (IndexError("Expected a graph (got 9). Count."), "Expected a graph (got 9). Count."),
        (RuntimeError("size mismatch for x:\n\tcopying"), "Expected input that esan can work with (got RuntimeError"),
        (ModuleNotFoundError("No module named 'z'", name="z"), "Expected the package z (got: No module named 'z')."),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "Expected text in utf-8 (got byte 0, which is not)."),
        (PermissionError(13, "Permission denied", "/x"), "Expected a path that can be read or written (got Permission"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_of_other_libraries_are_one_line(error: Exception, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("esan.cli.commands.bag.some_graphs", fail)
    result = RUNNER.invoke(app, ["bag", "rook"])
    assert result.exit_code == 2
    assert result.stderr.startswith(words)
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.exhaustive
def test_an_interrupt_of_a_training_is_one_line(files: dict[str, str], tmp_path: Path) -> None:
    settings_ = ["--set", "epochs=1000000", "--set", "stop_after=0", "--runs", str(tmp_path), "--quiet"]
    with _child("train", files["recipe"], *settings_) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        end = time.monotonic() + 60
        while not list(tmp_path.rglob("recipe.toml")):
            assert time.monotonic() < end
            time.sleep(0.1)
        time.sleep(0.5)
        os.kill(child.pid, signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert errors.strip().splitlines()[-1].startswith("Interrupted. Run the same command to continue")
    assert "Traceback" not in errors


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "line",
    [
        ["bag", "cycle(100000)", "--literal"],
        ["bag", "cycle(3000)", "--policy", "ND(2)"],
        ["bag", "complete(1000)", "--policy", "EGO(3)"],
        ["bag", "star(2000000)"],
        ["wl", "complete(500)", "complete(500)", "--policy", "ED"],
        ["wl", "cycle(9999999)", "cycle(9999998)", "--policy", "ND"],
    ],
    ids=" ".join,
)
def test_little_memory_is_no_crash(line: list[str]) -> None:
    """With four gigabytes of address space: refused in one line, or done, and never killed."""
    with _child(*line, limit=4 * 2**30) as child:
        _, errors = child.communicate(timeout=300)
    assert child.returncode in (0, 2), errors
    assert "Traceback" not in errors
    if child.returncode:
        assert errors.strip().splitlines()[-1].startswith("Expected"), errors
