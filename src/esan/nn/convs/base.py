"""The paper's base graph encoders (GIN, GINE, GraphConv, GCN), as layers that send messages along arcs."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from esan.bags import Arcs
from esan.graphs.channels import Channels
from esan.nn.execution.replay import conv_part
from esan.nn.execution.supported import capturable, stackable
from esan.nn.features import LineEncoder, encoder
from esan.nn.linear import Linear
from esan.nn.norm import BatchNorm, on_rows, why_every_pair
from esan.ops.dispatch import is_plain
from esan.ops.edges import Coded, message_sum
from esan.ops.features import few_values


class Conv(nn.Module):
    """A message-passing layer that reads its own row, the rows its arcs come from, and their edge features.

    Such a layer gives the literal bag's answer on a compact bag. One that also reads the degree of the rows that
    messages come from sees a change one hop earlier and says so with `lookahead = 1`.
    """

    lookahead: int = 0
    #: Why the layer is not exact on a compact bag; None if it is.
    why_literal: str | None = None
    #: Whether messages are multiplied by `arcs.weight`, the user's `edge_weight`; else graphs that have it are refused.
    takes_edge_weight: bool = False

    def forward(self, x: Tensor, arcs: Arcs, edge_attr: Tensor | None, weight: Tensor | None) -> Tensor:
        """One step.

        Args:
            x: `[rows, in]`.
            arcs: where messages go.
            edge_attr: features of the arcs of the graph; an arc between rows finds its line with `arcs.arc`.
            weight: how many pairs each row stands for, for norms inside the layer; None for 1.
        """
        return conv_part(self, x, arcs, edge_attr, weight)

    def compute(self, x: Tensor, arcs: Arcs, edge_attr: Tensor | None, weight: Tensor | None) -> Tensor:
        """What `forward` gives, of the same arguments."""
        raise NotImplementedError


@stackable
class WeightedMLP(nn.Module):
    """Linear, norm, ReLU, Linear: the MLP of GIN, its norm weighted as every norm over rows."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first = Linear(in_channels, hidden_channels)
        self.norm = BatchNorm(hidden_channels)
        self.second = Linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, weight: Tensor | None) -> Tensor:
        x = self.first(x)
        if is_plain(self.norm, BatchNorm):
            return self.second(self.norm(x, weight, relu=True))
        return self.second(F.relu(on_rows(self.norm, x, weight)))


def unknown_why(module: nn.Module) -> str:
    """Why a module that does not say whether it is exact on a compact bag gets a literal one: nothing is guessed."""
    name = type(module).__name__
    return f"{name} does not say whether it is exact on a compact bag (if it is, say why_literal = None in it)"


def why_every_pair_in(conv: Any) -> str | None:
    """Why a convolution must be given every pair as a row of its own, from the modules that it has now."""
    mlp = getattr(conv, "mlp", None)
    parts = [mlp.norm, mlp] if isinstance(mlp, WeightedMLP) else [mlp] if isinstance(mlp, nn.Module) else []
    why = getattr(conv, "why_literal", unknown_why(conv))
    return why or next((why for part in parts if (why := why_every_pair(part))), None)


def _epsilon(conv: Conv, trained: bool) -> Tensor:
    """ε of GIN: a parameter if it is learned, else a constant; the same name in the state_dict either way."""
    if trained:
        return nn.Parameter(torch.zeros(1))
    conv.register_buffer("eps", torch.zeros(1))
    return conv.eps  # type: ignore[return-value]


@stackable
class GIN(Conv):
    r""":math:`h'_v = \mathrm{MLP}\big((1 + \epsilon)\, h_v + \sum_{u \sim v} h_u\big)`.

    Args:
        in_channels: width of the rows.
        out_channels: width of the result.
        train_eps: whether ε is learned; the paper fixes it at 0 on TU, EXP, CEXP and CSL.
    """

    def __init__(self, in_channels: int, out_channels: int, train_eps: bool = False) -> None:
        super().__init__()
        self.mlp = WeightedMLP(in_channels, out_channels, out_channels)
        self.eps = _epsilon(self, train_eps)

    def aggregate(self, x: Tensor, arcs: Arcs, edge_attr: Tensor | None) -> Tensor:  # noqa: ARG002
        """What the MLP is applied to."""
        return message_sum(x, arcs, own=1 + self.eps)

    def compute(self, x: Tensor, arcs: Arcs, edge_attr: Tensor | None, weight: Tensor | None) -> Tensor:
        return on_rows(self.mlp, self.aggregate(x, arcs, edge_attr), weight)


