"""What the checks of interpreted kernels share: when two results count as equal, and how gradients are compared."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from esan.bags.padded import plan

#: The kernels are chosen when they are imported: the variable must be there before.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
ONLY_INTERPRETED = pytest.mark.skipif(
    not INTERPRETED, reason="run by test_triton_interpreted.py, with TRITON_INTERPRET=1"
)
ONE_OR_THREE = pytest.mark.parametrize("networks", [pytest.param(1, marks=pytest.mark.exhaustive), 3])
WEIGHTED = pytest.mark.parametrize("weighted", [pytest.param(False, marks=pytest.mark.exhaustive), True])

Compute = Callable[..., Tensor | Sequence[Tensor]]


def use_reference_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lay batches out by the kernel's reference implementation: interpreted, the kernel takes half of the time."""
    monkeypatch.setattr(plan, "implementation", lambda family, *tensors: None)


def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let memory hold NaN until it is written to, so that whoever reads what nobody wrote shows it."""

    def poisoned(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def made(*arguments: Any, **choices: Any) -> Tensor:
            tensor = make(*arguments, **choices)
            return tensor.fill_(torch.nan) if tensor.is_floating_point() else tensor

        return made

    for place, name in ((torch, "empty"), (torch, "empty_like"), (Tensor, "new_empty")):
        monkeypatch.setattr(place, name, poisoned(getattr(place, name)))


def close(
    got: Tensor | None, expected: Tensor | None, what: str = "", *, scale: float = 1.0, tolerance: float = 2e-5
) -> None:
    """Single precision against double: a difference of rounding, measured against the largest number and `scale`."""
    assert (got is None) == (expected is None), what
    if got is None or expected is None:
        return
    size = max(scale, float(expected.abs().max())) if expected.numel() else scale
    torch.testing.assert_close(
        got.double(), expected.double(), rtol=0, atol=tolerance * size, msg=lambda text: f"{what}: {text}"
    )


def agree(kernel: Compute, plain: Compute, *inputs: Tensor) -> None:
    """The kernel in single precision against plain torch in double: results, and the gradient of every input."""
    found = []
    for compute, kind in ((kernel, torch.float32), (plain, torch.float64)):
        leaves = [x.detach().to(kind).requires_grad_() for x in inputs]
        results = compute(*leaves)
        results = [results] if isinstance(results, Tensor) else [*results]
        torch.manual_seed(1)
        noise = [torch.randn(y.shape, dtype=torch.float64) for y in results]
        torch.stack([(y * n.to(kind)).sum() for y, n in zip(results, noise, strict=True)]).sum().backward()
        found.append(([y.detach() for y in results], [x.grad for x in leaves]))
    for place, (ours, theirs) in enumerate(zip(found[0][0], found[1][0], strict=True)):
        close(ours, theirs, f"result {place}")
    largest = largest_of(found[1][1])
    for place, (mine, other) in enumerate(zip(found[0][1], found[1][1], strict=True)):
        close(mine, other, f"gradient of input {place}", scale=largest)


def largest_of(gradients: Iterable[Tensor | None]) -> float:
    """The scale of gradients: those that vanish are sums of large terms which cancel."""
    return max([1.0, *(float(grad.abs().max()) for grad in gradients if grad is not None)])
