"""The paper's convolutions (GIN, GINE, GraphConv, GCN), as modules that send messages along the edges between rows."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from esan.bags import Edges
from esan.checks import whole_number
from esan.graphs.feature_kinds import Channels
from esan.nn.execution.capabilities import capturable, stackable
from esan.nn.execution.replay import conv_part
from esan.nn.feature_encoders import FeatureEncoder, encoder, rename_key
from esan.nn.linear import Linear
from esan.nn.norm import BatchNorm, on_rows, why_every_pair, why_rows_mix
from esan.nn.reset import reset
from esan.ops.dispatch import is_plain
from esan.ops.edges import EdgeTypeFeatures, message_sum
from esan.ops.features import max_edge_types


class Conv(nn.Module):
    """A message-passing layer: a row of its result depends on that row, on the source rows of its edges, and on their
    edge features.

    Such a layer gives the literal bag's result on a compact bag. One that also reads the degree of the source rows sees
    a change one hop earlier, and declares `lookahead = 1`.
    """

    lookahead: int = 0
    #: Why the layer is not exact on a compact bag; None if it is.
    why_literal: str | None = None
    #: Whether messages are multiplied by `edges.weight`, the user's `edge_weight`; else graphs with one are refused.
    takes_edge_weight: bool = False

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        if "edge_encoder" in self._modules:
            rename_key(state_dict, f"{prefix}edges.", f"{prefix}edge_encoder.")
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def forward(self, x: Tensor, edges: Edges, edge_attr: Tensor | None, multiplicity: Tensor | None) -> Tensor:
        """One step.

        Args:
            x: `[rows, in]`.
            edges: the edges between rows along which messages are sent.
            edge_attr: features of the edges of the graph; edge k between rows has row `edges.edge_id[k]` of it.
            multiplicity: of each row, for norms inside the layer; None for 1.
        """
        return conv_part(self, x, edges, edge_attr, multiplicity)

    def compute(self, x: Tensor, edges: Edges, edge_attr: Tensor | None, multiplicity: Tensor | None) -> Tensor:
        """The result of `forward` for the same arguments; a subclass defines it."""
        raise NotImplementedError

    @property
    def encoders_ahead(self) -> tuple[nn.Module, ...]:
        """The modules of `encode_edges`, if its result may be computed before the layer is called; else none."""
        return ()

    def encode_edges(self, like: Tensor, edges: Edges, edge_attr: Tensor | None) -> Tensor:
        """The features of the edges between rows, in the dtype and on the device of `like`."""
        raise NotImplementedError


@stackable
class WeightedMLP(nn.Module):
    """Linear, norm, ReLU, Linear: the MLP of GIN; its norm is weighted by the multiplicities of rows."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first = Linear(in_channels, hidden_channels)
        self.norm = BatchNorm(hidden_channels)
        self.second = Linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, multiplicity: Tensor | None) -> Tensor:
        x = self.first(x)
        if is_plain(self.norm, BatchNorm):
            return self.second(self.norm(x, multiplicity, relu=True))
        return self.second(F.relu(on_rows(self.norm, x, multiplicity)))


def declared_lookahead(conv: Any) -> int:
    """How many hops further than its in-neighbours a convolution reads, as it says itself."""
    remedy = "Declare lookahead = 0, or 1 if the convolution reads degrees of the rows that its edges come from."
    return whole_number(f"lookahead of {type(conv).__name__}", getattr(conv, "lookahead", 0), 0, remedy)


def unknown_why(module: nn.Module) -> str:
    """Why a module that does not declare whether it is exact on a compact bag gets a literal one."""
    name = type(module).__name__
    return f"{name} does not say whether it is exact on a compact bag (if it is, say why_literal = None in it)"


