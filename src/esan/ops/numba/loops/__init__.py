"""The compiled loops of the numba implementations."""
