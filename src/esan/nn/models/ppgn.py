"""PPGN, the base encoder with the power of 2-FWL: dense tensors over pairs of nodes, on literal bags."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from esan.bags import Bag, LayerView
from esan.graphs.feature_kinds import Channels
from esan.memory_limits import refuse_beyond_memory
from esan.nn.dropout import drop
from esan.nn.encoder import Encoded
from esan.nn.feature_encoders import encoded_width, encoder, rename_key
from esan.ops import ragged
from esan.ops.segments import CSR

#: Values per entry and channel that autograd keeps of a layer, and that are there at a time without it; at least.
_KEPT, _ALIVE = 8, 4


@dataclass(frozen=True, eq=False)
class _DensePairs:
    """Where the entries of the n×n matrices of all subgraphs lie in a tensor `[subgraphs, N, N]`."""

    mask: Tensor
    row_subgraph: Tensor
    row_position: Tensor


class PPGNBlock(nn.Module):
    r""":math:`T' = W\,[\,T \,\|\, m_1(T) \cdot m_2(T)\,]`, a matrix product a channel; m are MLPs of each entry."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.left, self.right = _entry_mlp(in_channels, out_channels), _entry_mlp(in_channels, out_channels)
        self.mix = nn.Linear(in_channels + out_channels, out_channels)

    def forward(self, T: Tensor, mask: Tensor) -> Tensor:
        # Padding must not reach the product: an MLP with biases makes it nonzero.
        left, right = (m(T) * mask for m in (self.left, self.right))
        # Divided by the size, so that deep stacks keep their scale; the power is the same.
        size = mask.sum((1, 2), keepdim=True).sqrt()
        product = torch.einsum("sikd,skjd->sijd", left, right) / size
        return self.mix(torch.cat([T, product], -1))


def _entry_mlp(in_channels: int, out_channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(in_channels, out_channels), nn.ReLU(), nn.Linear(out_channels, out_channels), nn.ReLU()
    )


class PPGNLayer(nn.Module):
    r""":math:`T'_i = \sigma(\mathrm{norm}_1(L^1(T_i)) + \mathrm{norm}_2(L^2(\operatorname{agg}_j T_j)))`.

    As the DSS layer, with PPGN blocks: they transform the adjacency too. Without `shared` it is the DS layer.
    """

    def __init__(
        self,
        inside: PPGNBlock,
        norm: nn.Module,
        shared: PPGNBlock | None,
        shared_norm: nn.Module | None,
        act: Callable[[Tensor], Tensor],
        bag_pool: str,
    ) -> None:
        super().__init__()
        self.inside, self.norm, self.shared, self.shared_norm = inside, norm, shared, shared_norm
        self.act, self.bag_pool = act, bag_pool

    def forward(self, T: Tensor, mask: Tensor, bag: Bag) -> Tensor:
        out = _normed(self.norm, self.inside(T, mask), mask)
        if self.shared is not None and self.shared_norm is not None:
            pooled, where = self._pool(T, bag), bag.selection.subgraph_graph
            if self.bag_pool == "others":
                out = out + _normed(self.shared_norm, self.shared(pooled[where] - T, mask), mask)
            else:
                there = mask[bag.selection.subgraph_start]
                out = out + _normed(self.shared_norm, self.shared(pooled, there), there)[where]
        return self.act(out) * mask

    def _pool(self, T: Tensor, bag: Bag) -> Tensor:
        of_graph = CSR(bag.selection.subgraph_graph, bag.num_graphs, is_sorted=True)
        pool = of_graph.max if self.bag_pool == "max" else of_graph.sum
        total = pool(T.flatten(1)).reshape(bag.num_graphs, *T.shape[1:])
        return total / bag.selection.num_subgraphs[:, None, None, None] if self.bag_pool == "mean" else total


def _normed(norm: nn.Module, T: Tensor, mask: Tensor) -> Tensor:
    return norm(T.flatten(0, 2), mask.flatten()).reshape(T.shape)


