"""The yardstick: DS-GNN and DSS-GNN written plainly in PyG, over the disjoint union of all subgraphs.

This is how subgraph networks are usually written: every subgraph is a graph of its own in one PyG batch, with index
vectors that say which node and which graph each copy belongs to. It shares no code with the package.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINEConv
from torch_geometric.utils import scatter

import esan
from workloads import ATOM_TYPES, BOND_TYPES


@dataclass
class Union:
    """A batch of graphs as the disjoint union of their subgraphs."""

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    mark: Tensor | None
    subgraph: Tensor
    original: Tensor
    graph_of_subgraph: Tensor
    graph_edge_index: Tensor
    graph_edge_attr: Tensor
    y: Tensor

    @staticmethod
    def of(graphs: list[Data], policy: esan.Policy) -> "Union":
        """Subgraphs are made by the library (slowly, one by one); what is measured starts from here."""
        bag = esan.Bag.of(graphs, policy, literal=True)
        batch = Batch.from_data_list(list(bag.subgraphs()))
        plain = Batch.from_data_list(graphs)
        graph = bag.selection.subgraph_graph
        start = plain.ptr[:-1][graph][batch.batch]
        return Union(
            x=batch.x,
            edge_index=batch.edge_index,
            edge_attr=batch.edge_attr,
            mark=batch.mark if bag.marked else None,
            subgraph=batch.batch,
            original=start + torch.arange(batch.num_nodes) - batch.ptr[:-1][batch.batch],
            graph_of_subgraph=graph,
            graph_edge_index=plain.edge_index,
            graph_edge_attr=plain.edge_attr,
            y=plain.y,
        )


class BondGINE(nn.Module):
    """GINE with its own bond embedding, as on ZINC."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        mlp = nn.Sequential(
            nn.Linear(in_channels, out_channels),
            nn.BatchNorm1d(out_channels),
            nn.ReLU(),
            nn.Linear(out_channels, out_channels),
        )
        self.bonds = nn.Embedding(BOND_TYPES, in_channels)
        self.conv = GINEConv(mlp, train_eps=True)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.conv(x, edge_index, self.bonds(edge_attr))


class Yardstick(nn.Module):
    """The paper's ZINC networks: DS-GNN, which reads all layers, or with `shares` DSS-GNN, which reads the last."""

    def __init__(self, width: int, num_layers: int, marked: bool, shares: bool) -> None:
        super().__init__()
        self.atoms = nn.Embedding(ATOM_TYPES, width)
        widths = [width + 2 * marked] + [width] * num_layers
        pairs = list(pairwise(widths))
        self.convs = nn.ModuleList(BondGINE(i, o) for i, o in pairs)
        self.norms = nn.ModuleList(nn.BatchNorm1d(o) for _, o in pairs)
        self.shared = nn.ModuleList(BondGINE(i, o) for i, o in pairs) if shares else None
        self.shared_norms = nn.ModuleList(nn.BatchNorm1d(o) for _, o in pairs) if shares else None
        read = width if shares else width * num_layers
        self.head = nn.Sequential(nn.Linear(read, 2 * read), nn.ReLU(), nn.Linear(2 * read, 1))

    def forward(self, union: Union) -> Tensor:
        x = self.atoms(union.x)
        if union.mark is not None:
            x = torch.cat([torch.stack([union.mark, ~union.mark], 1).to(x.dtype), x], 1)
        layers = []
        for t, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            h = norm(conv(x, union.edge_index, union.edge_attr))
            if self.shared is not None and self.shared_norms is not None:
                mean = scatter(x, union.original, reduce="mean")
                shared = self.shared[t](mean, union.graph_edge_index, union.graph_edge_attr)
                h = h + self.shared_norms[t](shared)[union.original]
            x = torch.relu(h)
            layers.append(x)
        read = layers[-1] if self.shared is not None else torch.cat(layers, 1)
        subgraphs = scatter(read, union.subgraph, reduce="mean")
        return self.head(scatter(subgraphs, union.graph_of_subgraph, reduce="mean"))

    def load_from(self, model: esan.nn.SubgraphGNN) -> None:
        """Take the weights of the library's network, so that both compute the same function."""
        with torch.no_grad():
            for ours, theirs in zip(self.parameters(), self._matching(model), strict=True):
                ours.copy_(theirs.reshape(ours.shape))

    def _matching(self, model: esan.nn.SubgraphGNN) -> list[Tensor]:
        def of(conv: nn.Module) -> list[Tensor]:
            mlp = conv.mlp
            return [
                conv.edge_encoder.encoder.tables[0].weight,
                conv.eps,
                *(p for part in (mlp.first, mlp.norm, mlp.second) for p in part.parameters()),
            ]

        layers = list(model.encoder.layers)
        found = [model.features.encoder.tables[0].weight]
        found += [p for layer in layers for p in of(layer.inside)]
        found += [p for layer in layers for p in layer.norm.parameters()]
        if self.shared is not None:
            found += [p for layer in layers for p in of(layer.shared)]
            found += [p for layer in layers for p in layer.shared_norm.parameters()]
        return found + list(model.head.parameters())
