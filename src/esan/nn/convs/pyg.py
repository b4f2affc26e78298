"""Any PyG convolution as a convolution on rows, and whether it is exact on compact bags."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch_geometric import nn as pyg
from torch_geometric.nn import aggr
from torch_geometric.utils import add_self_loops

from esan.bags import Edges
from esan.graphs.feature_kinds import Channels
from esan.nn.convs.paper_convs import Conv, declared_lookahead
from esan.nn.execution.replay import edge_part
from esan.nn.feature_encoders import encoder
from esan.nn.norm import drops, why_rows_mix
from esan.ops.dispatch import is_changed

#: PyG convolutions that read a row, the source rows of its edges and edge features, and nothing else.
_LOCAL = (
    "CGConv", "EdgeConv", "FiLMConv", "GATConv", "GATv2Conv", "GENConv", "GINConv", "GINEConv", "GMMConv",
    "GeneralConv", "GraphConv", "MFConv", "NNConv", "PNAConv", "ResGatedGraphConv", "SAGEConv", "SplineConv",
    "TransformerConv",
)  # fmt: skip
#: PyG convolutions whose messages also depend on the degree of their source row.
_DEGREE = ("ClusterGCNConv", "GCNConv")

_REMEDY = "Pass a PyG convolution, e.g. conv=lambda i, o: GATConv(i, o), or a module of your own that is called so."

#: PyG convolutions that add a self-loop to every row.
_ADD_LOOPS = (pyg.GATConv, pyg.GATv2Conv, pyg.GCNConv)
#: Aggregators of PyG whose result depends on the order of the messages.
_ORDERED = (aggr.GRUAggregation, aggr.LSTMAggregation, aggr.MLPAggregation)


class PyGConv(Conv):
    """A PyG convolution, called on rows as on nodes: `conv(x, edge_index[, edge_attr][, edge_weight])`.

    A convolution that esan does not know runs on literal bags, unless its class declares `lookahead = 0` (it reads its
    own row, the source rows of its edges and their edge features) or `lookahead = 1` (also the degrees of those rows).
    On a GPU, one that declares `capturable = True` is recorded like PyG's own; its Python does not run in every step.

    Args:
        conv: the convolution.
        out_channels: the width of its result.
        edge_channels: what `edge_attr` holds. Categories are embedded with `width` numbers and a `OneHot` becomes a
            one-hot vector; plain numbers are passed on unchanged. None: no edge features are passed on.
        width: of embeddings.
    """

    def __init__(self, conv: nn.Module, out_channels: int, edge_channels: Channels, width: int) -> None:
        super().__init__()
        _refuse_unknown_widths(conv)
        self.conv: Any = conv
        self.out_channels = out_channels
        signature = inspect.signature(conv.forward)
        if edge_channels is not None and "edge_attr" not in self._takes:
            raise ValueError(
                f"Expected a convolution with edge features (got {type(conv).__name__}, which takes no edge_attr). "
                "Leave edge_channels out, or use another convolution."
            )
        self.edge_encoder = encoder(edge_channels, width, "edge_attr") if edge_channels is not None else None
        _check_call(conv, signature, () if edge_channels is None else ("edge_attr",))
        self._adds_loops = False

    # The convolution may be changed or replaced at any time.

    @property
    def _takes(self) -> frozenset[str]:
        kind: Any = type(self.conv)
        forward = vars(self.conv).get("forward")
        return _class_takes(kind) if forward is None else _takes(forward)

    @property
    def takes_edge_weight(self) -> bool:  # type: ignore[override]
        return "edge_weight" in self._takes

    @property
    def lookahead(self) -> int:  # type: ignore[override]
        return _exactness(self.conv)[0]

    @property
    def why_literal(self) -> str | None:  # type: ignore[override]
        return _exactness(self.conv)[1]

    def compute(self, x: Tensor, edges: Edges, edge_attr: Tensor | None, multiplicity: Tensor | None) -> Tensor:  # noqa: ARG002
        extra: dict[str, Tensor] = {}
        if self.edge_encoder is not None:
            extra["edge_attr"] = self._edge_features(x.detach(), edges, edge_attr)
        if edges.weight is not None:
            if "edge_weight" not in self._takes:
                raise ValueError(
                    f"Expected a convolution with edge weights for adjacency='sum' (got {type(self.conv).__name__}). "
                    "Use adjacency='max', or a convolution that takes edge_weight."
                )
            extra["edge_weight"] = edges.weight.to(x.dtype)
        out = self._call(x, edges.edge_index, extra)
        if out.shape != (x.size(0), self.out_channels):
            raise ValueError(
                f"Expected {type(self.conv).__name__} to give {self.out_channels} numbers per row (got shape "
                f"{tuple(out.shape)} for {x.size(0)} rows). With several heads, average them: concat=False."
            )
        return out

    @property
    def encoders_ahead(self) -> tuple[nn.Module, ...]:
        usual = type(self) is PyGConv and not is_changed(self)
        return () if not usual or self.edge_encoder is None or is_changed(self.edge_encoder) else (self.edge_encoder,)

    def encode_edges(self, like: Tensor, edges: Edges, edge_attr: Tensor | None) -> Tensor:
        assert self.edge_encoder is not None
        return self.edge_encoder(edge_attr, 0, like).index_select(0, edges.edge_id)

    def _edge_features(self, like: Tensor, edges: Edges, edge_attr: Tensor | None) -> Tensor:
        encode = self.edge_encoder
        assert encode is not None
        if is_changed(encode):
            return self.encode_edges(like, edges, edge_attr)
        return edge_part(self, partial(self.encode_edges, like), [encode], edges, edge_attr)

    def _call(self, x: Tensor, edge_index: Tensor, extra: dict[str, Tensor]) -> Tensor:
        """The result of the convolution; its own errors get a note of how it was called."""
        try:
            if self._adds_loops:
                edge_index, extra = self._with_loops(x, edge_index, extra)
            out = self.conv(x, edge_index, **extra)
        except Exception as error:
            error.add_note(self._note(extra))
            raise
        if not isinstance(out, Tensor):
            raise _not_a_convolution(self.conv, f"it gave a {type(out).__name__}")
        return out

    @property
    def is_capturable(self) -> bool:
        """Whether the convolution may run in a CUDA graph: PyG's own code, or what says so; it draws nothing at random.

        One that waits for the device is found when it is captured.
        """
        if type(self) is not PyGConv or not (_capturable(self.conv) or type(self.conv) in _classes(_LOCAL + _DEGREE)):
            return False
        libraries = ("torch.nn.", "torch_geometric.nn.", "esan.nn.")
        parts = [*self.modules()]
        known = all(type(part).__module__.startswith(libraries) or _capturable(part) for part in parts)
        return known and not any(map(drops, parts))

    @contextmanager
    def while_captured(self, bag: Any) -> Iterator[None]:
        """Within, PyG does not look for self-loops, which waits for the device; there are none in these graphs."""
        if not (type(self.conv) in _ADD_LOOPS and self.conv.add_self_loops and bag.loopless):
            yield
            return
        self.conv.add_self_loops, self._adds_loops = False, True
        try:
            yield
        finally:
            self.conv.add_self_loops, self._adds_loops = True, False

    def _with_loops(self, x: Tensor, edge_index: Tensor, extra: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Edges with a self-loop per row, as the convolution adds them."""
        if isinstance(self.conv, pyg.GCNConv):
            name, fill = "edge_weight", 2.0 if self.conv.improved else 1.0
        else:
            name, fill = "edge_attr", self.conv.fill_value
        edge_index, values = add_self_loops(edge_index, extra.get(name), fill, num_nodes=x.size(0))
        return edge_index, extra if values is None else {**extra, name: values}

    def _note(self, extra: dict[str, Tensor]) -> str:
        called = ", ".join(["x", "edge_index", *(f"{name}={name}" for name in extra)])
        note = f"Raised by {type(self.conv).__name__}, which esan called as conv({called})."
        bare = "edge_attr" in self._takes and self.edge_encoder is None
        return f"{note} Pass edge_channels, if it needs edge features." if bare else note