class PPGNEncoder(nn.Module):
    """Rows → dense tensors → PPGN layers → rows again: the diagonal entry of a node and the mean of its line.

    Args:
        hidden_channels: width of the tensors, and of the output rows.
        layers: PPGN layers; the first takes `PPGNEncoder.width(...)` channels.
        edge_channels: what `edge_attr` holds, None if it is not used.
        dropout: on the output rows.
        dropout_on: what it is drawn for, from `DROPOUTS_ON`.
    """

    lookahead = 0
    why_literal = "conv='ppgn' works on dense matrices of whole subgraphs"

    def __init__(
        self,
        hidden_channels: int,
        layers: list[PPGNLayer],
        edge_channels: Channels,
        dropout: float,
        dropout_on: str = "pairs",
    ) -> None:
        super().__init__()
        self.hidden_channels = hidden_channels
        self.layers = nn.ModuleList(layers)
        self.edge_encoder = None if edge_channels is None else encoder(edge_channels, hidden_channels, "edge_attr")
        self.rows = nn.ModuleList(nn.Linear(2 * hidden_channels, hidden_channels) for _ in layers)
        self.dropout, self.dropout_on, self.reads_all = dropout, dropout_on, False
        self.input_lookahead = 0

    @staticmethod
    def width(in_channels: int, hidden_channels: int, edge_channels: Channels) -> int:
        """Channels of the first tensor: node features on the diagonal, the adjacency, and edge features."""
        edges = 0 if edge_channels is None else encoded_width(edge_channels, hidden_channels)
        return in_channels + 1 + edges

    @staticmethod
    def num_entries(bag: Bag) -> int:
        """Entries of the matrices of all subgraphs; each has the size of the largest graph."""
        return bag.num_subgraphs * int(bag.graphs.num_nodes.max()) ** 2

    def _refuse_beyond_memory(self, bag: Bag, like: Tensor) -> None:
        width, size = self.hidden_channels, int(bag.graphs.num_nodes.max())
        values = _KEPT * len(self.layers) if torch.is_grad_enabled() else _ALIVE
        refuse_beyond_memory(
            values * width * like.element_size() * self.num_entries(bag),
            f"{bag.num_subgraphs:,} matrices of {size:,} x {size:,} nodes with {width} channels, for conv='ppgn',",
            "Use another convolution, a Sampled policy, smaller graphs, or fewer at a time.",
            bag.device,
        )

    def input(self, bag: Bag, like: Tensor, width: int) -> tuple[LayerView, int]:  # noqa: ARG002
        """The view whose rows are taken, and their width."""
        return bag.layer_view(0), width

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        rename_key(state_dict, f"{prefix}edges.", f"{prefix}edge_encoder.")
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def forward(self, h: Tensor, bag: Bag) -> list[Encoded]:
        self._refuse_beyond_memory(bag, h)
        view = bag.layer_view(0)
        dense = _dense(bag)
        mask = dense.mask[..., None].to(h.dtype)
        T = self._input(h, bag, view, dense)
        position = (dense.row_subgraph, dense.row_position)
        nodes_of = bag.graphs.num_nodes[bag.selection.subgraph_graph][dense.row_subgraph]
        results = []
        for layer, rows in zip(self.layers, self.rows, strict=True):
            T = layer(T, mask, bag)
            row_mean = T.sum(2)[position] / nodes_of[:, None]
            diagonal = T[dense.row_subgraph, dense.row_position, dense.row_position]
            out = drop(rows(torch.cat([diagonal, row_mean], 1)), view, self.dropout, self.training, self.dropout_on)
            results.append(Encoded(out, view))
        return results

    def _input(self, h: Tensor, bag: Bag, view: LayerView, dense: _DensePairs) -> Tensor:
        source, target = view.edges.edge_index
        parts = [h.new_ones(source.numel(), 1)]
        if self.edge_encoder is not None:
            parts.append(self.edge_encoder(bag.graphs.edge_attr, 0, h.detach()).index_select(0, view.edges.edge_id))
        edges = torch.cat(parts, 1)
        subgraph = dense.row_subgraph
        diagonal = h.new_zeros(*dense.mask.shape, h.size(1))
        diagonal = diagonal.index_put((subgraph, dense.row_position, dense.row_position), h)
        entries = h.new_zeros(*dense.mask.shape, edges.size(1))
        entries = entries.index_put((subgraph[target], dense.row_position[target], dense.row_position[source]), edges)
        return torch.cat([diagonal, entries], -1)


def _dense(bag: Bag) -> _DensePairs:
    nodes_of = bag.graphs.num_nodes[bag.selection.subgraph_graph]
    row_subgraph = ragged.segment_index(nodes_of)
    row_position = ragged.ranges(torch.zeros_like(nodes_of), nodes_of)
    inside = torch.arange(int(nodes_of.max()), device=bag.device) < nodes_of[:, None]
    return _DensePairs(inside[:, :, None] & inside[:, None, :], row_subgraph, row_position)
