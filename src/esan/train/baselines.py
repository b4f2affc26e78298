"""Baselines of the paper that change more than the network: DropEdge, random features (RNI), closed walks (ID-GNN)."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from esan.bags import Bag
from esan.data import Dataset
from esan.graphs import Graphs
from esan.nn.convs.paper_convs import GraphConv
from esan.nn.feature_encoders import FeatureEncoder, NodeFeatures, checked_degree
from esan.ops import ragged
from esan.policies import Policy, Selection
from esan.train.engines.engine import Augment


@dataclass(frozen=True)
class DropEdge(Policy):
    """The bag {G without some of its edges}: each edge is deleted with probability `share` (Rong et al., 2020)."""

    share: float

    random: ClassVar[bool] = True

    def select(self, graphs: Graphs) -> Selection:
        return self.drawn(graphs)

    def drawn(self, graphs: Graphs, generator: torch.Generator | None = None) -> Selection:
        device = torch.device("cpu") if generator is None else generator.device
        chance = torch.rand(graphs.edges.size(1), generator=generator, device=device)
        gone = (chance < self.share).nonzero()[:, 0].to(graphs.device)
        return Selection.deleting(graphs, torch.ones_like(graphs.num_nodes), graphs.edge_graph[gone], gone)


def drop_edge(share: float) -> Augment:
    """What DropEdge does to a batch while training; literal, since in one subgraph there is nothing to save."""
    policy = DropEdge(share)
    return lambda bag, generator: Bag.of(bag.graphs, policy, literal=True, generator=generator)


class RandomFeatures(NodeFeatures):
    """Partial random node initialisation (Abboud et al., 2021): the features of two GraphConv layers, and random ones.

    The layers, with ELU each, read the features that there are, on the graph itself; the rest is drawn in every pass.

    Args:
        given: the features that there are, marks left out; degrees are those in the graph.
        width: of the result.
        share: the part of it that is random.
        marked: whether the bag marks nodes.
    """

    def __init__(self, given: NodeFeatures, width: int, share: float, marked: bool) -> None:
        super().__init__(None, width, marked)
        self.encoder, self.given_degrees, self.random_channels = given.encoder, given.degrees, round(share * width)
        half = max(width // 2, 1)
        self.first = GraphConv(given.out_channels, half)
        self.second = GraphConv(half, width - self.random_channels)
        self.out_channels = 2 * marked + width

    def check(self, graphs: Graphs) -> None:
        super().check(graphs)
        if self.given_degrees and graphs.degree.numel():
            checked_degree(graphs.degree.cpu(), self.given_degrees)

    def encoded(self, bag: Bag, like: Tensor) -> Tensor:
        edges = bag.shared.between_nodes("original")
        known = super().encoded(bag, like)
        if self.given_degrees:
            degree = checked_degree(edges.degree, self.given_degrees)
            known = torch.cat([known, F.one_hot(degree, self.given_degrees).to(known.dtype)], 1)
        for conv in (self.first, self.second):
            known = F.elu(conv(known, edges, None, None))
        noise = torch.randn(known.size(0), self.random_channels, dtype=known.dtype, device=known.device)
        return torch.cat([known, noise], 1)


class WalkFeatures(FeatureEncoder):
    """The features that there are, encoded, and behind them the last `walks` columns as they are.

    Args:
        given: encodes the columns before the walks.
        walks: how many columns `with_walks` added.
    """

    row_wise = True

    def __init__(self, given: FeatureEncoder, walks: int) -> None:
        super().__init__()
        self.given, self.walks = given, walks
        self.out_channels = given.out_channels + walks

    def forward(self, value: Tensor | None, lines: int, like: Tensor) -> Tensor:
        if value is None or value.size(1) < self.walks:
            raise ValueError(
                f"Expected {self.walks} columns of walk counts behind x (got none). Add them with with_walks."
            )
        before = value[:, : -self.walks]
        known = self.given(before if before.size(1) else None, lines, like)
        return torch.cat([known, value[:, -self.walks :].to(known.dtype)], 1)


def with_walks(dataset: Dataset, length: int) -> Dataset:
    """The dataset with log(1 + how many closed walks of length 1, ..., `length` there are at a node) behind `x`.

    The logarithm keeps them numbers that a network can learn from: in dense graphs the counts themselves reach 10²⁰.
    """
    walks = torch.log1p(closed_walks(dataset.graphs, length)).float()
    x = dataset.graphs.x
    columns = [] if x is None else [(x if x.dim() == 2 else x[:, None]).float()]
    return replace(dataset, graphs=replace(dataset.graphs, x=torch.cat([*columns, walks], 1)))


def closed_walks(graphs: Graphs, length: int, most: int = 1 << 22) -> Tensor:
    r"""How many closed walks of length 1, ..., `length` start at each node: :math:`\operatorname{diag}(A^k)`.

    Args:
        graphs: the graphs.
        length: of the longest walks.
        most: entries of the dense matrices that are held at once, save for a graph that alone has more.
    """
    sizes = graphs.num_nodes
    result = torch.zeros(graphs.node_graph.numel(), length, dtype=torch.float64, device=graphs.device)
    order = torch.argsort(sizes, stable=True)
    first = 0
    while first < order.numel():
        count = max(1, most // int(sizes[order[first]].clamp(min=1)) ** 2)
        ids = order[first : first + count]
        while ids.numel() > 1 and ids.numel() * int(sizes[ids[-1]]) ** 2 > most:
            ids = ids[: ids.numel() // 2]
        first += ids.numel()
        result[ragged.ranges(graphs.node_start[ids], graphs.num_nodes[ids])] = _diagonals(graphs.take(ids), length)
    return result


def _diagonals(graphs: Graphs, length: int) -> Tensor:
    n = int(graphs.num_nodes.max())
    local = torch.arange(graphs.node_graph.numel(), device=graphs.device) - graphs.node_start[graphs.node_graph]
    source, target = graphs.edge_index
    adjacency = torch.zeros(len(graphs), n, n, dtype=torch.float64, device=graphs.device)
    adjacency[graphs.node_graph[source], local[source], local[target]] = 1
    powers = [torch.eye(n, dtype=torch.float64, device=graphs.device).expand_as(adjacency)]
    for _ in range((length + 1) // 2):
        powers.append(powers[-1] @ adjacency)
    # A is symmetric: the diagonal of A^(i+j) is the sum over a line of A^i times A^j, entry by entry.
    halves = [(powers[(k + 1) // 2] * powers[k // 2]).sum(2) for k in range(1, length + 1)]
    return torch.stack(halves, 2)[graphs.node_graph, local]
