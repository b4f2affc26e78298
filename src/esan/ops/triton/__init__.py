"""Triton implementations of the operators, for a GPU."""
