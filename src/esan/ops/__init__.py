"""Fused kernels for the hot loops; each has a plain twin in torch, which is its meaning and is used where it is not."""

from esan.ops.dispatch import TABLE as TABLE
from esan.ops.dispatch import indices_on_gpu as indices_on_gpu
from esan.ops.dispatch import on_gpu as on_gpu
