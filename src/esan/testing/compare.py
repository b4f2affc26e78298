"""`check_close`: compares two tensors with tolerances by dtype; the error says where they differ."""

import torch
from torch import Tensor

#: The largest difference, over the larger of 1 and the largest number there, that rounding is allowed.
TOLERANCES = {torch.float64: 1e-8, torch.float32: 2e-3, torch.float16: 5e-2, torch.bfloat16: 1e-1}


def check_close(
    got: Tensor, expected: Tensor, what: str, *, scale: float = 1.0, tolerance: float | None = None
) -> None:
    r"""Raise an `AssertionError` unless :math:`|g - e| \le \text{tolerance} \cdot \max(\text{scale}, |e|_\infty)`.

    Args:
        got: what was computed.
        expected: what it should be.
        what: named in the error.
        scale: the least size that differences are measured against.
        tolerance: None for that of the dtype.
    """
    got, expected = got.detach(), expected.detach()
    if got.shape != expected.shape:
        raise AssertionError(f"Expected {what} of shape {tuple(expected.shape)} (got {tuple(got.shape)}).")
    if not expected.numel():
        return
    if not expected.is_floating_point():
        if not torch.equal(got, expected):
            raise AssertionError(f"Expected {what} equal to {expected.tolist()} (got {got.tolist()}).")
        return
    allowed = tolerance if tolerance is not None else TOLERANCES[expected.dtype]
    size = max(scale, float(expected.abs().max()))
    # `not <=` rather than `>`: a NaN is a difference too.
    if not bool(((got - expected).abs() <= allowed * size).all()):
        worst = (got - expected).abs().nan_to_num(nan=torch.inf).reshape(-1)
        place = int(worst.argmax())
        raise AssertionError(
            f"Expected {what} to agree within {allowed:g} of {size:g} (got a difference of {float(worst[place]):g}: "
            f"{float(got.reshape(-1)[place]):g} in place of {float(expected.reshape(-1)[place]):g})."
            + (" Rounding may do that in single precision: call .double()." if got.dtype == torch.float32 else "")
        )
