"""`NormRecalibration`: running statistics of batch norms recomputed over given batches with the current weights."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from esan.nn import BatchNorm


class NormRecalibration:
    r"""Averages the statistics of batches, in place of running averages that lag behind the weights.

    .. math:: \mu = \sum_b \frac{g_b}{g} \mu_b, \qquad \sigma^2 = \sum_b \frac{g_b}{g} \sigma_b^2

    over batches b of :math:`g_b` graphs, g graphs in all. This is how batch normalisation was first proposed to predict
    (Ioffe and Szegedy, 2015, Algorithm 2), but for the factor N / (N - 1) of their variance, without which a network
    predicts for a single batch what it computes in train mode. Shuffle the graphs as in training: with one class per
    batch, the variance would lack the difference between classes.

    Only running means and variances change. Everything else runs in eval mode, so there is no dropout. A member of an
    ensemble whose batches hold no graph keeps its statistics.

    Args:
        model: the network, or the stacked networks of an `esan.Ensemble`.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._norms = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None]
        self._running: list[Tensor] = [b for m in self._norms for b in (m.running_mean, m.running_var) if b is not None]
        # In double precision: a norm over nearly constant values amplifies a small error of their mean.
        self._sums = [torch.zeros_like(buffer, dtype=torch.double) for buffer in self._running]
        first = self._running[0] if self._running else torch.zeros(1)
        self._graphs = first.new_zeros(first.shape[:-1], dtype=torch.double)

    @property
    def needed(self) -> bool:
        """Whether the network has running statistics."""
        return bool(self._running)

    @contextmanager
    def over_batches(self) -> Iterator[None]:
        """Inside, call `add_batch` for every batch; on leaving, the averages become the running statistics.

        After an exception the statistics are unchanged. The network is left in eval mode.
        """
        counts = [m.num_batches_tracked for m in self._norms if m.num_batches_tracked is not None]
        running, tracked = ([buffer.clone() for buffer in buffers] for buffers in (self._running, counts))
        momenta = [norm.momentum for norm in self._norms]
        for total in (*self._sums, self._graphs):
            total.zero_()
        self._model.eval()
        for norm in self._norms:
            norm.train()
            # The statistics of the batch alone, without those before.
            norm.momentum = 1.0
            if isinstance(norm, BatchNorm):
                norm.unbiased = False
        try:
            with torch.no_grad():
                yield
        except BaseException:
            self._graphs.zero_()
            raise
        finally:
            self._model.eval()
            for norm, momentum in zip(self._norms, momenta, strict=True):
                norm.momentum = momentum
                if isinstance(norm, BatchNorm):
                    norm.unbiased = True
            seen, graphs = self._graphs.unsqueeze(-1) > 0, self._graphs.unsqueeze(-1).clamp(min=1)
            for buffer, total, before in zip(self._running, self._sums, running, strict=True):
                buffer.copy_(torch.where(seen, (total / graphs).to(buffer.dtype), before))
            for count, before in zip(counts, tracked, strict=True):
                count.copy_(before)

    def add_batch(self, forward: Callable[[], Any], graphs: Tensor | float) -> None:
        """Add the statistics of a batch.

        Args:
            forward: runs the network on it.
            graphs: the number of graphs in it; for an ensemble, one number per member.
        """
        for buffer in self._running:
            # From zero: the difference between a batch and older statistics would lose digits.
            buffer.zero_()
        forward()
        self._graphs += graphs
        for buffer, total in zip(self._running, self._sums, strict=True):
            total += buffer * torch.as_tensor(graphs, dtype=torch.double, device=buffer.device).unsqueeze(-1)
