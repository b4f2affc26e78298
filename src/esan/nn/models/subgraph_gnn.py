"""`SubgraphGNN`: a whole network, from a bag to its predictions."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from esan.bags import Bag, LayerView
from esan.bags.dedup import DedupLayerView
from esan.nn.convs.paper_convs import WeightedMLP
from esan.nn.convs.pyg import PyGConv
from esan.nn.encoder import Encoded, Encoder
from esan.nn.execution import dedup
from esan.nn.execution.called_networks import called
from esan.nn.execution.cost_estimate import refuse_literal
from esan.nn.execution.replay import Replays, in_part
from esan.nn.feature_encoders import NodeFeatures
from esan.nn.models.ppgn import PPGNEncoder
from esan.nn.norm import norm_inside, why_rows_mix
from esan.nn.reset import reset
from esan.nn.set_encoder import SetEncoder
from esan.ops.dispatch import is_plain, never_compiled, refuse_export, say_if_slow
from esan.plural import counted

#: How the nodes of a subgraph are pooled.
READOUTS = ("sum", "mean", "max")
#: Which rows are read: those of all layers side by side, the same with the input before them, or those of the last.
JKS = ("cat", "cat-input", "last")
#: What a prediction is about.
OUTPUTS = ("graph", "node", "edge")


class SubgraphGNN(nn.Module):
    r""":math:`F = E_{\text{sets}} \circ R_{\text{subgraphs}} \circ E_{\text{subgraphs}}` (Eq. 2), and a head.

    It takes a bag and never asks whether that is literal or compact: the answer is the same. What it cannot do
    exactly on a compact bag (a maximum over pairs, say) it does on the literal one, and says so once. Make one with
    `esan.ds_gnn` or `esan.dss_gnn`.

    Args:
        features: bag → the rows that the first layer takes.
        encoder: rows → rows.
        readout: how the nodes of a subgraph are pooled, from `READOUTS`.
        set_encoder: vectors of subgraphs → vectors of graphs; None for outputs about nodes or edges.
        head: vectors → predictions.
        jk: from `JKS`.
        output: from `OUTPUTS`.
    """

    #: How many networks the parameters are for; more than one inside an `Ensemble`.
    members = 1

    def __init__(
        self,
        features: NodeFeatures,
        encoder: Encoder | PPGNEncoder,
        readout: str,
        set_encoder: SetEncoder | None,
        head: nn.Module,
        jk: str,
        output: str,
    ) -> None:
        super().__init__()
        self.features, self.encoder, self.set_encoder, self.head = features, encoder, set_encoder, head
        self.readout, self.jk, self.output = readout, jk, output
        encoder.reads_all = jk != "last"
        encoder.input_lookahead = features.lookahead
        self._said: set[str] = set()
        self._replays = Replays()

    @property
    def num_layers(self) -> int:
        return len(self.encoder.layers)

    def reset_parameters(self) -> None:
        """Draw all weights again and reset running statistics, in place: optimisers and captured steps stay valid."""
        reset(self)

    @property
    def why_literal(self) -> str | None:
        """Why the network is not exact on a compact bag in its present mode; None if it is."""
        if self.encoder.why_literal:
            return self.encoder.why_literal
        if self.output == "graph" and self.readout == "max":
            return "readout='max' needs every pair"
        return None

    @never_compiled
    def forward(self, bag: Bag | Data, *others: Any) -> Tensor:
        """Predictions: one row per graph, node, or column of the `edge_label_index` (else of the `edge_index`) given.

        Args:
            bag: a bag, or a PyG batch of data that a policy was applied to.
            others: nothing; more arguments, such as an edge_index, are refused.
        """
        if others:
            raise TypeError(
                f"Expected a bag and nothing else (got {1 + len(others)} arguments). Make one of your data with "
                "esan.Bag.of(data, policy, num_layers)."
            )
        refuse_export()
        called(self)
        say_if_slow(next(self.parameters()))
        bag = self._fitting(bag)
        replayed = self._replays(self, self._run, bag)
        return self._run(bag) if replayed is None else replayed

    def _run(self, bag: Bag) -> Tensor:
        """The forward pass on a bag that the network can use."""
        # Detached: a backward hook waits for the gradients of all inputs that ask for one.
        like = next(self.parameters()).detach()
        given = self._encoded(self._without_padding(bag, like), like)
        read = given[-1:] if self.jk == "last" else given
        if isinstance(read[-1].view, DedupLayerView) or not all(is_plain(part, type(part)) for part in self._last):
            return self._predict(read, bag)

        blocks, widths = [layer.view.block for layer in read], [layer.width for layer in read]

        def predict(bag: Bag, view: LayerView, *rows: Tensor) -> Tensor:  # noqa: ARG001
            views = [bag.layer_view_of_block(block) for block in blocks]
            return self._predict([Encoded(*one) for one in zip(rows, views, widths, strict=True)], bag)

        last = read[-1].view
        return in_part(predict, self._last, bag, last, *(layer.h for layer in read))

    @property
    def _last(self) -> list[nn.Module]:
        """The modules behind the encoder."""
        return [part for part in (self.set_encoder, self.head) if part is not None]

    def _without_padding(self, bag: Bag, like: Tensor) -> Bag:
        """The bag whose padding rows are neither written nor read, where operators do all that is done with rows."""
        encoder = self.encoder
        if bag.plain or not self._sums_rows or not isinstance(encoder, Encoder):
            return bag
        if not is_plain(encoder, Encoder) or not is_plain(self.features, NodeFeatures):  # a hook may read rows
            return bag
        return bag.skipping_padding() if None not in encoder.fused_by(like, bag) else bag

    def _encoded(self, bag: Bag, like: Tensor) -> Sequence[Encoded]:
        """The results of all layers, after the input if that is read; equal rows are computed once."""
        encoder = self.encoder
        if isinstance(encoder, Encoder) and is_plain(encoder, Encoder):
            views = dedup.views(self.features, encoder, bag, like)
            if views is not None:
                h = self.features(bag, views[0], like)
                return self._behind_input(Encoded(h, views[0]), encoder.on_representatives(h, bag, views))
        used = self.features.out_channels
        view, width = encoder.input(bag, like, used)
        if is_plain(self.features, type(self.features)):
            h = in_part(lambda b, s: self.features(b, s, like, width), [self.features], bag, view)
        else:
            h = self.features(bag, view, like, width)
        return self._behind_input(Encoded(h, view, used if width > used else None), encoder(h, bag))

    def _behind_input(self, given: Encoded, layers: list[Encoded]) -> list[Encoded]:
        return [given, *layers] if self.jk == "cat-input" else layers

    @property
    def _sums_rows(self) -> bool:
        """Whether rows are only read by sums, which leave padding out: a maximum, or pairs of rows, would read it."""
        return self.output == "graph" and self.readout != "max"

    def _predict(self, given: Sequence[Encoded], bag: Bag) -> Tensor:
        if self.output == "node":
            return self.head(torch.cat([g.view.pool_bag(g.h, "mean")[:, : g.width] for g in given], 1))
        if self.output == "edge":
            edges = self.head(torch.cat([g.view.pool_edges(g.h[:, : g.width]) for g in given], 1))
            if "edge_label_index" in bag.graphs.extra:
                return edges
            columns = edges.index_select(0, bag.graphs.undirected_edge)
            return torch.empty_like(columns).index_copy(0, bag.graphs.column, columns)
        assert self.set_encoder is not None
        subgraphs = torch.cat([g.view.pool_nodes(g.h, self.readout)[:, : g.width] for g in given], 1)
        vectors = self.set_encoder(subgraphs, bag)
        # The head of one network is not given the padding graph, which a norm or a hook would take for a graph.
        return self.head(bag.drop_padding(vectors)) if bag.networks == 1 else bag.drop_padding(self.head(vectors))

    def _fitting(self, bag: Bag | Data) -> Bag:
        """The bag as this network can use it exactly, or an error that says what is wrong with it."""
        if isinstance(bag, Data):
            bag = Bag.of(bag, num_layers=self.num_layers + self.encoder.lookahead)
        elif not isinstance(bag, Bag):
            raise TypeError(
                f"Expected a Bag (got {type(bag).__name__}). Make one with Bag.of(graphs, policy, num_layers)."
            )
        self._check(bag)
        if bag.num_layers is None and bag.plain:
            return bag
        why_literal = self.why_literal
        if why_literal and not bag.plain:
            self._refuse_norms_of_layers_over_padding()
        if bag.num_layers is None:
            return bag
        if why_literal:
            if bag.strict:
                raise ValueError(
                    f"Expected a network that is exact on a compact bag (got one that is not: {why_literal}). "
                    "Build the bag with literal=True, or leave literal out and let the network choose."
                )
            message = f"The literal bag is used in place of the compact one: {why_literal}."
            # Batches of a loader are alike: looking at each would wait for a GPU.
            if bag.plain or message not in self._said:
                refuse_literal(bag.without_padding(), self)
            self._say(message)
            return bag.to_literal() if not bag.plain else replace(bag, sampled_from=None).to_literal()
        if bag.num_layers < self.num_layers + self.encoder.lookahead:
            needed = self.num_layers + self.encoder.lookahead
            self._say(
                f"The bag is extended to {needed} layers in each call, since the network sees changes of the graph "
                f"{counted(self.encoder.lookahead, 'hop')} earlier: it reads degrees, or a convolution declares a "
                f"lookahead. Build the bag with num_layers={needed} to save that."
            )
            return replace(bag, sampled_from=None).to_compact(needed)
        return bag

    def _check(self, bag: Bag) -> None:
        extra = bag.graphs.extra if self.output == "edge" else {}
        if bag.plain and bag.graphs.edge_weight is not None:
            _refuse_edge_weight(self.encoder)
        parts: list[tuple[str, Any, tuple[type, ...]]] = [
            ("features", self.features, (NodeFeatures,)),
            ("encoder", self.encoder, (Encoder, PPGNEncoder)),
        ]
        for name, part, kinds in parts:
            if not isinstance(part, kinds):
                raise TypeError(
                    f"Expected model.{name} to be of class {kinds[0].__name__} (got {type(part).__name__}). Subclass "
                    "it and override forward, or register a forward hook."
                )
        if bag.num_layers is not None and bag.num_layers < self.num_layers:
            raise ValueError(
                f"Expected a bag built for {self.num_layers} layers or more (got {bag.num_layers}). "
                f"Build it with num_layers={self.num_layers}."
            )
        if self.output == "edge" and "edge_label_index" not in extra and "pos_edge_label_index" in extra:
            raise ValueError(
                "Expected pairs of nodes in edge_label_index (got pos_edge_label_index and neg_edge_label_index). Call "
                "RandomLinkSplit with split_labels=False, or concatenate them and their labels."
            )
        if bag.networks not in (1, self.members):
            raise ValueError(
                f"Expected a batch for one network (got one for {bag.networks}). Use Loader(..., members=1), or an "
                "esan.Ensemble."
            )
        if not bag.plain and (self.output != "graph" or isinstance(self.encoder, PPGNEncoder)):
            what = f"output={self.output!r}" if self.output != "graph" else "conv='ppgn'"
            raise ValueError(
                f"Expected a bag without padding for {what} (got a padded batch). Use Loader(..., padded=False)."
            )
        if not bag.plain:
            self._refuse_norms_over_padding()
        if bag.marked != self.features.marked:
            words = {True: "marked", False: "unmarked"}
            raise ValueError(
                f"Expected a bag with {words[self.features.marked]} nodes (got {words[bag.marked]} ones). "
                "Build the model with marked=policy.marked."
            )
        device = next(self.parameters()).device
        if bag.device != device:
            raise ValueError(
                f"Expected a bag on {device}, where the model is (got one on {bag.device}). "
                f"Call bag.to({str(device)!r})."
            )

    def _refuse_norms_over_padding(self) -> None:
        """An error if a norm of an encoder would count padding rows; the head gets none."""
        for part in (
            self.features,
            self.set_encoder,
            *(conv._modules.get("edge_encoder") for conv in self._parts_of_layers),
        ):
            norm = None if part is None else norm_inside(part)
            if norm is not None:
                raise ValueError(
                    f"Expected no norm in the encoders of features and sets on padded batches (got a "
                    f"{type(norm).__name__} in {type(part).__name__}, which would count padding). Use Loader(..., "
                    "padded=False)."
                )

    def _refuse_norms_of_layers_over_padding(self) -> None:
        """An error if a norm that is not told multiplicities would count padding rows."""
        acts = [getattr(layer, "act", None) for layer in self.encoder.layers]
        for why in (why_rows_mix(act) for act in acts if not isinstance(act, nn.Module)):
            if why is not None:
                raise ValueError(
                    f"Expected an activation that treats rows one by one on padded batches (got another: {why}). "
                    "Use Loader(..., padded=False)."
                )
        for part in (*acts, *(one for conv in self._parts_of_layers for one in _without_multiplicities(conv))):
            norm = norm_inside(part) if isinstance(part, nn.Module) else None
            if norm is not None:
                raise ValueError(
                    f"Expected no norm in activations, linear layers and PyG's convolutions on padded batches (got a "
                    f"{type(norm).__name__}, which would count padding). Use Loader(..., padded=False)."
                )

    @property
    def _parts_of_layers(self) -> list[nn.Module]:
        """Convolutions, norms and activations of all layers."""
        return [part for layer in self.encoder.layers for part in layer._modules.values() if part is not None]

    def _say(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            warnings.warn(message, stacklevel=7)  # past this method, forward and torch, to who called the model


def _without_multiplicities(conv: nn.Module) -> list[nn.Module | None]:
    """The parts of a convolution that are called without the multiplicities of rows."""
    if isinstance(conv, PyGConv):
        return [conv]
    mlp = conv._modules.get("mlp")
    inside = [mlp._modules.get(name) for name in ("first", "second")] if isinstance(mlp, WeightedMLP) else []
    return [*inside, *(conv._modules.get(name) for name in ("lin", "lin_rel", "lin_root"))]


def _refuse_edge_weight(encoder: Encoder | PPGNEncoder) -> None:
    """An error if a convolution would pass over the user's edge weights."""
    for layer in encoder.layers:
        for conv in (layer.inside, getattr(layer, "shared", None)):
            if conv is not None and not getattr(conv, "takes_edge_weight", False):
                name = type(getattr(conv, "conv", conv)).__name__
                raise ValueError(
                    f"Expected a convolution that uses edge weights (got {name}, which would ignore edge_weight). Pass "
                    "them as edge_attr with edge_channels=1 to conv='gine', use conv='graphconv' or 'gcn', or delete "
                    "edge_weight from the data."
                )
