"""Copies of bags where networks are trained, shared by all engines of a bag."""

from weakref import WeakKeyDictionary, WeakValueDictionary

import torch

from esan.bags import Bag

#: The copies of each bag by device, for as long as somebody holds them.
_copies: WeakKeyDictionary[Bag, WeakValueDictionary[torch.device, Bag]] = WeakKeyDictionary()


def bag_at(bag: Bag, device: torch.device) -> Bag:
    """The bag on a device; one copy, whoever asks."""
    if bag.device == device:
        return bag
    copies = _copies.setdefault(bag, WeakValueDictionary())
    found = copies.get(device)
    if found is None:
        found = copies[device] = bag.to(device)
    return found
