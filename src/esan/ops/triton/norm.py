"""Triton: weighted batch norm, and the norms, sum and ReLU that a layer ends with in one kernel."""

import torch
from torch import Tensor

from esan.ops.norm import Normed, NormState
from esan.ops.rows import RowView
from esan.ops.triton.blocks import Blend, Norm, Normalise, Rows, Spread
from esan.ops.triton.kernels.moments import Tracked


def takes(x: Tensor, norm: NormState) -> bool:
    """Whether the kernels compute this norm: one with parameters and running statistics."""
    usual = norm.gamma is not None and norm.momentum is not None and norm.running_mean is not None
    # In eval mode the kernels do not differentiate.
    return usual and x.size(0) > 0 and (norm.training or not torch.is_grad_enabled())


def norm_of(norm: NormState) -> Norm:
    """The norm as the kernels take it."""
    assert norm.gamma is not None
    assert norm.beta is not None
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches is not None
    assert norm.momentum is not None
    tracked = Tracked(norm.running_mean, norm.running_var, norm.num_batches, norm.momentum, norm.unbiased)
    return Norm(norm.gamma, norm.beta, norm.eps, tracked, not norm.training)


def batch_norm(x: Tensor, norm: NormState, multiplicity: Tensor | None, relu: bool) -> Tensor:
    """`esan.ops.norm.batch_norm`."""
    return Normalise.apply(x, norm.gamma, norm.beta, norm_of(norm), Rows(multiplicity), relu)


def normalised_sum(rows: Normed, nodes: Normed | None, view: RowView) -> Tensor:
    """`esan.ops.norm.normalised_sum`."""
    own = Rows(rows.multiplicity, settled=rows.multiplicity is not None)
    if nodes is None:
        return Normalise.apply(rows.x, rows.norm.gamma, rows.norm.beta, norm_of(rows.norm), own, True)
    return Blend.apply(
        rows.x, rows.norm.gamma, rows.norm.beta, nodes.x, nodes.norm.gamma, nodes.norm.beta,
        (norm_of(rows.norm), norm_of(nodes.norm)), (own, Rows(nodes.multiplicity)), spread_of(view),
    )  # fmt: skip


def spread_of(view: RowView) -> Spread:
    group = view.by_node
    return Spread(group.owner, group.order, group.first, group.count)
