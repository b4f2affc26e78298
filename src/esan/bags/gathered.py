"""What the sums of a stage gather on a GPU: the rows that are lifted, and what subgraphs differ by."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from esan.bags.sums import Grouping


@dataclass(frozen=True, eq=False)
class Lifted:
    """Rows of a stage of which the first, in each network, are those of an earlier one.

    Attributes:
        by_node: the rows by their node.
        earlier: rows of the earlier stage, of one network.
        nodes: nodes of one network; its first rows are their background.
        networks: how many networks the rows are of, one after another.
    """

    by_node: "Grouping"
    earlier: int
    nodes: int
    networks: int = 1


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
