"""`Renewal`: the running statistics of batch norms taken anew, from given batches and under the weights as they are."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from esan.nn import BatchNorm


class Renewal:
    r"""Statistics of batches, averaged, in place of running ones that lag behind the weights.

    .. math:: \mu = \sum_b \frac{g_b}{g} \mu_b, \qquad \sigma^2 = \sum_b \frac{g_b}{g} \sigma_b^2

    over batches b of :math:`g_b` graphs, g graphs in all. This is how batch normalisation was first proposed to predict
    (Ioffe and Szegedy, 2015, Algorithm 2), but for the factor N / (N - 1) of their variance, without which a network
    predicts for a single batch what it gives while training. Batches should be mixed as those of training are: of
    batches of one class each, the variance would lack what tells classes apart.

    Nothing but running means and variances is changed. All else works as for predictions: there is no dropout. Of
    networks that are stacked, one whose batches hold no graph keeps the statistics that it has.

    Args:
        model: the network, or several as one (`esan.nn.stack`).
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._norms = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None]
        self._running: list[Tensor] = [b for m in self._norms for b in (m.running_mean, m.running_var) if b is not None]
        # In double precision: a norm over near constants makes much of a small error in their mean.
        self._sums = [torch.zeros_like(buffer, dtype=torch.double) for buffer in self._running]
        lines = self._running[0] if self._running else torch.zeros(1)
        self._graphs = lines.new_zeros(lines.shape[:-1], dtype=torch.double)

    @property
    def needed(self) -> bool:
        """Whether there are running statistics at all."""
        return bool(self._running)

    @property
    def state(self) -> list[Tensor]:
        """What is added up over batches."""
        return [*self._sums, self._graphs]

    @contextmanager
    def over_batches(self) -> Iterator[None]:
        """Within, `add` takes batches; in the end their means are the running statistics.

        Where it ends by an exception, they are what they were. The network is left in eval mode.
        """
        counts = [m.num_batches_tracked for m in self._norms if m.num_batches_tracked is not None]
        running, tracked = ([buffer.clone() for buffer in buffers] for buffers in (self._running, counts))
        momenta = [norm.momentum for norm in self._norms]
        for total in (*self._sums, self._graphs):
            total.zero_()
        self._model.eval()
        for norm in self._norms:
            norm.train()
            # All of a batch, and nothing of what was before.
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
            there, graphs = self._graphs.unsqueeze(-1) > 0, self._graphs.unsqueeze(-1).clamp(min=1)
            for buffer, total, before in zip(self._running, self._sums, running, strict=True):
                buffer.copy_(torch.where(there, (total / graphs).to(buffer.dtype), before))
            for count, before in zip(counts, tracked, strict=True):
                count.copy_(before)

    def add(self, forward: Callable[[], Any], graphs: Tensor | float) -> None:
        """Count a batch.

        Args:
            forward: the pass of the network over it.
            graphs: how many graphs it has; of stacked networks, of each.
        """
        for buffer in self._running:
            # From zero: the difference between a batch and what was before would cost digits.
            buffer.zero_()
        forward()
        self._graphs += graphs
        for buffer, total in zip(self._running, self._sums, strict=True):
            total += buffer * torch.as_tensor(graphs, dtype=torch.double, device=buffer.device).unsqueeze(-1)
