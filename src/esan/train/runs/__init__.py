"""Runs: one training from its data to its record, with checkpoints, schedule and loggers."""
