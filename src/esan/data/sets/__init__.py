"""The published data sets by name: where they are, how they are read and checked."""
