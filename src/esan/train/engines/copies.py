"""Copies of bags where networks are trained, shared by all engines of a bag."""

from weakref import ReferenceType, WeakKeyDictionary, WeakValueDictionary, ref

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


#: The literal bag of each bag, for as long as somebody holds it.
_literal: WeakKeyDictionary[Bag, ReferenceType[Bag]] = WeakKeyDictionary()


def literal_of(bag: Bag) -> Bag:
    """The literal bag of a bag; one, whoever asks."""
    known = _literal.get(bag)
    found = known() if known is not None else None
    if found is None:
        found = bag.to_literal()
        _literal[bag] = ref(found)
    return found
