"""Layers through the compiled loops for a CPU, where they can: norm and ReLU in one, GIN's and GINE's MLP as well."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from esan.bags import Arcs, Bag, Stage
from esan.bags.coded import CodedLines
from esan.bags.sums import Grouping
from esan.nn.conv import GIN, GINE, WeightedMLP
from esan.nn.linear import Linear
from esan.nn.norm import BatchNorm, is_just, is_relu
from esan.ops.numba import runtime as cpu
from esan.ops.numba.messages import Onward

if TYPE_CHECKING:
    from esan.nn.layer import DSLayer, DSSLayer


def fits(layer: "DSLayer | DSSLayer", h: Tensor, stage: Stage) -> bool:
    """Whether this layer, on these rows, goes through here; the answer is the same either way."""
    return cpu.fits(h) and stage.plain and is_just(layer.norm, BatchNorm) and is_relu(layer.act)


def reads_earlier(layer: Any, bag: Bag) -> bool:
    """Whether a layer is likely to read the rows of an earlier stage without a copy; the answer is the same if not."""
    return type(bag) is Bag and bag.device.type == "cpu" and isinstance(layer.inside, GIN | GINE) and cpu.available()


def ds_layer(layer: "DSLayer", h: Tensor, bag: Bag, stage: Stage) -> Tensor:
    """`DSLayer.forward`; compiled convolutions read rows that begin to differ here from where they still are."""
    if takes(layer.inside, layer.norm, h):
        return branch(layer.inside, layer.norm, h, RowsRead.of(stage, h), bag, relu=True)
    h = stage.lift(h)
    return layer.norm(layer.inside(h, stage.arcs, bag.graphs.edge_attr, stage.weight), stage.weight, relu=True)


def dss_layer(layer: "DSSLayer", h: Tensor, bag: Bag, stage: Stage) -> Tensor:
    """`DSSLayer.forward` where the bag is pooled by sum or mean."""
    earlier = _stage_with(bag, h.size(0)) if takes(layer.inside, layer.norm, h) else None
    # What is pooled over the bag is the same before rows are lifted, when they are fewer.
    h, pooled = (earlier or stage).lift_and_pool(h, layer.bag_pool)
    shared = shared_branch(layer, pooled, bag)
    if earlier is not None:
        return branch(layer.inside, layer.norm, h, RowsRead.of(stage, h), bag, relu=True, added=shared)
    inside = layer.inside(h, stage.arcs, bag.graphs.edge_attr, stage.weight)
    assert isinstance(layer.norm, BatchNorm)
    return layer.norm.add_and_relu(inside, stage.weight, shared, stage.by_node)


def shared_branch(layer: "DSSLayer", pooled: Tensor, bag: Bag) -> Tensor:
    """What the subgraphs share, a line a node."""
    arcs = bag.shared.between_nodes(layer.adjacency)
    if takes(layer.shared, layer.shared_norm, pooled):
        return branch(layer.shared, layer.shared_norm, pooled, RowsRead(arcs), bag)
    return layer.shared_norm(layer.shared(pooled, arcs, bag.graphs.edge_attr, None))


def _stage_with(bag: Bag, rows: int) -> Stage | None:
    """The stage that so many rows are of."""
    stages = map(bag.stage, range(len(bag.rows.row_ends)))
    return next((stage for stage in stages if stage.num_rows == rows), None)


@dataclass(frozen=True, eq=False)
class RowsRead:
    """The rows that a branch gives, and what it reads for them.

    Attributes:
        arcs: the arcs into them.
        weight: how many pairs each stands for; None for one.
        onward: how they go on from the rows that are read; None where these are the same.
        by_node: the rows by their node; None for nodes themselves.
    """

    arcs: Arcs
    weight: Tensor | None = None
    onward: Onward | None = None
    by_node: Grouping | None = None

    @staticmethod
    def of(stage: Stage, h: Tensor) -> "RowsRead":
        """The rows of a stage, which h has all of, or the first."""
        known = h.size(0)
        onward = None if known == stage.num_rows else Onward(known, stage.by_node)
        return RowsRead(stage.arcs_from(known), stage.weight_in(h.dtype), onward, stage.by_node)


def takes(conv: Any, norm: nn.Module, h: Tensor) -> bool:
    """Whether a convolution and the norm behind it are computed as one."""
    if not (is_just(conv, GIN) or is_just(conv, GINE)) or not cpu.fits(h):
        return False
    from esan.ops.numba import gin as cpu_layer

    mlp = conv.mlp
    norms: tuple[Any, Any] = mlp.norm, norm
    parts = [(mlp, WeightedMLP), (mlp.first, Linear), (mlp.second, Linear), *((n, BatchNorm) for n in norms)]
    if not all(is_just(part, kind) for part, kind in parts):
        return False
    return (
        conv.eps.numel() == 1
        and all(n.compiled(h) for n in norms)
        and cpu_layer.fits(h, (mlp.first.weight, mlp.second.weight))
    )


def branch(
    conv: Any,
    norm: Any,
    h: Tensor,
    rows: RowsRead,
    bag: Bag,
    relu: bool = False,
    added: Tensor | None = None,
) -> Tensor:
    """A convolution and the norm behind it, with the line of its node added to each row and ReLU if wanted."""
    from esan.ops.numba.gin import Branch, Layer

    table, code = None, None
    if isinstance(conv, GINE):
        lines = conv.edges.for_messages(bag.graphs.edge_attr, h, bag.found)
        table, code = (lines.table, lines.code.contiguous()) if isinstance(lines, CodedLines) else (lines, None)
        # Where torch chooses the precision of products, theirs may be another.
        table = table.to(h.dtype)
    mlp = conv.mlp
    groups = None if added is None else rows.by_node
    parts = Branch(rows.arcs, code, rows.arcs.factor(h), rows.weight, (mlp.norm, norm), relu, groups, rows.onward)
    return Layer.apply(
        h, table, 1 + conv.eps, mlp.first.weight, mlp.first.bias, mlp.norm.weight, mlp.norm.bias, mlp.second.weight,
        mlp.second.bias, norm.weight, norm.bias, added, parts,
    )  # fmt: skip
