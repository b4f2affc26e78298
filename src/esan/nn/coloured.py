"""Networks on colours: rows that cannot be told apart are computed once, on a CPU, where norms are of the rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from esan.bags import Bag
from esan.bags.coloured import ColouredStage
from esan.bags.colours import Alike, Sharing, coloured_stages, numbered
from esan.nn.compiled import RowsRead, branch, shared_branch, takes
from esan.nn.conv import GINE, EdgeFeatures
from esan.nn.features import Constant, Embeddings, NodeFeatures, Numbers, OneHotLines
from esan.nn.layer import DSLayer, DSSLayer
from esan.nn.linear import Linear
from esan.nn.norm import is_just, is_relu
from esan.ops.numba import runtime as cpu
from esan.ops.numba.messages import Onward

if TYPE_CHECKING:
    from esan.nn.encoder import Encoder


def stages(features: NodeFeatures, encoder: "Encoder", bag: Bag, like: Tensor) -> list[ColouredStage] | None:
    """The colours of the input and of each layer; None where rows are computed as they are.

    Rows are told apart by colour refinement: of the features of nodes and arcs, marks, and what nodes share, if the
    layers share. That is right where every part of the network is what it was built as, and draws nothing at random.
    """
    # Norms refuse a pair that is alone, and the plain way of few rows looks for it.
    if type(bag) is not Bag or bag.literal or bag.device.type != "cpu" or bag.num_nodes <= 2:
        return None
    if not _takes(features, encoder, like):
        return None
    x, edge_attr = bag.graphs.x, bag.graphs.edge_attr
    reads_x, reads_edges = not isinstance(features.lines, Constant), any(isinstance(c, GINE) for c in _convs(encoder))
    shares = tuple(
        Sharing(one.adjacency, one.bag_pool == "mean") if isinstance(one, DSSLayer) else None for one in encoder.layers
    )
    x, edge_attr = x if reads_x else None, edge_attr if reads_edges else None
    key, versions = ("colours", shares, reads_x, reads_edges), (_version(x), _version(edge_attr))
    known = bag.found.get(key)
    if known is None or known.versions != versions:
        nodes, arcs = _numbers(x, bag.num_nodes), _numbers(edge_attr, bag.graphs.edge_index.size(1))
        known = _Known(versions, coloured_stages(bag, Alike(nodes, arcs, shares)))
        # Tensors of inference mode do not say whether somebody has written to them.
        if not any(lines is not None and lines.is_inference() for lines in (x, edge_attr)):
            bag.found[key] = known
    return known.stages


@dataclass(frozen=True, eq=False)
class _Known:
    """Colours that were found, and the versions of the features that they were found for."""

    versions: tuple[Any, Any]
    stages: list[ColouredStage] | None

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """A copy of a bag finds its own: versions of features are not copied with them."""
        return type(None), ()


def layer(of: DSLayer | DSSLayer, h: Tensor, bag: Bag, before: ColouredStage, stage: ColouredStage) -> Tensor:
    """`DSLayer.forward` or `DSSLayer.forward`, with a line a colour, from those of the stage before."""
    shared = None
    if isinstance(of, DSSLayer):
        h, pooled = before.pool_beside(h)
        shared = shared_branch(of, pooled, bag)
    read = stage.read
    assert read is not None
    rows = RowsRead(read.arcs, stage.weight.to(h.dtype), Onward(0, read.goes_on), stage.by_node)
    return stage.settled(branch(of.inside, of.norm, h, rows, bag, relu=True, added=shared))


def _takes(features: NodeFeatures, encoder: "Encoder", like: Tensor) -> bool:
    """Whether a network is one that goes through here."""
    # As many lines as any norm needs: how many colours there are does not matter, their weights are those of the rows.
    lines = like.new_empty(3, 1)
    if not cpu.fits(lines) or (encoder.training and encoder.dropout > 0) or _has_any_global_hook():
        return False
    if not is_just(features, NodeFeatures) or not _by_line(features.lines):
        return False
    layers: list[Any] = list(encoder.layers)
    for one in layers:
        if is_just(one, DSSLayer):
            if one.bag_pool not in ("sum", "mean") or not takes(one.shared, one.shared_norm, lines):
                return False
        elif not is_just(one, DSLayer):
            return False
        if not is_relu(one.act) or not takes(one.inside, one.norm, lines):
            return False
    return all(_by_line(conv.edges) for conv in _convs(encoder) if isinstance(conv, GINE))


def _convs(encoder: "Encoder") -> Iterator[Any]:
    for one in encoder.layers:
        yield one.inside
        if isinstance(one, DSSLayer):
            yield one.shared


def _by_line(part: nn.Module) -> bool:
    """Whether features are encoded line by line, and the same line alike."""
    kinds = (EdgeFeatures, Constant, Numbers, OneHotLines, Embeddings, Linear, nn.Identity, nn.Embedding, nn.ModuleList)
    return all(any(is_just(one, kind) for kind in kinds) for one in part.modules())


def _version(lines: Tensor | None) -> tuple[int, bool] | None:
    """What tells lines from those that somebody has made of them since."""
    return None if lines is None or lines.is_inference() else (lines._version, lines.requires_grad)


def _numbers(lines: Tensor | None, count: int) -> Tensor:
    """A number a line, the same for the same; where the gradient of each is asked for, each has its own."""
    if lines is None:
        return torch.zeros(count, dtype=torch.long)
    # Where a list of numbers begins is kept in 32 bits.
    too_many = lines.numel() + 2 * count >= 2**32
    return torch.arange(count) if lines.requires_grad or too_many else numbered(lines)[0]
