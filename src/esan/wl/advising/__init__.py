"""Which tests and policies tell the graphs of a collection apart, and which suffice."""
