"""`CodedLines`: lines of edge features that are few, and which of them each arc has."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class CodedLines:
    """Features of arcs where few lines differ (a bond has a handful of kinds): each line once, and a number an arc.

    Attributes:
        table: the lines, `[K, d]`.
        code: the line of each arc of the graph, `[A]`.
    """

    table: Tensor
    code: Tensor

    def spread(self) -> Tensor:
        """A line an arc of the graph, `[A, d]`."""
        return self.table.index_select(0, self.code)
