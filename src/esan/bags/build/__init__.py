"""Build the rows of a bag from a selection: literal or compact."""
