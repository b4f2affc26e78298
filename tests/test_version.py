"""`esan.__version__`: the number in pyproject.toml, and nowhere else."""

import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.version import parse

import esan
from esan.train.runs.records import versions

ROOT = Path(__file__).parent.parent

UNKNOWN = """
import importlib.metadata as metadata

def version(name):
    raise metadata.PackageNotFoundError(name)

metadata.version = version
import esan
from esan.train.runs.records import versions
print(esan.__version__, versions()["esan"], versions()["numpy"], sep=",")
"""


def test_the_version_is_that_of_the_project() -> None:
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert esan.__version__ == written


def test_records_name_the_same_version() -> None:
    assert versions()["esan"] == esan.__version__


def test_a_source_folder_that_is_not_installed_has_a_version_too() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", UNKNOWN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ours, recorded, numpy = done.stdout.strip().split(",")
    assert ours == recorded == "0+unknown"
    assert parse(ours) < parse("0.0.1")
    assert numpy == "not installed"
