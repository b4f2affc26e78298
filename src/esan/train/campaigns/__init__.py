"""Campaigns: many runs as one, in this process, in several, or on a Ray cluster."""
