"""Campaigns: many runs as one resumable command, in this process, in several, or on a Ray cluster."""
