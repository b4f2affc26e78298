"""The commands of the command line, one a file: each has a function that `esan.cli` registers under its name."""
