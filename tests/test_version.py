"""`esan.__version__`: the number in pyproject.toml, and nowhere else."""

import subprocess
import sys
import tomllib
from pathlib import Path

import esan

ROOT = Path(__file__).parent.parent

UNKNOWN = """
import importlib.metadata as metadata

def version(name):
    raise metadata.PackageNotFoundError(name)

metadata.version = version
import esan
assert esan.__version__ == "not installed"
"""


def test_the_version_is_that_of_the_project() -> None:
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert esan.__version__ == written


def test_a_source_folder_that_is_not_installed_can_be_imported() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", UNKNOWN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