def why_every_pair_in(conv: Any) -> str | None:
    """Why a convolution needs one row per pair, judged by the modules that it has now; None if it does not."""
    if not hasattr(conv, "why_literal"):
        return unknown_why(conv)
    # Parts by torch's own dictionary, whose detour by attributes is slow: every step asks.
    parts = conv._modules
    mlp = parts.get("mlp")
    why = conv.why_literal
    if isinstance(mlp, WeightedMLP):
        inside = mlp._modules
        why = why or why_every_pair(inside["norm"]) or why_every_pair(mlp)
        return why or why_rows_mix(inside.get("first")) or why_rows_mix(inside.get("second"))
    if mlp is not None:
        return why or why_every_pair(mlp)
    if type(conv) in (GraphConv, GCNConv, OGBGCNConv):
        linears = (why_rows_mix(parts.get(name)) for name in ("lin", "lin_rel", "lin_root"))
        return why or next((reason for reason in linears if reason), None)
    return why


def _reset(conv: Conv, zero: Tensor) -> None:
    """Draw the weights of a convolution again; ε or its bias is 0, as at first."""
    reset(conv)
    nn.init.zeros_(zero)


def _epsilon(conv: Conv, trained: bool) -> Tensor:
    """ε of GIN: a parameter if it is learned, else a buffer; the same name in the state_dict either way."""
    if trained:
        return nn.Parameter(torch.zeros(1))
    conv.register_buffer("eps", torch.zeros(1))
    return conv.eps  # type: ignore[return-value]


@stackable
class GINConv(Conv):
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

    def reset_parameters(self) -> None:
        _reset(self, self.eps)

    def aggregate(self, x: Tensor, edges: Edges, edge_attr: Tensor | None) -> Tensor:  # noqa: ARG002
        """The input of the MLP."""
        return message_sum(x, edges, own=1 + self.eps)

    def compute(self, x: Tensor, edges: Edges, edge_attr: Tensor | None, multiplicity: Tensor | None) -> Tensor:
        return on_rows(self.mlp, self.aggregate(x, edges, edge_attr), multiplicity)


@stackable
class GINEConv(Conv):
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
        self.edge_encoder = EdgeFeatures(edge_channels, in_channels)
        self.mlp = WeightedMLP(in_channels, expansion * out_channels, out_channels)
        self.eps = _epsilon(self, train_eps)

    def reset_parameters(self) -> None:
        _reset(self, self.eps)

    def aggregate(self, x: Tensor, edges: Edges, edge_attr: Tensor | None) -> Tensor:
        """The input of the MLP."""
        return message_sum(x, edges, EdgeFeatures.for_messages(self.edge_encoder, edge_attr, x), 1 + self.eps)

    def compute(self, x: Tensor, edges: Edges, edge_attr: Tensor | None, multiplicity: Tensor | None) -> Tensor:
        return on_rows(self.mlp, self.aggregate(x, edges, edge_attr), multiplicity)


@stackable
class GraphConv(Conv):
    r""":math:`h'_v = W_1 h_v + W_2 \sum_{u \sim v} w_{uv} h_u + b`, with w the `edge_weight`, 1 if there is none."""

    takes_edge_weight = True

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin_rel = Linear(in_channels, out_channels)
        self.lin_root = Linear(in_channels, out_channels, bias=False)

    def compute(self, x: Tensor, edges: Edges, edge_attr: Tensor | None, multiplicity: Tensor | None) -> Tensor:  # noqa: ARG002
        return self.lin_rel(message_sum(x, edges)) + self.lin_root(x)


@capturable
class GCNConv(Conv):
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

    def reset_parameters(self) -> None:
        _reset(self, self.bias)

    def compute(self, x: Tensor, edges: Edges, edge_attr: Tensor | None, multiplicity: Tensor | None) -> Tensor:  # noqa: ARG002
        x = self.lin(x)
        source, target = edges.edge_index
        strength = torch.ones_like(source) if edges.weight is None else edges.weight
        # An existing self-loop is not added again; one of weight 0 does not count.
        loops = ((source == target) & (strength != 0)).to(x.dtype)
        none = torch.zeros(edges.num_rows, dtype=x.dtype, device=x.device)
        missing = (none.index_add(0, target, loops) == 0).to(x.dtype)
        degree = missing.index_add(0, target, strength.to(x.dtype))
        root = degree.rsqrt().masked_fill(degree == 0, 0)
        around = message_sum(x, edges, weight=root[source] * strength * root[target])
        return around + (missing * root * root)[:, None] * x + self.bias


