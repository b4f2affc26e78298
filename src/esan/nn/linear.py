"""`Linear`: torch's linear layer, which may also be that of several networks at once."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from esan import kernels
from esan.kernels.gpu import WIDEST

#: Lines of a network that are few, and pieces of a matrix: of graphs, and of a head.
_FEW, _FEW_PIECES = 1024, 4


class Linear(nn.Linear):
    r""":math:`y = W x + b`.

    With a leading dimension in W and b, it is the layer of as many networks: the lines of x are theirs, one network's
    behind the other's, each with as many (see `esan.nn.stack`).
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.weight.dim() == 2:
            return super().forward(x)
        networks = self.weight.size(0)
        pieces = math.prod(-(-width // WIDEST) for width in self.weight.shape[1:])
        few = x.size(0) <= networks * _FEW and pieces <= _FEW_PIECES
        if kernels.on_gpu(x) and (few or pieces == 1):
            return self._in_pieces(x)
        lines, across = x.reshape(networks, -1, x.size(-1)), self.weight.transpose(1, 2)
        y = torch.bmm(lines, across) if self.bias is None else torch.baddbmm(self.bias[:, None], lines, across)
        return y.reshape(-1, y.size(2))

    def _in_pieces(self, x: Tensor) -> Tensor:
        """By the kernels, as many columns at once as they take.

        For few lines of a wide head too: a library's product would keep more memory for itself than the network takes,
        and may add up in another order for many networks than for one. A layer of many pieces would be many kernels.
        """
        from esan.kernels.gpu_blocks import Affine

        given, found = x.split(WIDEST, 1), []
        for matrix, bias in zip(self.weight.split(WIDEST, 1), self._biases(), strict=True):
            first, *others = zip(given, matrix.split(WIDEST, 2), strict=True)
            y = Affine.apply(*first, bias)
            for lines, piece in others:
                y = y + Affine.apply(lines, piece, None)
            found.append(y)
        return found[0] if len(found) == 1 else torch.cat(found, 1)

    def _biases(self) -> Sequence[Tensor | None]:
        """That of each piece of columns, if there are any."""
        pieces = -(-self.weight.size(1) // WIDEST)
        return [None] * pieces if self.bias is None else self.bias.split(WIDEST, 1)