def _refuse_unknown_widths(conv: nn.Module) -> None:
    if any(isinstance(parameter, UninitializedParameter) for parameter in conv.parameters()):
        raise ValueError(
            f"Expected a convolution whose widths are known (got {type(conv).__name__} with an input of -1). Pass the "
            "widths that conv is called with, as in conv=lambda i, o: SAGEConv(i, o)."
        )


def _check_call(conv: nn.Module, signature: inspect.Signature, extra: tuple[str, ...]) -> None:
    """Refuse a module that cannot be called as a convolution."""
    try:
        signature.bind("x", "edge_index", **dict.fromkeys(extra))
    except TypeError as error:
        raise _not_a_convolution(conv, str(error)) from None


def _not_a_convolution(conv: nn.Module, got: str) -> TypeError:
    name = type(conv).__name__
    return TypeError(f"Expected a module that gives a tensor for conv(x, edge_index) (got {name}: {got}). {_REMEDY}")


def _exactness(conv: nn.Module) -> tuple[int, str | None]:
    """The lookahead of the convolution, and why it needs a literal bag, if it does."""
    name = type(conv).__name__
    if getattr(conv, "flow", "source_to_target") != "source_to_target":
        return 0, f"{name} reads the rows that its edges go to"
    if (why := why_rows_mix(conv)) is not None:
        return 0, why
    for module in conv.modules():
        if type(module) in _ORDERED:
            return 0, f"{name} holds a {type(module).__name__}, which reads messages in an order"
        if vars(module).get("cached", getattr(type(module), "cached", False)) is True:
            raise ValueError(
                f"Expected a convolution that reads the edges of each batch (got {name} with cached=True, which keeps "
                "the first ones). Leave cached out."
            )
    declared = getattr(conv, "lookahead", None)
    if declared is not None:
        return declared_lookahead(conv), None
    if type(conv) in _classes(_LOCAL):
        return 0, None
    if type(conv) in _classes(_DEGREE):
        return 1, None
    return (
        0,
        f"{name} is not known to read only the rows that its edges come from (if it does, let it say lookahead = 0)",
    )


def _capturable(module: nn.Module) -> bool:
    """Whether the class of a module says that its Python need not run in every step."""
    # Not what it inherits: a subclass may do more.
    return bool(vars(type(module)).get("capturable", False))


def _takes(forward: Any) -> frozenset[str]:
    return frozenset(inspect.signature(forward).parameters)


@lru_cache(256)  # classes may be created at run time
def _class_takes(kind: Any) -> frozenset[str]:
    return _takes(kind.forward)


@cache
def _classes(names: tuple[str, ...]) -> tuple[type, ...]:
    return tuple(getattr(pyg, name) for name in names if hasattr(pyg, name))
