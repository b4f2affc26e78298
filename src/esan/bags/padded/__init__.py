"""Padded batches: a few fixed shapes, so that a step captured as a CUDA graph can be replayed."""
