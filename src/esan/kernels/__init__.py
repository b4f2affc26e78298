"""Fused kernels for the hot loops; each has a plain twin in torch, which is its meaning and is used where it is not."""

from esan.kernels.gpu import TABLE as TABLE
from esan.kernels.gpu import indices_on_gpu as indices_on_gpu
from esan.kernels.gpu import on_gpu as on_gpu
