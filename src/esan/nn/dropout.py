"""Dropout on the rows of a bag: drawn for every (node, subgraph) pair, or once per node for all of its subgraphs."""

from torch import Tensor

from esan.bags import LayerView
from esan.ops.rows import dropout

#: What dropout is drawn for.
DROPOUTS_ON = ("pairs", "nodes")


def drop(
    h: Tensor, stage: LayerView, p: float, training: bool, on: str, seeds: Tensor | None = None, layer: int = 0
) -> Tensor:
    r"""The rows after dropout: :math:`h_{v,s} \odot M_{v,s}` or :math:`h_{v,s} \odot M_v`, with entries of M 0 or
    :math:`1/(1-p)`.

    M_v does not depend on the subgraph, so that equal rows stay equal: a compact bag is exact, and draws the same
    numbers as the literal one.

    Args:
        h: the rows of `stage`.
        stage: whose rows they are.
        p: the probability that an entry is dropped.
        training: nothing is dropped otherwise.
        on: from `DROPOUTS_ON`.
        seeds: one per network that the rows belong to, `[S]`; None to draw from torch's own generator.
        layer: the number of the layer before it; each layer has a mask of its own.
    """
    if on == "pairs" or not p or not training:
        return dropout(h, p, training, seeds, layer, stage.row_ranges)
    return h * stage.broadcast(dropout(h.new_ones(stage.by_node.size, h.size(1)), p, training, seeds, layer, None))
