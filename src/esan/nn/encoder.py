"""`Encoder`: a stack of equivariant layers, rows → rows."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from esan.bags import Bag, LayerView
from esan.bags.dedup import DedupLayerView
from esan.nn.convs.paper_convs import declared_lookahead, unknown_why
from esan.nn.dropout import drop
from esan.nn.execution.capabilities import stackable
from esan.nn.layer import DSLayer, DSSLayer, Layer
from esan.ops.dispatch import is_plain, never_compiled
from esan.ops.gin import aligned_width, without_fused_gradient


@dataclass(frozen=True, eq=False)
class Encoded:
    """The rows that a layer computed, and the view that they belong to.

    Attributes:
        h: the rows.
        view: the view that they belong to.
        width: how many columns count, where zeros pad the rest; None for all.
    """

    h: Tensor
    view: Any
    width: int | None = None


@stackable
class Encoder(nn.Module):
    r""":math:`E_{\text{subgraphs}}`: layers one after another, each on the view of the bag that it needs.

    Args:
        layers: DS or DSS layers; their results are 0 in rows of multiplicity 0.
        dropout: on the rows, after each layer.
        dropout_on: what it is drawn for, from `DROPOUTS_ON`.
    """

    def __init__(self, layers: list[DSLayer] | list[DSSLayer], dropout: float = 0.0, dropout_on: str = "pairs") -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        #: Whether the rows of every layer are read, not those of the last alone.
        self.reads_all = False
        #: How many layers earlier than usual the input shows a change: 1 if degrees in the subgraph are among it.
        self.input_lookahead = 0
        self.dropout, self.dropout_on = dropout, dropout_on

    @property
    def lookahead(self) -> int:
        """How many hops earlier than usual the input or some convolution sees a change of the graph."""
        convs = (declared_lookahead(getattr(layer, "inside", layer)) for layer in self.layers)
        return max(self.input_lookahead, *convs)

    @property
    def why_literal(self) -> str | None:
        """Why the stack is not exact on a compact bag in its present mode; None if it is."""
        for layer in self.layers:
            why: Any = (
                layer.why_literal if isinstance(layer, Layer) else getattr(layer, "why_literal", unknown_why(layer))
            )
            if why:
                return why
        if self.training and self.dropout > 0 and self.dropout_on == "pairs":
            return "dropout is drawn for every pair while training"
        return None

    def fused_by(self, like: Tensor, bag: Bag) -> list[Any]:
        """The module that computes each layer as one operator on rows like these; None where its modules are called."""
        lookahead = self.lookahead
        return [
            _fused_by(layer, like, bag, bag.layer_view(t + lookahead)) for t, layer in enumerate(self.layers, start=1)
        ]

    def input(self, bag: Bag, like: Tensor, width: int) -> tuple[LayerView, int]:
        """The view whose rows the first layer takes as input, and their width, padded with zeros."""
        view, layer = bag.layer_view(1 + self.lookahead), self.layers[0]
        fast = _fused_by(layer, like, bag, view)
        # The view of the first layer, so that no row has to be copied; an operator that expands rows itself takes the
        # fewest.
        earlier = getattr(fast, "READS_EARLIER_ROWS", False)
        return bag.layer_view(self.input_lookahead) if earlier else view, aligned_width(fast, width)

    @never_compiled
    def forward(self, h: Tensor, bag: Bag) -> list[Encoded]:
        """The results of all layers, first to last."""
        results, lookahead = [], self.lookahead
        for t, layer in enumerate(self.layers, start=1):
            view = bag.layer_view(t + lookahead)
            h = _checked(layer(h, bag, view), view, t)
            h = drop(h, view, self.dropout, self.training, self.dropout_on, bag.seeds, t)
            results.append(Encoded(without_fused_gradient(h) if self.reads_all else h, view))
        return results

    def on_representatives(self, h: Tensor, bag: Bag, views: list[DedupLayerView]) -> list[Encoded]:
        """`forward` with one row per representative; `views` are those of the input and of each layer."""
        results = []
        for layer, view in zip(self.layers, views[1:], strict=True):
            h = layer.on_representatives(h, bag, view)  # type: ignore[operator]
            results.append(Encoded(h, view))
        return results


def _checked(h: Any, view: LayerView, number: int) -> Tensor:
    """What a layer, or a hook on it, gave: a matrix with the rows of its view."""
    if not isinstance(h, Tensor) or h.dim() != 2 or h.size(0) != view.num_rows:
        got = f"a tensor of shape {[*h.shape]}" if isinstance(h, Tensor) else type(h).__name__
        raise ValueError(
            f"Expected layer {number} to give {view.num_rows:,} rows, those of its view (got {got}). A layer may read "
            "fewer rows than it gives: begin with h = view.expand(h). Hooks must keep the number of rows."
        )
    return h


def _fused_by(layer: Any, like: Tensor, bag: Bag, view: LayerView) -> Any:
    """The module that computes a layer as one operator; None where its modules are called, or hooks read its rows."""
    plain = is_plain(layer, DSLayer) or is_plain(layer, DSSLayer)
    return layer.fused_by(like, bag, view) if plain else None
