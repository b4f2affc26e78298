"""Which esan this is: the number that stands in pyproject.toml, as it was installed."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("esan")
except PackageNotFoundError:
    __version__ = "0+unknown"  # used from its source folder; a version all the same, for whoever compares it
