"""`FusedGradient`: lets a layer compute the gradient through the ReLU and norm before it in one pass with its own."""

from dataclasses import dataclass

from torch import Tensor

_NAME = "_esan_fused_gradient"


@dataclass(frozen=True, eq=False)
class NormInput:
    """The rows that went into the norm before a ReLU, and the `Moments.mean` and `.inverse` of that norm."""

    rows: Tensor
    mean: Tensor
    inverse: Tensor


class FusedGradient:
    """Attached to the output rows of a ReLU, for the layer that reads them.

    That layer computes the gradient of the rows; on the way it takes it through the ReLU, sums what the norm's gradient
    needs, and stores both here. Where the rows are read elsewhere too, autograd adds their gradients into another
    tensor, and what was stored is not used. Gradients of parameters are unchanged; the gradient of the rows themselves
    is 0 where the ReLU gave 0, so that only padded batches, whose rows no user reads, use this.
    """

    def __init__(self) -> None:
        self.input: NormInput | None = None
        self._stored: tuple[Tensor, Tensor] | None = None

    def store(self, grad: Tensor, sums: Tensor) -> None:
        """Store the gradient that is passed on, and its sums."""
        self._stored = grad, sums

    def take(self, grad: Tensor) -> Tensor | None:
        """The stored sums, if they are those of this gradient."""
        stored, self._stored = self._stored, None
        return stored[1] if stored is not None and stored[0] is grad else None

    def attach(self, rows: Tensor) -> Tensor:
        """The rows, for which `of` returns this."""
        setattr(rows, _NAME, self)
        return rows

    @staticmethod
    def of(rows: Tensor) -> "FusedGradient | None":
        """What was attached to these rows."""
        return getattr(rows, _NAME, None)
