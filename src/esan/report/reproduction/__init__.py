"""`esan reproduce`: running the tables of the paper, storing their results, and writing their pages."""
