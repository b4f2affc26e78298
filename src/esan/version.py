"""The version of esan: the number in pyproject.toml, as installed."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("esan")
except PackageNotFoundError:
    __version__ = "0+unknown"  # used from its source folder; a version all the same, for whoever compares it
