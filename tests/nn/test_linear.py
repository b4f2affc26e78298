"""Linear layers by a library's products, of several networks at once, and rounded."""

from typing import Any

import pytest
import torch

import esan
from esan.nn.execution.stack_parameters import kind_of
from esan.nn.linear import Linear
from esan.ops.linear import _Products


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("tf32", [True, False])
def test_products_and_their_gradients(bias: bool, tf32: bool) -> None:
    draw = torch.Generator().manual_seed(0)
    x, weight, added = (
        torch.randn(*shape, dtype=torch.double, generator=draw).requires_grad_()
        for shape in ((2, 5, 3), (2, 4, 3), (2, 4))
    )
    given = (x, weight, added if bias else None, tf32)
    expected = torch.einsum("sni,soi->sno", x, weight) + (added[:, None] if bias else 0)
    torch.testing.assert_close(_Products.apply(*given), expected)
    wanted = (x, weight, added) if bias else (x, weight)
    assert torch.autograd.gradcheck(lambda x, w, b=None: _Products.apply(x, w, b, tf32), wanted)
    # A matrix that is not trained, and lines that nobody differentiates.
    (grad,) = torch.autograd.grad(_Products.apply(x.detach(), weight.detach(), added, tf32).sum(), added)
    torch.testing.assert_close(grad, torch.full_like(added, 5))


@pytest.mark.parametrize("outside", [True, False])
def test_products_under_autocast(outside: bool) -> None:
    x, weight = torch.randn(2, 5, 3, requires_grad=True), torch.randn(2, 4, 3, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        y = _Products.apply(x, weight, None, True)
        assert y.dtype == torch.bfloat16
        if not outside:
            y.float().sum().backward()
    if outside:
        y.float().sum().backward()
    for tensor, expected in (
        (x, weight.sum(1, keepdim=True).expand_as(x)),
        (weight, x.sum(1, keepdim=True).expand_as(weight)),
    ):
        assert tensor.grad is not None
        torch.testing.assert_close(tensor.grad, expected.detach(), rtol=0, atol=0.1)


def test_a_setting_of_all_of_torch_still_reaches_products_after_some_were_rounded() -> None:
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("an older torch has no such switch")
    everything: Any = torch.backends
    first = everything.fp32_precision
    try:
        everything.fp32_precision = "ieee"
        _Products.apply(torch.randn(1, 4, 3), torch.randn(1, 2, 3), None, True)
        everything.fp32_precision = "tf32"
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    finally:
        everything.fp32_precision = first


#: Where torch keeps how products round, for all, on a CPU, and on a GPU.
SWITCHES: tuple[Any, ...] = (torch.backends, torch.backends.mkldnn, torch.backends.cuda.matmul)


@pytest.mark.skipif(
    not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="an older torch has no such switch"
)
@pytest.mark.parametrize("own", ["none", "ieee", "tf32"])
def test_rounding_ends_with_the_product(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user has set for all of torch is as it was, also where a product fails."""
    seen = []
    bmm, matmul = torch.bmm, torch.backends.cuda.matmul

    def noted(*factors: torch.Tensor) -> torch.Tensor:
        seen.append(matmul.fp32_precision)
        return bmm(*factors)

    monkeypatch.setattr(torch, "bmm", noted)
    first = matmul.fp32_precision
    try:
        matmul.fp32_precision = own
        before = [of.fp32_precision for of in SWITCHES]
        x, weight = torch.randn(1, 4, 3, requires_grad=True), torch.randn(1, 2, 3, requires_grad=True)
        for tf32, during in ((True, "tf32"), (False, before[-1])):
            seen.clear()
            _Products.apply(x, weight, None, tf32).sum().backward()
            assert seen == [during] * 3
            with pytest.raises(RuntimeError):
                _Products.apply(x, weight[:, :, :2], None, tf32)
            assert [of.fp32_precision for of in SWITCHES] == before
    finally:
        matmul.fp32_precision = first


def test_rounded_layers_differ_from_others_in_kind_alone() -> None:
    """On a CPU nothing is rounded; networks that round belong to another ensemble."""
    torch.manual_seed(0)
    network = esan.ds_gnn(None, 200, 1, 2)
    bag = esan.Bag.of([esan.graphs.cycle(4)], esan.NodeDeletion(), 1)
    before, kind = network.eval()(bag), kind_of(network)
    for layer in network.modules():
        if isinstance(layer, Linear):
            layer.tf32 = True
    assert torch.equal(network(bag), before)
    assert kind_of(network) != kind
    assert "tf32=True" in repr(network)
