"""`Linear`: torch's linear layer, which may also be that of several networks at once."""

import torch
from torch import Tensor, nn

from esan import kernels


class Linear(nn.Linear):
    r""":math:`y = W x + b`.

    With a leading dimension in W and b, it is the layer of as many networks: the lines of x are theirs, one network's
    behind the other's, each with as many (see `esan.nn.stack`).
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.weight.dim() == 2:
            return super().forward(x)
        networks = self.weight.size(0)
        if self.bias is not None and max(self.weight.shape[1:]) <= 128 and kernels.on_gpu(x):
            from esan.kernels.gpu_blocks import Affine

            return Affine.apply(x, self.weight, self.bias)
        lines, across = x.reshape(networks, -1, x.size(-1)), self.weight.transpose(1, 2)
        y = torch.bmm(lines, across) if self.bias is None else torch.baddbmm(self.bias[:, None], lines, across)
        return y.reshape(-1, y.size(2))
