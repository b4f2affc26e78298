"""`ds_gnn` and `dss_gnn`: the two architectures of the paper, with every choice it makes as an argument."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from torch import Tensor, nn
from torch_geometric.nn.resolver import activation_resolver

from esan.bags.shared_edges import ADJACENCIES
from esan.checks import check_known, real_number, truth_value, whole_number
from esan.graphs.feature_kinds import Categories, Channels, OneHot, check_channels
from esan.memory_limits import refuse_beyond_memory
from esan.nn.convs.registry import ConvChoice, make_conv
from esan.nn.dropout import DROPOUTS_ON
from esan.nn.encoder import Encoder
from esan.nn.feature_encoders import NodeFeatures
from esan.nn.layer import BAG_POOLS, DSLayer, DSSLayer
from esan.nn.models.heads import HEADS
from esan.nn.models.ppgn import PPGNBlock, PPGNEncoder, PPGNLayer
from esan.nn.models.subgraph_gnn import JKS, OUTPUTS, READOUTS, SubgraphGNN
from esan.nn.norm import NORMS
from esan.nn.set_encoder import SET_ENCODERS
from esan.plural import counted


def ds_gnn(
    in_channels: Channels,
    hidden_channels: int,
    num_layers: int,
    out_channels: int,
    *,
    conv: ConvChoice = "gin",
    edge_channels: Channels = None,
    marked: bool = False,
    degrees: int | None = None,
    readout: str = "sum",
    set_encoder: str = "deepsets",
    set_channels: int | None = None,
    set_layers: int = 2,
    head: str = "mlp",
    jk: str | None = "cat-input",
    norm: str | None = "batch_norm",
    act: str | Callable[[Tensor], Tensor] = "relu",
    last_act: bool = True,
    dropout: float = 0.0,
    dropout_on: str = "pairs",
    output: str = "graph",
) -> SubgraphGNN:
    r"""DS-GNN: every subgraph through one and the same network, then a set encoder over the bag.

    Args:
        in_channels: what `x` holds: 7 for seven numbers a node, `Categories(28)`, `OneHot(5)`, `ATOMS`, None for none.
        hidden_channels: width of the rows.
        num_layers: how many message-passing layers.
        out_channels: width of a prediction.
        conv: "gin", "gine", "gine-ogb", "graphconv", "gcn", "ppgn", or a callable (in_channels, out_channels) → PyG
            convolution.
        edge_channels: what `edge_attr` holds, as `in_channels`; None leaves it unused.
        marked: whether the bag marks nodes; `policy.marked`.
        degrees: columns of the one-hot degree of each node *in its subgraph*, behind those of `x`, for degrees below
            that number; None for none. A compact bag must be built for one layer more.
        readout: "sum", "mean" or "max" over the nodes of a subgraph.
        set_encoder: "deepsets", "invariant-deepsets", "mean" or "max" over the subgraphs.
        set_channels: width of the set encoder, `hidden_channels` if None.
        set_layers: layers of the set encoder.
        head: "mlp" (d → 2d → out), "linear" (d → out) or "narrowing" (d → d → d/2 → out).
        jk: "cat-input" reads the input and all layers side by side, "cat" all layers, "last" (or None) the last one.
        norm: "batch_norm", "layer_norm" or None, after each convolution.
        act: after each layer.
        last_act: whether it comes after the last layer too.
        dropout: after each layer, on the rows.
        dropout_on: "pairs" draws for every (node, subgraph) pair, as the paper does, and trains on the literal bag;
            "nodes" draws once per node for all of its subgraphs, and is exact on a compact bag.
        output: "graph", "node" or "edge": what a line of the prediction is about.
    """
    return _build(**locals(), shares=False)


def dss_gnn(
    in_channels: Channels,
    hidden_channels: int,
    num_layers: int,
    out_channels: int,
    *,
    conv: ConvChoice = "gin",
    edge_channels: Channels = None,
    marked: bool = False,
    degrees: int | None = None,
    bag_pool: str = "mean",
    adjacency: str = "max",
    readout: str = "mean",
    set_encoder: str = "mean",
    set_channels: int | None = None,
    set_layers: int = 2,
    head: str = "mlp",
    jk: str | None = "last",
    norm: str | None = "batch_norm",
    act: str | Callable[[Tensor], Tensor] = "relu",
    last_act: bool = True,
    dropout: float = 0.0,
    dropout_on: str = "pairs",
    output: str = "graph",
) -> SubgraphGNN:
    r"""DSS-GNN: as DS-GNN, and in every layer the subgraphs also share what they know.

    Args:
        in_channels: see `ds_gnn`, for this and all arguments not named here.
        hidden_channels: width of the rows.
        num_layers: how many message-passing layers.
        out_channels: width of a prediction.
        conv: the base encoder of both branches.
        edge_channels: what `edge_attr` holds.
        marked: whether the bag marks nodes.
        degrees: of nodes in their subgraphs, as features.
        bag_pool: what the subgraphs share of each node: "sum", "mean", "max", or "others", the sum over the other
            subgraphs.
        adjacency: the edges along which it is shared: "max" (those of any subgraph), "sum" (the same, weighted by
            how many hold them) or "original" (those of the graph).
        readout: over the nodes of a subgraph.
        set_encoder: over the subgraphs.
        set_channels: width of the set encoder.
        set_layers: layers of the set encoder.
        head: behind the set encoder.
        jk: which layers are read; the paper has "last".
        norm: after each convolution.
        act: after each layer.
        last_act: whether it comes after the last layer too.
        dropout: after each layer.
        dropout_on: what it is drawn for.
        output: what a line of the prediction is about.
    """
    return _build(**locals(), shares=True)


def _build(
    in_channels: Channels,
    hidden_channels: int,
    num_layers: int,
    out_channels: int,
    *,
    conv: ConvChoice,
    edge_channels: Channels,
    marked: bool,
    degrees: int | None,
    readout: str,
    set_encoder: str,
    set_channels: int | None,
    set_layers: int,
    head: str,
    jk: str | None,
    norm: str | None,
    act: str | Callable[[Tensor], Tensor],
    last_act: bool,
    dropout: float,
    dropout_on: str,
    output: str,
    shares: bool,
    bag_pool: str = "mean",
    adjacency: str = "max",
) -> SubgraphGNN:
    set_channels = hidden_channels if set_channels is None else set_channels
    for name, number, remedy, most in (
        ("hidden_channels", hidden_channels, "Pass e.g. 64.", _WIDEST),
        ("num_layers", num_layers, "Pass e.g. 4.", _DEEPEST),
        ("out_channels", out_channels, "Pass 1 for one target, or the number of classes.", _MOST_OUTPUTS),
        ("set_channels", set_channels, "Leave it out for hidden_channels.", _WIDEST),
        ("set_layers", set_layers, "Leave it out for 2, or use set_encoder='mean', which has none.", _DEEPEST),
    ):
        whole_number(name, number, 1, remedy, most)
    if not 0 <= real_number("dropout", dropout, "Pass 0.0 for none.") < 1:
        raise ValueError(f"Expected a dropout in [0, 1) (got {dropout}). Pass 0.0 for none.")
    truth_value("marked", marked, "Pass policy.marked, or bag.marked.")
    truth_value("last_act", last_act, "Leave it out to have the activation after every layer.")
    if degrees is not None:
        whole_number("degrees", degrees, 1, "Pass one more than the highest degree, or None for none.", _WIDEST)
    check_channels("in_channels", in_channels)
    check_channels("edge_channels", edge_channels)
    # Each layer maps its width to itself at least once; input features come in the width of tables.
    weights = num_layers * hidden_channels**2 + sum(_entries(c) * hidden_channels for c in (in_channels, edge_channels))
    what = f"a network of {counted(num_layers, 'layer')} of width {hidden_channels:,}"
    refuse_beyond_memory(4 * weights, what, "Pass smaller hidden_channels, num_layers or numbers of categories.")
    jk = jk or "last"
    # No numbers an edge and no edge features are the same thing; from here on it is None.
    edge_channels = None if edge_channels == 0 else edge_channels
    for name, value, known in (
        ("bag_pool", bag_pool, BAG_POOLS),
        ("adjacency", adjacency, ADJACENCIES),
        ("readout", readout, READOUTS),
        ("set_encoder", set_encoder, SET_ENCODERS),
        ("head", head, HEADS),
        ("jk", jk, JKS),
        ("norm", norm, NORMS),
        ("dropout_on", dropout_on, DROPOUTS_ON),
        ("output", output, OUTPUTS),
    ):
        check_known(name, value, known)
    features = NodeFeatures(in_channels, hidden_channels, marked, degrees)
    activation = _activation(act)
    activations = [activation] * (num_layers - 1) + [activation if last_act else nn.Identity()]
    widths = [features.out_channels] + [hidden_channels] * num_layers
    if conv == "ppgn":
        _check_no_adjacency(adjacency)
        widths[0] = PPGNEncoder.width(features.out_channels, hidden_channels, edge_channels)
        blocks = [
            PPGNLayer(
                PPGNBlock(i, o),
                NORMS[norm](o),
                PPGNBlock(i, o) if shares else None,
                NORMS[norm](o) if shares else None,
                sigma,
                bag_pool,
            )
            for (i, o), sigma in zip(pairwise(widths), activations, strict=True)
        ]
        encoder: Encoder | PPGNEncoder = PPGNEncoder(hidden_channels, blocks, edge_channels, dropout, dropout_on)
    else:
        layers: list[Any] = []
        for (i, o), sigma in zip(pairwise(widths), activations, strict=True):
            inside = make_conv(conv, i, o, edge_channels, hidden_channels)
            if not shares:
                layers.append(DSLayer(inside, NORMS[norm](o), sigma))
                continue
            shared = make_conv(conv, i, o, edge_channels, hidden_channels)
            layers.append(DSSLayer(inside, NORMS[norm](o), shared, NORMS[norm](o), sigma, bag_pool, adjacency))
        encoder = Encoder(layers, dropout, dropout_on)
    read = hidden_channels * (1 if jk == "last" else num_layers)
    read += features.out_channels if jk == "cat-input" else 0
    sets = SET_ENCODERS[set_encoder](read, set_channels, set_layers) if output == "graph" else None
    width = sets.out_channels if sets is not None else read * (2 if output == "edge" else 1)
    return SubgraphGNN(features, encoder, readout, sets, HEADS[head](width, out_channels), jk, output)


#: A layer of this width has 2^32 weights; deeper networks, and more outputs, than these are slips of the pen.
_WIDEST, _DEEPEST, _MOST_OUTPUTS = 65_536, 10_000, 10_000_000


def _entries(channels: Channels) -> int:
    """Rows of the matrix or tables that features of that kind are multiplied by."""
    if isinstance(channels, Categories):
        return sum(channels.sizes)
    return channels.size if isinstance(channels, OneHot) else channels or 0


def _activation(act: Any) -> Callable[[Tensor], Tensor]:
    if isinstance(act, str):
        try:
            return activation_resolver(act)
        except (ValueError, TypeError):  # no such name, or one of a module that needs arguments
            raise ValueError(
                f"Expected act to be the name of an activation in torch.nn that needs no arguments (got {act!r}). Pass "
                "e.g. 'relu', 'elu' or 'gelu', or a callable, e.g. torch.nn.Threshold(0.1, 0.0)."
            ) from None
    # A class is callable too, but would make a module of the rows.
    if not callable(act) or isinstance(act, type):
        raise TypeError(
            f"Expected act to be a name or a callable tensor → tensor (got {act!r}). "
            "Pass e.g. 'relu', torch.nn.GELU(), or torch.nn.Identity() for none."
        )
    return act


def _check_no_adjacency(adjacency: str) -> None:
    if adjacency != "max":
        raise ValueError(
            f"Expected no choice of adjacency with conv='ppgn' (got {adjacency!r}). "
            "Leave it out: the tensors hold the adjacency, and bag_pool pools both."
        )
