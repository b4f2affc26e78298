"""The kinds of node and edge features: numbers, categories, one-hot, or none."""

from dataclasses import dataclass
from typing import Any

from esan.checks import whole_number


class Categories:
    """Features that are category numbers: each column has an embedding, and the embeddings of all columns are summed.

    Args:
        sizes: how many categories each column has; `Categories(28)` for one column of 28.
    """

    def __init__(self, *sizes: int) -> None:
        if not sizes:
            raise ValueError("Expected the number of categories of each column (got none). Pass e.g. Categories(28).")
        remedy = "Pass the categories of each column, e.g. Categories(28) or Categories(3, 4)."
        self.sizes = tuple(whole_number("a size of Categories", size, 1, remedy) for size in sizes)

    def __repr__(self) -> str:
        return f"Categories({', '.join(map(str, self.sizes))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Categories) and self.sizes == other.sizes

    def __hash__(self) -> int:
        return hash((Categories, self.sizes))


@dataclass(frozen=True)
class OneHot:
    """A feature that is one category number, passed to the network as a one-hot vector."""

    size: int

    def __post_init__(self) -> None:
        whole_number("the size of OneHot", self.size, 1, "Pass the number of categories, e.g. OneHot(5).")

    def __repr__(self) -> str:
        return f"OneHot({self.size})"


#: OGB's nine atom features and three bond features.
ATOMS = Categories(119, 5, 12, 12, 10, 6, 6, 2, 2)
BONDS = Categories(5, 6, 2)

#: 7 means seven numbers per node or edge, None or 0 no features.
Channels = int | Categories | OneHot | None


def check_channels(name: str, value: Any) -> None:
    """An error that calls `value` by `name`, unless it says what features hold."""
    number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if value is not None and not number and not isinstance(value, Categories | OneHot):
        raise ValueError(
            f"Expected {name} to be a number of features, Categories, OneHot or None (got {value!r}). "
            "7 means seven numbers per node or edge."
        )
