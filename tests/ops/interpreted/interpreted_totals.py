"""Interpreted: totals over tiles."""

import pytest
import torch

from esan.ops.triton.kernels.tiles import total, total_pair, totals, two_totals
from interpreting import ONLY_INTERPRETED, close

pytestmark = ONLY_INTERPRETED


def test_totals_over_tiles() -> None:
    # More tiles than are added up at once, and columns of up to four sums, some of them empty.
    part = torch.randn(2, 530, 20)
    expected = part.double().sum(1)
    close(total(part), expected)
    close(total_pair(part), torch.stack(expected.split(10, 1)))
    for sizes in ([10, 7, 3], [9, 0, 5, 6], [0, 0, 8, 12]):
        close(totals(part, *sizes), torch.cat([chunk.reshape(-1) for chunk in expected.split(sizes, 1)]))
    wide = torch.randn(1, 3, 1050)
    close(total(wide), wide.double().sum(1))


@pytest.mark.parametrize("size", [20, pytest.param(3000, marks=pytest.mark.exhaustive)])
def test_two_totals_at_once(size: int) -> None:
    """Each to the bit as alone, where one is wide, or long, and the other is not."""
    part, pair = torch.randn(3, 5, size + 7), torch.randn(3, 700, 12)
    first, second = two_totals(part, size, pair)
    assert torch.equal(first, totals(part, size, 7))
    assert torch.equal(second, total_pair(pair))
