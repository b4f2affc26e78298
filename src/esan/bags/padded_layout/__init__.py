"""Batches of a fixed shape: many are laid out at once, on the device, so that a captured step can be replayed."""
