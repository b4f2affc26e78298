"""Numba implementations of the operators, for a CPU."""
