"""Readers: PyG data, networkx, graph6, TU folders and other files → checked graphs."""
