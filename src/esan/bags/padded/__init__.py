"""Padded batches: a few fixed shapes, so that a captured step can be replayed."""
