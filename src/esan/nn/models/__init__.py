"""Whole networks: from a bag to its predictions."""
