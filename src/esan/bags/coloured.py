"""`ColouredStage`: the colours of a stage's rows in the rows' place, for layers that compute each colour once."""

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from esan.bags.arcs import Arcs
from esan.bags.stage import Stage
from esan.bags.sums import Grouping
from esan.ops.numba.colours import PoolBag, Pooled, PoolNodes


@dataclass(frozen=True, eq=False)
class Read:
    """What the colours of a layer are computed from.

    Attributes:
        arcs: those that end at each colour, from the colours before.
        goes_on: the colours by the colour before that they go on from.
    """

    arcs: Arcs
    goes_on: Grouping


@dataclass(frozen=True, eq=False)
class ColouredStage:
    r"""The rows of a stage by their colour: what colour refinement says of them after as many rounds as layers.

    Two pairs, of whichever subgraphs or graphs, that go on from alike rows, receive alike messages and whose nodes
    share alike over the bag have the same features, whatever the parameters of the network are. A line stands for all
    pairs of its colour.

    Attributes:
        stage: the stage.
        rows: its rows by their colour.
        met: the first row of each colour.
        weight: how many pairs each colour stands for, in double precision.
        read: what it is computed from; None for the input.
        pooled: how colours are pooled over the bag; None where the layer behind does not share.
    """

    stage: Stage
    rows: Grouping
    met: Tensor
    weight: Tensor
    read: Read | None
    pooled: Pooled | None

    @property
    def num_colours(self) -> int:
        return self.rows.size

    @cached_property
    def marked(self) -> Tensor:
        """Whether the rows of each colour are marked nodes: in the input all are, or none is."""
        return self.stage.marked.index_select(0, self.met)

    @cached_property
    def by_node(self) -> Grouping:
        """The colours by the node of their first row; the nodes of the others get the same from what is shared."""
        return Grouping(self.stage.node.index_select(0, self.met), self.stage.by_node.size)

    def settled(self, h: Tensor) -> Tensor:
        """`Stage.settled`."""
        return h.index_fill(0, self._of_none, 0.0) if self._of_none.numel() else h

    @cached_property
    def _of_none(self) -> Tensor:
        """The colours that stand for no pair."""
        return (self.weight == 0).nonzero().squeeze(1)

    def spread(self, x: Tensor) -> Tensor:
        """A line a node → a line a colour."""
        return self.by_node.spread(x)

    def pool_beside(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """The colours as they are, and their pool over the bag as the layer behind takes it, a line a node."""
        assert self.pooled is not None
        return PoolBag.apply(h, self.pooled.to(h.dtype))

    def pool_bag(self, h: Tensor, reduce: str) -> Tensor:
        """`Stage.pool_bag`."""
        return self.stage.pool_bag(self.rows.spread(h), reduce)

    def pool_nodes(self, h: Tensor, reduce: str) -> Tensor:
        """`Stage.pool_nodes`, by sum or mean."""
        return PoolNodes.apply(h, self.stage.of_subgraphs(reduce, h.dtype), self.rows)

    def pool_edges(self, h: Tensor) -> Tensor:
        """`Stage.pool_edges`."""
        return self.stage.pool_edges(self.rows.spread(h))
