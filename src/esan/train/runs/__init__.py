"""Runs: one training from its data to its record, with checkpoints, learning-rate schedule and loggers."""