@capturable
class OGBGCNConv(Conv):
    r"""The GCN convolution of OGB, with edge features:

    .. math:: h'_v = \sum_{u \sim v} \frac{\mathrm{ReLU}(W h_u + e_{uv})}{\sqrt{d_u d_v}} +
              \frac{\mathrm{ReLU}(W h_v + r)}{d_v}

    with d one more than the degree and r a learned root embedding.
    """

    lookahead = 1

    def __init__(self, in_channels: int, out_channels: int, edge_channels: Channels) -> None:
        super().__init__()
        self.lin = Linear(in_channels, out_channels)
        self.edge_encoder = EdgeFeatures(edge_channels, out_channels)
        self.root = nn.Parameter(torch.randn(1, out_channels))

    def reset_parameters(self) -> None:
        reset(self)
        nn.init.normal_(self.root)

    def compute(self, x: Tensor, edges: Edges, edge_attr: Tensor | None, multiplicity: Tensor | None) -> Tensor:  # noqa: ARG002
        x = self.lin(x)
        source, target = edges.edge_index
        strength = torch.ones_like(source) if edges.weight is None else edges.weight
        degree = torch.ones(edges.num_rows, dtype=x.dtype, device=x.device).index_add(0, target, strength.to(x.dtype))
        scale = (degree[source] * degree[target]).rsqrt() * strength
        own = F.relu(x + self.root) / degree[:, None]
        return message_sum(x, edges, EdgeFeatures.for_messages(self.edge_encoder, edge_attr, x), weight=scale) + own


@stackable
class EdgeFeatures(nn.Module):
    """`edge_attr` → one vector per edge, of the width of the messages."""

    def __init__(self, edge_channels: Channels, width: int) -> None:
        super().__init__()
        if edge_channels is None or edge_channels == 0:
            raise ValueError(
                "Expected edge_channels for a convolution with edge features (got None). "
                "Pass e.g. Categories(4), or use conv='gin' or 'gcn', which need none."
            )
        self.encoder = encoder(edge_channels, width, "edge_attr")
        # Embeddings have that width already; numbers and one-hot vectors are projected to it.
        projects = isinstance(edge_channels, int) or self.encoder.out_channels != width
        self.project: nn.Module = Linear(self.encoder.out_channels, width) if projects else nn.Identity()

    def forward(self, edge_attr: Tensor | None, like: Tensor) -> Tensor:
        return self.project(self.encoder(edge_attr, 0, like))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        rename_key(state_dict, f"{prefix}lines.", f"{prefix}encoder.")
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    @staticmethod
    def for_messages(
        edge_encoder: Any, edge_attr: Tensor | None, like: Tensor, type_cache: dict[Any, Tensor] | None = None
    ) -> Tensor | EdgeTypeFeatures:
        """`edge_encoder(edge_attr, like)`, by edge type where there are few distinct values and no part was changed.

        Args:
            edge_encoder: an `EdgeFeatures`, or what a user has put in its place.
            edge_attr: that of the edges of the graphs.
            like: rows.
            type_cache: the types of the same `edge_attr` that other layers computed; updated.
        """
        features = None
        if is_plain(edge_encoder, EdgeFeatures):
            encoder, project = edge_encoder.encoder, edge_encoder.project
            if isinstance(encoder, FeatureEncoder) and (is_plain(project, nn.Identity) or is_plain(project, Linear)):
                features = encoder.encode_types(edge_attr, like, max_edge_types(like), type_cache)
        # Under autocast products may be of another precision than the rows.
        if features is None:
            return edge_encoder(edge_attr, like.detach()).to(like.dtype)
        return EdgeTypeFeatures(edge_encoder.project(features.table).to(like.dtype), features.edge_type)
