"""Deduplication: equal rows of a DS-GNN are computed once, where that is less work."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from esan.bags import Bag
from esan.bags.dedup import DedupLayerView, dedup_layer_views
from esan.nn.convs.paper_convs import EdgeFeatures, GINEConv
from esan.nn.encoder import Encoder
from esan.nn.feature_encoders import Constant, Embeddings, NodeFeatures, Numbers, OneHotEncoder
from esan.nn.layer import DSLayer
from esan.nn.linear import Linear
from esan.ops.dispatch import implementation, is_plain, is_plain_table


def views(features: NodeFeatures, encoder: Encoder, bag: Bag, like: Tensor) -> list[DedupLayerView] | None:
    """The representatives of the input and of each layer; None where rows are computed as they are.

    Rows are compared by colour refinement of node features, edge features and marks. That is exact where no part of
    the network was changed, draws random numbers, or shares anything between subgraphs. Only while training, where
    finding representatives is less work than it saves.
    """
    fast = None if bag.literal or not bag.plain or not encoder.training else implementation("dedup", like)
    if (
        fast is None
        or bag.num_nodes <= 2
        or bag.graphs.edge_weight is not None
        or not _supported(features, encoder, bag, like)
    ):
        return None
    x, edge_attr = bag.graphs.x, bag.graphs.edge_attr
    reads_edges = any(isinstance(layer.inside, GINEConv) for layer in encoder.layers)
    x, edge_attr = None if isinstance(features.encoder, Constant) else x, edge_attr if reads_edges else None
    key = "representatives", len(encoder.layers), x is None, reads_edges
    versions = _version(x), _version(edge_attr)
    cached = bag.cache.get(key)
    if cached is None or cached.versions != versions:
        nodes, edges = row_ids(fast, x, bag.num_nodes), row_ids(fast, edge_attr, bag.graphs.edge_index.size(1))
        cached = _CachedViews(versions, dedup_layer_views(fast, bag, len(encoder.layers), nodes, edges))
        # Tensors of inference mode have no version.
        if not any(values is not None and values.is_inference() for values in (x, edge_attr)):
            bag.cache[key] = cached
    return cached.views


@dataclass(frozen=True, eq=False)
class _CachedViews:
    """Representatives, and the versions of the features that they were computed from."""

    versions: tuple[Any, Any]
    views: list[DedupLayerView] | None

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """A copy of a bag computes its own: versions of features are not copied with them."""
        return type(None), ()


def _supported(features: NodeFeatures, encoder: Encoder, bag: Bag, like: Tensor) -> bool:
    """Whether a network is one whose equal rows are known to stay equal."""
    if encoder.dropout > 0 or encoder.lookahead or bag.graphs.edge_weight is not None:
        return False
    if not is_plain(features, NodeFeatures) or not _row_by_row(features):
        return False
    layers: list[Any] = list(encoder.layers)
    if not all(
        is_plain(layer, DSLayer) and layer.fused_by(like, bag, bag.layer_view(1)) is not None for layer in layers
    ):
        return False
    return all(_row_by_row(layer.inside.edge_encoder) for layer in layers if isinstance(layer.inside, GINEConv))


def _row_by_row(part: nn.Module) -> bool:
    """Whether features are encoded row by row, and the same row alike."""
    kinds = (
        NodeFeatures, EdgeFeatures, Constant, Numbers, OneHotEncoder, Embeddings, Linear, nn.Identity, nn.ModuleList,
    )  # fmt: skip
    return all(any(is_plain(one, kind) for kind in kinds) or is_plain_table(one) for one in part.modules())


def _version(values: Tensor | None) -> tuple[int, bool] | None:
    """Changes when the values are written to."""
    return None if values is None or values.is_inference() else (values._version, values.requires_grad)


def row_ids(fast: Any, values: Tensor | None, count: int) -> Tensor:
    """One id per row, equal for equal rows; if the values require grad, each row has an id of its own."""
    if values is None:
        return torch.zeros(count, dtype=torch.long)
    # The beginning of each list of numbers is stored in 32 bits.
    too_many = values.numel() + 2 * count >= 2**32
    return torch.arange(count) if values.requires_grad or too_many else fast.distinct_ids(values)[0]
