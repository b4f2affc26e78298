"""`Encoder`: a stack of equivariant layers, rows → rows."""

from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor, nn

from esan.bags import Bag, Stage
from esan.bags.coloured import ColouredStage
from esan.bags.padded import PaddedBag
from esan.nn import coloured, compiled, fused
from esan.nn.dropout import drop
from esan.nn.layer import DSLayer, DSSLayer
from esan.ops.triton.ahead import Ahead


@dataclass(frozen=True, eq=False)
class Encoded:
    """What a layer gave, and the stage whose rows it belongs to."""

    h: Tensor
    stage: Stage


@dataclass(frozen=True, eq=False)
class EncodedColours:
    """The same with a line a colour."""

    h: Tensor
    stage: ColouredStage


class Encoder(nn.Module):
    r""":math:`E_{\text{subgraphs}}`: layers one after another, each on the stage of the bag that it needs.

    Args:
        layers: DS or DSS layers; what they give is `Stage.settled`.
        dropout: on the rows, after each layer.
        dropout_on: what it is drawn for, from `DROPOUTS_ON`.
    """

    def __init__(self, layers: list[DSLayer] | list[DSSLayer], dropout: float = 0.0, dropout_on: str = "pairs") -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        #: Whether the rows of every layer are read, not those of the last alone.
        self.reads_all = False
        self.dropout, self.dropout_on = dropout, dropout_on
        self.lookahead = max(layer.inside.lookahead for layer in layers)
        self._why_literal = next((why for layer in layers if (why := layer.why_literal)), None)

    @property
    def why_literal(self) -> str | None:
        """Why the stack is not exact on a compact bag in its present mode; None if it is."""
        if self._why_literal:
            return self._why_literal
        if self.training and self.dropout > 0 and self.dropout_on == "pairs":
            return "dropout is drawn for every pair while training"
        return None

    def first_stage(self, bag: Bag) -> Stage:
        """The stage of the input: that of the first layer, so that no row has to be copied into it.

        A compiled layer reads rows from where they are, so that it takes the fewest.
        """
        return bag.stage(0 if compiled.reads_earlier(self.layers[0], bag) else 1 + self.lookahead)

    def filled(self, width: int, like: Tensor) -> int | None:
        """The width that rows of this width are filled up to for the first layer; None if it takes them as they are."""
        return fused.filled(width) if fused.fits(self.layers[0], like) else None  # type: ignore[arg-type]

    def real_only(self, like: Tensor) -> bool:
        """Whether kernels do all that the layers do with rows, so that filler need not be written."""
        return all(fused.fits(layer, like) for layer in self.layers)  # type: ignore[arg-type]

    def forward(self, h: Tensor, bag: Bag) -> list[Encoded]:
        """What each layer gave, first to last."""
        given = []
        for t, layer in enumerate(self.layers, start=1):
            stage = bag.stage(t + self.lookahead)
            h = self._dropped(layer(h, bag, stage), bag, stage, t)
            if self.reads_all:
                Ahead.forget(h)
            given.append(Encoded(h, stage))
        return given

    def on_colours(self, h: Tensor, bag: Bag, stages: list[ColouredStage]) -> list[EncodedColours]:
        """`forward` with a line a colour; `stages` are those of the input and of each layer."""
        given = []
        for layer, (before, stage) in zip(self.layers, pairwise(stages), strict=True):
            h = coloured.layer(layer, h, bag, before, stage)  # type: ignore[arg-type]
            given.append(EncodedColours(h, stage))
        return given

    def _dropped(self, h: Tensor, bag: Bag, stage: Stage, t: int) -> Tensor:
        """The rows of layer t after dropout, which a batch of several networks draws for each by its own seed."""
        seeds = bag.seeds if isinstance(bag, PaddedBag) else None
        if seeds is None or not self.dropout or not self.training:
            return drop(h, stage, self.dropout, self.training, self.dropout_on)
        from esan.ops.triton.dropout import Dropout

        return Dropout.apply(h, self.dropout, seeds, t, stage.real)
