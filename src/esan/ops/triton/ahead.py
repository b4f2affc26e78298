"""`Ahead`: what the end of a layer lets the next one know, so that the gradient between them is passed over once."""

from dataclasses import dataclass

from torch import Tensor

_NAME = "_esan_ahead"


@dataclass(frozen=True, eq=False)
class Normed:
    """What rows are the normalised lines of, under a ReLU: the lines, and their `Moments.mean` and `.inverse`."""

    lines: Tensor
    mean: Tensor
    inverse: Tensor


class Ahead:
    """What rows are the ReLU of, for the layer that reads them.

    That layer finds the gradient of the rows; it takes it through the ReLU on the way, with the sums over it that the
    norm's gradient needs, and leaves both here. Where the rows have other uses too, autograd adds their gradients to
    another tensor, and what was left is not used. Gradients of parameters are what they would be otherwise; that of
    the rows themselves is 0 where the ReLU gave 0, so that only batches of teams, which nobody looks into, use this.
    """

    def __init__(self) -> None:
        self.normed: Normed | None = None
        self._left: tuple[Tensor, Tensor] | None = None

    def leave(self, grad: Tensor, sums: Tensor) -> None:
        """The gradient as it is given on, and its sums."""
        self._left = grad, sums

    def found(self, grad: Tensor) -> Tensor | None:
        """The sums, if this is the gradient that they are of."""
        left, self._left = self._left, None
        return left[1] if left is not None and left[0] is grad else None

    def attach(self, rows: Tensor) -> Tensor:
        """The rows, for which `of` will give this."""
        setattr(rows, _NAME, self)
        return rows

    @staticmethod
    def of(rows: Tensor) -> "Ahead | None":
        """What is known of these rows."""
        return getattr(rows, _NAME, None)

    @staticmethod
    def forget(rows: Tensor) -> None:
        """Say that the next layer is not alone in reading these rows: it need not prepare their gradient."""
        rows.__dict__.pop(_NAME, None)
