"""Dropout on the rows of a bag: drawn for every (node, subgraph) pair, or once per node for all of its subgraphs."""

import torch.nn.functional as F
from torch import Tensor

from esan.bags import Stage

#: What dropout is drawn for.
DROPOUTS_ON = ("pairs", "nodes")


def drop(h: Tensor, stage: Stage, p: float, training: bool, on: str) -> Tensor:
    r"""The rows after dropout: :math:`h_{v,s} \odot M_{v,s}` or :math:`h_{v,s} \odot M_v`, with entries of M 0 or
    :math:`1/(1-p)`.

    M_v does not depend on the subgraph, so that pairs which were alike stay alike: a compact bag is exact, and draws
    the same numbers as the literal one.

    Args:
        h: the rows of `stage`.
        stage: whose rows they are.
        p: the probability that an entry is dropped.
        training: nothing is dropped otherwise.
        on: from `DROPOUTS_ON`.
    """
    if on == "pairs" or not p or not training:
        return F.dropout(h, p, training)
    return h * stage.spread(F.dropout(h.new_ones(stage.by_node.size, h.size(1)), p, training))
