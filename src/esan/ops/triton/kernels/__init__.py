"""Triton kernels that several operators share."""
