"""What the sums of a stage gather on a GPU: the rows behind each row that is lifted, and what subgraphs differ by."""

from dataclasses import dataclass

from torch import Tensor

from esan.kernels.real import Real


@dataclass(frozen=True, eq=False)
class Lifted:
    """Where the rows of a stage come from in an earlier one, and the rows that came to each background row.

    Attributes:
        index: the earlier row of each row.
        order: rows, node by node.
        first: where the added rows of each node begin in `order`.
        count: how many they are.
        networks: how many networks the rows are of, one after another.
        real: which rows are not filler; None if all are, or filler is read too.
    """

    index: Tensor
    order: Tensor
    first: Tensor
    count: Tensor
    networks: int = 1
    real: Real | None = None


@dataclass(frozen=True, eq=False)
class Differences:
    """For each subgraph the rows that it stores, each followed by the background row of the same node.

    Attributes:
        rows: row, background row, row, background row, …
        sign: 1, −1, 1, −1, …
        first: where those of each subgraph begin.
        count: how many they are; None for all up to the next subgraph.
    """

    rows: Tensor
    sign: Tensor
    first: Tensor
    count: Tensor | None
