"""Convolutions: the paper's, by name, and any of PyG's."""
