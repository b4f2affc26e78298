"""Rows that a DS-GNN cannot tell apart are computed once, where that is less work."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from esan.bags import Bag
from esan.bags.dedup import DedupStage, dedup_stages
from esan.nn.convs.base import GINE, EdgeFeatures
from esan.nn.encoder import Encoder
from esan.nn.features import Constant, Embeddings, NodeFeatures, Numbers, OneHotLines
from esan.nn.layer import DSLayer
from esan.nn.linear import Linear
from esan.ops.dispatch import implementation, is_plain, is_plain_table


def stages(features: NodeFeatures, encoder: Encoder, bag: Bag, like: Tensor) -> list[DedupStage] | None:
    """The representatives of the input and of each layer; None where rows are computed as they are.

    Rows are told apart by colour refinement of the features of nodes and edges, and marks. That is right where every
    part of the network is what it was built as, draws nothing at random, and shares nothing between subgraphs. While
    training alone, where finding them is less work than it saves.
    """
    fast = None if bag.literal or not bag.plain or not encoder.training else implementation("dedup", like)
    if (
        fast is None
        or bag.num_nodes <= 2
        or bag.graphs.edge_weight is not None
        or not _takes(features, encoder, bag, like)
    ):
        return None
    x, edge_attr = bag.graphs.x, bag.graphs.edge_attr
    reads_edges = any(isinstance(layer.inside, GINE) for layer in encoder.layers)
    x, edge_attr = None if isinstance(features.lines, Constant) else x, edge_attr if reads_edges else None
    key, versions = ("representatives", x is None, reads_edges), (_version(x), _version(edge_attr))
    known = bag.found.get(key)
    if known is None or known.versions != versions:
        nodes, edges = _numbers(fast, x, bag.num_nodes), _numbers(fast, edge_attr, bag.graphs.edge_index.size(1))
        known = _Known(versions, dedup_stages(fast, bag, len(encoder.layers), nodes, edges))
        # Tensors of inference mode do not say whether somebody has written to them.
        if not any(values is not None and values.is_inference() for values in (x, edge_attr)):
            bag.found[key] = known
    return known.stages


@dataclass(frozen=True, eq=False)
class _Known:
    """Representatives that were found, and the versions of the features that they were found for."""

    versions: tuple[Any, Any]
    stages: list[DedupStage] | None

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """A copy of a bag finds its own: versions of features are not copied with them."""
        return type(None), ()


def _takes(features: NodeFeatures, encoder: Encoder, bag: Bag, like: Tensor) -> bool:
    """Whether a network is one that goes through here."""
    if encoder.dropout > 0 or encoder.lookahead or bag.edge_weight is not None:
        return False
    if not is_plain(features, NodeFeatures) or not _row_by_row(features):
        return False
    layers: list[Any] = list(encoder.layers)
    if not all(is_plain(layer, DSLayer) and layer.fused_by(like, bag, bag.stage(1)) is not None for layer in layers):
        return False
    return all(_row_by_row(layer.inside.edges) for layer in layers if isinstance(layer.inside, GINE))


def _row_by_row(part: nn.Module) -> bool:
    """Whether features are encoded row by row, and the same row alike."""
    kinds = (
        NodeFeatures, EdgeFeatures, Constant, Numbers, OneHotLines, Embeddings, Linear, nn.Identity, nn.ModuleList,
    )  # fmt: skip
    return all(any(is_plain(one, kind) for kind in kinds) or is_plain_table(one) for one in part.modules())


def _version(values: Tensor | None) -> tuple[int, bool] | None:
    """What tells values from those that somebody has made of them since."""
    return None if values is None or values.is_inference() else (values._version, values.requires_grad)


def _numbers(fast: Any, values: Tensor | None, count: int) -> Tensor:
    """A number per row, the same for the same; where the gradient of each is asked for, each has its own."""
    if values is None:
        return torch.zeros(count, dtype=torch.long)
    # Where a list of numbers begins is kept in 32 bits.
    too_many = values.numel() + 2 * count >= 2**32
    return torch.arange(count) if values.requires_grad or too_many else fast.numbered(values)[0]
