"""Indices of graphs, as in `bag[...]` and `graphs[...]`: numbers, slices, lists, tensors or masks."""

from collections.abc import Sequence

import torch
from torch import Tensor

from esan.checks import shown

Ids = int | slice | Sequence[int] | Tensor


def graph_ids(ids: Ids, count: int, device: torch.device, of: str) -> Tensor:
    """The indices as a tensor of numbers from 0 to count - 1, at least one; `of` names what is indexed, for errors."""
    try:
        if isinstance(ids, slice):
            ids = range(*ids.indices(count))
        chosen = torch.as_tensor([ids] if isinstance(ids, int) and not isinstance(ids, bool) else ids, device=device)
        if chosen.device.type == "meta" or chosen.layout != torch.strided:
            chosen = torch.empty(0, 0)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        chosen = torch.empty(0, 0)
    if chosen.dtype == torch.bool and chosen.shape == (count,):
        chosen = chosen.nonzero().squeeze(1)
    # An empty list is floats to torch; the next error is the right one for it.
    elif chosen.shape != (0,) and (chosen.dtype not in (torch.int64, torch.int32) or chosen.dim() > 1):
        raise TypeError(
            f"Expected a number, a slice, a list of numbers or {count} truth values (got {shown(ids)}). "
            "Number graphs from 0, as they come."
        )
    chosen = chosen.long().reshape(-1)
    if chosen.numel() == 0 or bool(((chosen < -count) | (chosen >= count)).any()):
        raise IndexError(
            f"Expected numbers of graphs below {count}, at least one (got {chosen.tolist()[:5]}). "
            f"len({of}) says how many graphs there are."
        )
    return torch.where(chosen < 0, chosen + count, chosen)
