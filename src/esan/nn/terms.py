"""Terms: the summands of an equivariant layer, each a convolution followed by a norm."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor
from torch_geometric.nn import MessagePassing

from esan.bags import Bag, LayerView
from esan.nn.convs.paper_convs import Conv, why_every_pair_in
from esan.nn.execution.replay import call_conv
from esan.nn.norm import why_every_pair


@dataclass(frozen=True, eq=False)
class Term:
    """One summand of a layer.

    Attributes:
        conv: its convolution.
        norm: over the rows of its result.
    """

    conv: Conv
    norm: Any

    #: Whether it has one row per row of the bag; else one per node, which is broadcast to all rows of the node.
    per_row: ClassVar[bool] = True

    @property
    def why_literal(self) -> str | None:
        """Why the term is not exact on a compact bag; None if it is."""
        return why_every_pair_in(self.conv) or why_every_pair(self.norm)

    def reads(self, h: Tensor, view: LayerView) -> Tensor:
        """What the convolution is applied to, from the rows h of a view."""
        raise NotImplementedError

    def arguments(self, bag: Bag, view: LayerView) -> tuple[Any, ...]:
        """The further arguments of the convolution: edges, features of edges, multiplicities."""
        raise NotImplementedError

    def __call__(self, x: Tensor, bag: Bag, view: LayerView, edge_features: Tensor | None = None) -> Tensor:
        """The output of the convolution on what it reads; `edge_features` is what its `encode_edges` gave, if known."""
        if isinstance(self.conv, MessagePassing):
            name = type(self.conv).__name__
            raise TypeError(
                f"Expected a convolution of esan in a layer (got PyG's {name}). Pass it when the network is built, "
                f"conv=lambda i, o: {name}(i, o), or wrap it: esan.nn.PyGConv({name.lower()}, out_channels, None, 0)."
            )
        return call_conv(self.conv, x, self.arguments, bag, view, edge_features)

    def edge_features(self, like: Tensor, bag: Bag, view: LayerView) -> Tensor:
        """The edge features that the convolution encodes, which depend on no row."""
        edges, edge_attr, *_ = self.arguments(bag, view)
        return self.conv.encode_edges(like, edges, edge_attr)

    def multiplicity(self, bag: Bag, view: LayerView) -> Tensor | None:  # noqa: ARG002
        """How often each row of its result counts in the norm; None for once."""
        return view.multiplicity


class Inside(Term):
    r"""Message passing inside each subgraph: :math:`L(A_i, h_i)`."""

    def reads(self, h: Tensor, view: LayerView) -> Tensor:  # noqa: ARG002
        return h

    def arguments(self, bag: Bag, view: LayerView) -> tuple[Any, ...]:
        return view.edges, bag.graphs.edge_attr, view.multiplicity


@dataclass(frozen=True, eq=False)
class Shared(Term):
    r"""One pass shared by all subgraphs: :math:`L(\operatorname{agg}_j A_j, \operatorname{agg}_j h_j)`.

    Attributes:
        pool: "sum", "mean" or "max" over the bag.
        adjacency: the aggregator of adjacency matrices, from `ADJACENCIES`.
    """

    pool: str
    adjacency: str
    per_row: ClassVar[bool] = False

    @property
    def why_literal(self) -> str | None:
        return "bag_pool='max' needs every pair" if self.pool == "max" else super().why_literal

    def reads(self, h: Tensor, view: LayerView) -> Tensor:
        return view.pool_bag(h, self.pool)

    def arguments(self, bag: Bag, view: LayerView) -> tuple[Any, ...]:  # noqa: ARG002
        return bag.shared.between_nodes(self.adjacency), bag.graphs.edge_attr, bag.node_multiplicity

    def multiplicity(self, bag: Bag, view: LayerView) -> Tensor | None:  # noqa: ARG002
        return bag.node_multiplicity


@dataclass(frozen=True, eq=False)
class SharedByOthers(Term):
    r"""The sum over the other subgraphs, inside each: :math:`L(\operatorname{agg}_j A_j, \sum_{j \ne i} h_j)`."""

    adjacency: str

    @property
    def why_literal(self) -> str | None:
        return "bag_pool='others' needs every pair"

    def reads(self, h: Tensor, view: LayerView) -> Tensor:
        return view.broadcast(view.pool_bag(h, "sum")) - h

    def arguments(self, bag: Bag, view: LayerView) -> tuple[Any, ...]:
        return bag.shared.between_rows(self.adjacency), bag.graphs.edge_attr, view.multiplicity
