"""ZINC12k: 12,000 molecules with 28 kinds of atoms and 3 kinds of bonds, and the split they come with."""

import torch

from esan.data.arrays import arrays_in, joined, laid_in
from esan.data.dataset import Split
from esan.data.found import Found
from esan.data.laid import column
from esan.data.places import Places

_PARTS = ("train", "val", "test")


def find_zinc(places: Places) -> Found:
    """From `zinc12k.npz` (plain arrays) if it is there, else from the raw files of PyG's `ZINC`."""
    plain = places.find("ZINC/zinc12k.npz")
    assert plain is not None
    arrays = arrays_in(plain)
    parts = [laid_in(arrays, f"{part}_", plain) for part in _PARTS]
    laid = joined(parts)
    assert laid.x is not None and laid.edge_attr is not None and laid.y is not None
    laid.x, laid.edge_attr, laid.y = column(laid.x), column(laid.edge_attr), laid.y.reshape(-1, 1).astype("float32")
    return Found(laid, str(plain), Split(*torch.arange(len(laid.num_nodes)).split([p.num_nodes.size for p in parts])))
