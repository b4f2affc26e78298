"""`Real`: where the lines of a padded batch lie that are not filler."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Real:
    """Lines slot by slot, in each slot real ones before filler, which batches of one shape have more or less of.

    Kernels that are given it neither read nor write filler: it costs no time, and holds whatever its memory held.

    Attributes:
        ranges: where the real lines of each slot begin and end among the lines of its network, `[S · slots · 2]`.
        room: the lines of each slot, filler included.
    """

    ranges: Tensor
    room: tuple[int, ...]

    @property
    def networks(self) -> int:
        return self.ranges.numel() // (2 * len(self.room))

    @staticmethod
    def given(real: "Real | None", other: Tensor) -> tuple[Tensor, int]:
        """What a kernel takes: the ranges, and how many slots there are; anything, and 0, where all lines are real."""
        return (other, 0) if real is None else (real.ranges, len(real.room))
