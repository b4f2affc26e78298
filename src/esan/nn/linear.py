"""`Linear`: torch's linear layer, which may also be that of several networks at once."""

from torch import Tensor, nn

from esan.nn.execution.capabilities import stackable
from esan.ops.dispatch import MAX_WIDTH
from esan.ops.linear import linear


def exceeds_kernel_width(network: nn.Module) -> bool:
    """Whether some layer is wider than the kernels take, so that a library does its products on a GPU."""
    layers = (module for module in network.modules() if isinstance(module, Linear))
    return any(max(layer.in_features, layer.out_features) > MAX_WIDTH for layer in layers)


@stackable
class Linear(nn.Linear):
    r""":math:`y = W x + b`.

    With a leading dimension in W and b, it is the layer of as many networks: the rows of x are theirs, one network's
    after the other's, each with as many (see `esan.Ensemble`).

    Attributes:
        tf32: whether products of layers wider than the kernels take round their factors to TF32 (10 bits behind the
            point) on a GPU; how much faster that is: benchmarks/figures/wide.md.
    """

    tf32 = False

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias, self.tf32)

    def extra_repr(self) -> str:
        return super().extra_repr() + (", tf32=True" if self.tf32 else "")
