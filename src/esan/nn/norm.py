"""Norms that know how many pairs a row stands for."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from esan.ops.dispatch import is_plain
from esan.ops.norm import NormState, batch_norm


class BatchNorm(nn.BatchNorm1d):
    r"""Batch normalisation over pairs: each row counts as often as the pairs that it stands for.

    .. math:: \mu = \tfrac1N \sum_r w_r x_r, \quad \sigma^2 = \tfrac1N \sum_r w_r (x_r - \mu)^2, \quad N = \sum_r w_r

    Parameters, buffers and state_dict are those of `torch.nn.BatchNorm1d`, and without multiplicities so is the result;
    with them it is what `torch.nn.BatchNorm1d` gives when each row is repeated `w_r` times.

    Attributes:
        unbiased: whether the running variance follows :math:`\sigma^2 N / (N - 1)`, as torch has it, or
            :math:`\sigma^2`, by which the batch itself is divided.
    """

    unbiased = True

    def forward(self, x: Tensor, weight: Tensor | None = None, relu: bool = False) -> Tensor:
        """Normalise rows of multiplicities `weight`, and apply ReLU if `relu`, in the same pass over the rows."""
        return batch_norm(x, self.state, weight, relu)

    @property
    def state(self) -> NormState:
        """Parameters, buffers and mode, as the operators take them."""
        return NormState(
            gamma=self.weight,
            beta=self.bias,
            running_mean=self.running_mean,
            running_var=self.running_var,
            num_batches=self.num_batches_tracked,
            momentum=self.momentum,
            eps=self.eps,
            training=self.training,
            unbiased=self.unbiased,
        )


def is_relu(act: Any) -> bool:
    """Whether an activation is ReLU, which operators apply in the same pass as a norm."""
    return is_plain(act, nn.ReLU) if isinstance(act, nn.Module) else act in (torch.relu, F.relu)


class LayerNorm(nn.LayerNorm):
    """Normalisation of each row by itself, for which multiplicities do not matter."""

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return super().forward(x)


class NoNorm(nn.Identity):
    """No normalisation; takes its width, and multiplicities, as the others do."""

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return x


NORMS: dict[str | None, type[nn.Module]] = {"batch_norm": BatchNorm, "layer_norm": LayerNorm, None: NoNorm}
