"""`esan.__version__`: the number in pyproject.toml, and nowhere else."""

import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from packaging.version import parse

import esan
from esan.train.runs import records
from esan.train.runs.records import versions

ROOT = Path(__file__).parent.parent

UNKNOWN = """
import importlib.metadata as metadata
import runpy, sys

def version(name):
    raise metadata.PackageNotFoundError(name)

metadata.version = version
print(runpy.run_path(sys.argv[1])["__version__"])
"""


def test_the_version_is_that_of_the_project() -> None:
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert esan.__version__ == written


def test_records_name_the_same_version() -> None:
    assert versions()["esan"] == esan.__version__


def test_a_source_folder_that_is_not_installed_has_a_version_too() -> None:
    file = Path(esan.__file__).parent / "version.py"
    done = subprocess.run([sys.executable, "-c", UNKNOWN, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "0+unknown"
    assert parse("0+unknown") < parse("0.0.1")


def test_what_is_not_installed_is_named_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(records, "version", unknown)
    assert versions()["numpy"] == "not installed"
