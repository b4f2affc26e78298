"""The equivariant layer of the paper: message passing in each subgraph, and one pass shared by all of them."""

from collections.abc import Callable

from torch import Tensor, nn

from esan.bags import Bag, Stage
from esan.nn import compiled, fused
from esan.nn.conv import Conv
from esan.nn.norm import BatchNorm, is_just, is_relu

#: How the features of a node are pooled over the bag; "others" is the sum without the subgraph itself.
BAG_POOLS = ("sum", "mean", "max", "others")


class DSLayer(nn.Module):
    r"""Message passing inside each subgraph: :math:`h'_i = \sigma(\mathrm{norm}(L^1(A_i, h_i)))`.

    Args:
        inside: L1.
        norm: over the rows, weighted.
        act: σ.
    """

    def __init__(self, inside: Conv, norm: nn.Module, act: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inside, self.norm, self.act = inside, norm, act

    @property
    def why_literal(self) -> str | None:
        """Why the layer is not exact on a compact bag; None if it is."""
        return self.inside.why_literal

    def forward(self, h: Tensor, bag: Bag, stage: Stage) -> Tensor:
        if compiled.fits(self, h, stage):
            return stage.settled(compiled.ds_layer(self, h, bag, stage))
        h = stage.lift(h)
        if fused.fits(self, h):
            return fused.ds_layer(self, h, bag, stage)
        y = self.inside(h, stage.arcs, bag.graphs.edge_attr, stage.weight)
        if fused.ends(self, y):
            return fused.normalised(self, y, stage)
        if is_just(self.norm, BatchNorm) and is_relu(self.act):
            return stage.settled(self.norm(y, stage.weight, relu=True))
        return stage.settled(self.act(self.norm(y, stage.weight)))


class DSSLayer(nn.Module):
    r"""Message passing inside each subgraph, plus one pass shared by all of them (Eq. 1).

    .. math:: h'_i = \sigma\Big(\mathrm{norm}_1\big(L^1(A_i, h_i)\big)
              + \mathrm{norm}_2\big(L^2(\operatorname{agg}_j A_j, \operatorname{agg}_j h_j)\big)\Big)

    Permuting the subgraphs or the nodes of the input permutes the output alike
    (`esan.testing.assert_equivariant`).

    Args:
        inside: L1, acts within each subgraph.
        norm: over the rows, weighted.
        shared: L2, acts once on the whole graph; its answer is added to every subgraph.
        shared_norm: over what L2 gives.
        act: σ.
        bag_pool: the aggregator of features, from `BAG_POOLS`; with "others", L2 acts once in every subgraph i, on
            :math:`\sum_{j \ne i} h_j`.
        adjacency: the aggregator of adjacency matrices, from `ADJACENCIES`.
    """

    def __init__(
        self,
        inside: Conv,
        norm: nn.Module,
        shared: Conv,
        shared_norm: nn.Module,
        act: Callable[[Tensor], Tensor],
        bag_pool: str = "mean",
        adjacency: str = "max",
    ) -> None:
        super().__init__()
        self.inside, self.norm = inside, norm
        self.shared, self.shared_norm = shared, shared_norm
        self.act, self.bag_pool, self.adjacency = act, bag_pool, adjacency

    @property
    def why_literal(self) -> str | None:
        """Why the layer is not exact on a compact bag; None if it is."""
        if self.bag_pool in ("max", "others"):
            return f"bag_pool={self.bag_pool!r} needs every pair"
        return self.inside.why_literal

    def forward(self, h: Tensor, bag: Bag, stage: Stage) -> Tensor:
        if self.bag_pool in ("sum", "mean") and compiled.fits(self, h, stage):
            return stage.settled(compiled.dss_layer(self, h, bag, stage))
        h = stage.lift(h)
        if fused.fits(self, h):
            return fused.dss_layer(self, h, bag, stage)
        edges = bag.graphs.edge_attr
        inside = self.inside(h, stage.arcs, edges, stage.weight)
        if self.bag_pool == "others":
            others = stage.spread(stage.pool_bag(h, "sum")) - h
            around = self.shared(others, bag.shared.between_rows(self.adjacency), edges, stage.weight)
            return self.act(self.norm(inside, stage.weight) + self.shared_norm(around, stage.weight))
        pooled = stage.pool_bag(h, self.bag_pool)
        around = self.shared(pooled, bag.shared.between_nodes(self.adjacency), edges, bag.node_weight)
        if fused.ends(self, inside):
            return fused.blended(self, inside, around, bag, stage)
        y = stage.add(self.norm(inside, stage.weight), self.shared_norm(around, bag.node_weight))
        return stage.settled(self.act(y))

    def extra_repr(self) -> str:
        return f"bag_pool={self.bag_pool!r}, adjacency={self.adjacency!r}"
