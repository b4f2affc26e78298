"""Operators on plain tensors: a torch reference each, and faster implementations for CPU (numba) and GPU (Triton).

Rows are those of bags: a row stands for one (node, subgraph) pair or for many equal ones (`esan.bags`).
"""

from esan.ops.dispatch import Backend as Backend
from esan.ops.dispatch import backend as backend
from esan.ops.dispatch import reference as reference
