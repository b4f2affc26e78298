"""Sizes that Triton's kernels are written for; they do not need Triton itself."""

#: Rows of the largest table of edge embeddings that messages look up inside a kernel: its gradient has a sum for each.
SMALL_TABLE = 4
#: The widest layer that the kernels take at once, and the most columns that a program works on.
WIDEST = 128
#: The most rows of an embedding table whose gradient the kernels find.
LOOKED_UP = 128
