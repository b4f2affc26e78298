"""The command line: `main` is the program, `commands` has a module per command; the rest is what commands share."""