@stackable
class GINE(Conv):
    r""":math:`h'_v = \mathrm{MLP}\big((1 + \epsilon)\, h_v + \sum_{u \sim v} \mathrm{ReLU}(h_u + e_{uv})\big)`.

    Args:
        in_channels: width of the rows.
        out_channels: width of the result.
        edge_channels: what `edge_attr` holds; each layer has an encoder of its own.
        expansion: hidden width of the MLP over `out_channels`: 1 on ZINC, 2 on OGB.
        train_eps: whether ε is learned.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        edge_channels: Channels,
        expansion: int = 1,
        train_eps: bool = True,
    ) -> None:
        super().__init__()
        self.edges = EdgeFeatures(edge_channels, in_channels)
        self.mlp = WeightedMLP(in_channels, expansion * out_channels, out_channels)
        self.eps = _epsilon(self, train_eps)

    def aggregate(self, x: Tensor, arcs: Arcs, edge_attr: Tensor | None) -> Tensor:
        """What the MLP is applied to."""
        return message_sum(x, arcs, EdgeFeatures.for_messages(self.edges, edge_attr, x), 1 + self.eps)

    def compute(self, x: Tensor, arcs: Arcs, edge_attr: Tensor | None, weight: Tensor | None) -> Tensor:
        return on_rows(self.mlp, self.aggregate(x, arcs, edge_attr), weight)


@stackable
class GraphConv(Conv):
    r""":math:`h'_v = W_1 h_v + W_2 \sum_{u \sim v} w_{uv} h_u + b`, with w the `edge_weight`, 1 if there is none."""

    takes_edge_weight = True

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin_rel = Linear(in_channels, out_channels)
        self.lin_root = Linear(in_channels, out_channels, bias=False)

    def compute(self, x: Tensor, arcs: Arcs, edge_attr: Tensor | None, weight: Tensor | None) -> Tensor:  # noqa: ARG002
        return self.lin_rel(message_sum(x, arcs)) + self.lin_root(x)


@capturable
class GCN(Conv):
    r""":math:`h'_v = \sum_{u \in N(v) \cup \{v\}} \frac{w_{uv} W h_u}{\sqrt{\hat d_u \hat d_v}} + b`, with
    :math:`\hat d_v = \sum_u w_{uv}` in the graph with a self-loop at every node, and w the `edge_weight`, 1 if there is
    none (and for self-loops that are added).
    """

    lookahead = 1
    takes_edge_weight = True

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def compute(self, x: Tensor, arcs: Arcs, edge_attr: Tensor | None, weight: Tensor | None) -> Tensor:  # noqa: ARG002
        x = self.lin(x)
        source, target = arcs.edge_index
        strength = torch.ones_like(source) if arcs.weight is None else arcs.weight
        # A self-loop that is there already is not added again; one of weight 0 is not there.
        loops = ((source == target) & (strength != 0)).to(x.dtype)
        none = torch.zeros(arcs.num_rows, dtype=x.dtype, device=x.device)
        missing = (none.index_add(0, target, loops) == 0).to(x.dtype)
        degree = missing.index_add(0, target, strength.to(x.dtype))
        root = degree.rsqrt().masked_fill(degree == 0, 0)
        around = message_sum(x, arcs, weight=root[source] * strength * root[target])
        return around + (missing * root * root)[:, None] * x + self.bias


@capturable
class BondGCN(Conv):
    r"""GCN as OGB has it: :math:`h'_v = \sum_{u \sim v} \frac{\mathrm{ReLU}(W h_u + e_{uv})}{\sqrt{d_u d_v}} +
    \frac{\mathrm{ReLU}(W h_v + r)}{d_v}`, with :math:`d` one more than the degree and r a learned root embedding.
    """

    lookahead = 1

    def __init__(self, in_channels: int, out_channels: int, edge_channels: Channels) -> None:
        super().__init__()
        self.lin = Linear(in_channels, out_channels)
        self.edges = EdgeFeatures(edge_channels, out_channels)
        self.root = nn.Parameter(torch.randn(1, out_channels))

    def compute(self, x: Tensor, arcs: Arcs, edge_attr: Tensor | None, weight: Tensor | None) -> Tensor:  # noqa: ARG002
        x = self.lin(x)
        source, target = arcs.edge_index
        strength = torch.ones_like(source) if arcs.weight is None else arcs.weight
        degree = torch.ones(arcs.num_rows, dtype=x.dtype, device=x.device).index_add(0, target, strength.to(x.dtype))
        scale = (degree[source] * degree[target]).rsqrt() * strength
        own = F.relu(x + self.root) / degree[:, None]
        return message_sum(x, arcs, EdgeFeatures.for_messages(self.edges, edge_attr, x), weight=scale) + own


@stackable
class EdgeFeatures(nn.Module):
    """`edge_attr` → a vector an arc, of the width that messages have."""

    def __init__(self, edge_channels: Channels, width: int) -> None:
        super().__init__()
        if edge_channels is None or edge_channels == 0:
            raise ValueError(
                "Expected edge_channels for a convolution with edge features (got None). "
                "Pass e.g. Categories(4), or use conv='gin' or 'gcn', which need none."
            )
        self.lines = encoder(edge_channels, width, "edge_attr")
        # Embeddings have the width already; numbers and 0/1 vectors are brought to it.
        fits = isinstance(edge_channels, int) or self.lines.out_channels != width
        self.project: nn.Module = Linear(self.lines.out_channels, width) if fits else nn.Identity()

    def forward(self, edge_attr: Tensor | None, like: Tensor) -> Tensor:
        return self.project(self.lines(edge_attr, 0, like))

    @staticmethod
    def for_messages(
        edges: Any, edge_attr: Tensor | None, like: Tensor, codes: dict[Any, Tensor] | None = None
    ) -> Tensor | Coded:
        """What `edges(edge_attr, like)` gives, coded where there are few values and every part is what it was built as.

        Args:
            edges: the encoder, or what a user has put in its place.
            edge_attr: of the edges of the graphs.
            like: rows.
            codes: what other layers found the codes of the same `edge_attr` to be; added to.
        """
        coded = None
        if is_plain(edges, EdgeFeatures) and (is_plain(edges.project, nn.Identity) or is_plain(edges.project, Linear)):
            lines = edges.lines
            coded = lines.coded(edge_attr, like, few_values(like), codes) if isinstance(lines, LineEncoder) else None
        # Under autocast products may be of another precision than the rows.
        if coded is None:
            return edges(edge_attr, like.detach()).to(like.dtype)
        return Coded(edges.project(coded.table).to(like.dtype), coded.code)
