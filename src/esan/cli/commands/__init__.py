"""The commands, one module each: `run` is what `esan COMMAND` calls."""
