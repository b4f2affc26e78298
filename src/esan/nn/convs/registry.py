"""Convolutions by name: what `conv=` takes."""

from collections.abc import Callable

from torch import nn

from esan.graphs.feature_kinds import Channels
from esan.nn.convs.paper_convs import Conv, GCNConv, GINConv, GINEConv, GraphConv, OGBGCNConv
from esan.nn.convs.pyg import PyGConv

#: A name from `CONVS`, or a callable (in_channels, out_channels) → convolution, PyG's or ours.
ConvChoice = str | Callable[[int, int], nn.Module]


def _without_edges(conv: type[GINConv] | type[GraphConv], name: str) -> Callable[[int, int, Channels], Conv]:
    def make(in_channels: int, out_channels: int, edge_channels: Channels) -> Conv:
        if edge_channels is not None:
            raise ValueError(
                f"Expected a convolution with edge features for edge_channels={edge_channels!r} (got {name!r}). "
                "Use conv='gine' or 'gcn', or leave edge_channels out."
            )
        return conv(in_channels, out_channels)

    return make


def _gcn(in_channels: int, out_channels: int, edge_channels: Channels) -> Conv:
    return (
        GCNConv(in_channels, out_channels)
        if edge_channels is None
        else OGBGCNConv(in_channels, out_channels, edge_channels)
    )


#: How each name makes a layer of (in_channels, out_channels, edge_channels).
CONVS: dict[str, Callable[[int, int, Channels], Conv]] = {
    "gin": _without_edges(GINConv, "gin"),
    "gine": GINEConv,
    "gine-ogb": lambda i, o, e: GINEConv(i, o, e, expansion=2),
    "graphconv": _without_edges(GraphConv, "graphconv"),
    "gcn": _gcn,
}


def make_conv(choice: ConvChoice, in_channels: int, out_channels: int, edge_channels: Channels, width: int) -> Conv:
    """A layer of that kind; `width` is that of the edge embeddings which a PyG convolution is handed."""
    if isinstance(choice, str):
        if choice not in CONVS:
            raise ValueError(
                f"Expected the name of a convolution (got {choice!r}). Known: {', '.join([*CONVS, 'ppgn'])}; or pass a "
                "callable (in_channels, out_channels) → PyG convolution."
            )
        return CONVS[choice](in_channels, out_channels, edge_channels)
    if not callable(choice) or isinstance(choice, nn.Module):
        raise TypeError(
            "Expected the name of a convolution, or a callable (in_channels, out_channels) → PyG convolution (got "
            f"{choice!r}). Pass e.g. conv='gin' or conv=lambda i, o: GATConv(i, o)."
        )
    try:
        conv = choice(in_channels, out_channels)
    except (AssertionError, AttributeError, TypeError, ValueError) as error:
        raise TypeError(
            f"Expected conv to make a convolution of in_channels={in_channels} and out_channels={out_channels} (got "
            f"{type(error).__name__}: {error}). Pass e.g. conv=lambda i, o: GATConv(i, o)."
        ) from error
    if not isinstance(conv, nn.Module):
        raise TypeError(
            f"Expected conv to return a convolution, a torch module (got {conv!r}). "
            "Pass e.g. conv=lambda i, o: GATConv(i, o)."
        )
    return conv if isinstance(conv, Conv) else PyGConv(conv, out_channels, edge_channels, width)
