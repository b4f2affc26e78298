"""`Found`: what a reader of a catalogued set hands back."""

from dataclasses import dataclass

from esan.data.dataset import Split
from esan.data.sets.from_arrays import Laid


@dataclass
class Found:
    """The arrays of a set, where they came from, and the split that came with them."""

    laid: Laid
    source: str
    given: Split | None = None
