"""Pictures of colour refinement: where nodes stand, what is drawn, and in which file."""
