"""DS-GNN and DSS-GNN on a literal bag, against the equations written plainly over a disjoint union of subgraphs.

The reference knows nothing of bags: it builds every subgraph from the definition of its policy, puts them into one
PyG batch, and uses scatter pools and loops. Only the weights are shared.
"""

from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.utils import scatter

import esan
import strategies
from esan.testing.compare import check_close
from hypothesis_examples import examples
from policy_definitions import definition, networkx_graph


def _subgraph_data(graph: Data, edges: frozenset[tuple[int, int]], marks: frozenset[int]) -> Data:
    kept = [i for i, (u, v) in enumerate(graph.edge_index.t().tolist()) if (min(u, v), max(u, v)) in edges]
    mark = torch.tensor([[1.0, 0.0] if v in marks else [0.0, 1.0] for v in range(graph.num_nodes)], dtype=torch.float64)
    return Data(x=graph.x, mark=mark, edge_index=graph.edge_index[:, kept], edge_attr=graph.edge_attr[kept])


def _norm(theirs: Any, x: Tensor) -> Tensor:
    norm = nn.BatchNorm1d(x.size(1)).double()
    norm.load_state_dict(theirs.state_dict())
    return norm(x)


def _mlp(theirs: Any, x: Tensor) -> Tensor:
    return theirs.second(torch.relu(_norm(theirs.norm, theirs.first(x))))


def _conv(conv: nn.Module, x: Tensor, edge_index: Tensor, edge_attr: Tensor, weight: Tensor | None = None) -> Tensor:
    """One message-passing step as the equations have it."""
    theirs: Any = conv
    source, target = edge_index
    factor = torch.ones(source.numel(), 1, dtype=x.dtype) if weight is None else weight[:, None]
    n = x.size(0)
    if isinstance(conv, esan.nn.GINConv):
        return _mlp(theirs.mlp, x + scatter(factor * x[source], target, 0, n))
    if isinstance(conv, esan.nn.GINEConv):
        bond = theirs.edge_encoder.encoder.tables[0](edge_attr)
        return _mlp(theirs.mlp, (1 + theirs.eps) * x + scatter(factor * torch.relu(x[source] + bond), target, 0, n))
    if isinstance(conv, esan.nn.GraphConv):
        return theirs.lin_root(x) + theirs.lin_rel(scatter(factor * x[source], target, 0, n))
    assert isinstance(conv, esan.nn.OGBGCNConv)
    x = theirs.lin(x)
    degree = 1 + scatter(factor[:, 0], target, 0, n)
    messages = torch.relu(x[source] + theirs.edge_encoder.encoder.tables[0](edge_attr))
    scale = (degree[source] * degree[target]).rsqrt()[:, None] * factor
    return scatter(scale * messages, target, 0, n) + torch.relu(x + theirs.root) / degree[:, None]


class Union:
    """All subgraphs of all graphs side by side, with the numbers that tie them together."""

    def __init__(self, graphs: list[Data], policy: esan.Policy) -> None:
        bags = [definition(policy, networkx_graph(graph)) for graph in graphs]
        parts = [_subgraph_data(g, *subgraph) for g, bag in zip(graphs, bags, strict=True) for subgraph in bag]
        self.whole = Batch.from_data_list(graphs)
        self.batch = Batch.from_data_list(parts)
        self.graph_of = torch.tensor([i for i, bag in enumerate(bags) for _ in bag])
        node, first = [], 0
        for graph, bag in zip(graphs, bags, strict=True):
            node += [first + v for _ in bag for v in range(graph.num_nodes)]
            first += graph.num_nodes
        self.node = torch.tensor(node)
        self.holders = self._holders(graphs, bags)

    @staticmethod
    def _holders(graphs: list[Data], bags: list[list]) -> Tensor:
        """In how many subgraphs each column of the whole batch is."""
        counts = []
        for graph, bag in zip(graphs, bags, strict=True):
            for u, v in graph.edge_index.t().tolist():
                counts.append(sum((min(u, v), max(u, v)) in edges for edges, _ in bag))
        return torch.tensor(counts, dtype=torch.float64)


def reference(network: Any, graphs: list[Data], policy: esan.Policy) -> Tensor:
    union = Union(graphs, policy)
    batch, whole = union.batch, union.whole
    h = network.features.encoder.tables[0](batch.x)
    if policy.marked:
        h = torch.cat([batch.mark, h], 1)
    read = [h] if network.jk == "cat-input" else []
    for layer in network.encoder.layers:
        out = _norm(layer.norm, _conv(layer.inside, h, batch.edge_index, batch.edge_attr))
        if isinstance(layer, esan.nn.DSSLayer):
            out = out + _shared(layer, h, union)
        h = torch.relu(out)
        read.append(h)
    rows = read[-1] if network.jk == "last" else torch.cat(read, 1)
    if network.output == "node":
        return network.head(scatter(rows, union.node, 0, whole.num_nodes, reduce="mean"))
    subgraphs = scatter(rows, batch.batch, 0, batch.num_graphs, reduce=network.readout)
    return network.head(_set_encoder(network.set_encoder, subgraphs, union.graph_of, len(graphs)))


def _shared(layer: Any, h: Tensor, union: Union) -> Tensor:
    whole = union.whole
    kept = union.holders > 0 if layer.adjacency != "original" else torch.ones_like(union.holders, dtype=torch.bool)
    edge_index, edge_attr = whole.edge_index[:, kept], whole.edge_attr[kept]
    weight = union.holders[kept] if layer.adjacency == "sum" else None
    if layer.bag_pool == "others":
        return _shared_with_others(layer, h, union, edge_index, edge_attr)
    pooled = scatter(h, union.node, 0, whole.num_nodes, reduce=layer.bag_pool)
    return _norm(layer.shared_norm, _conv(layer.shared, pooled, edge_index, edge_attr, weight))[union.node]


def _shared_with_others(layer: Any, h: Tensor, union: Union, edges: Tensor, attr: Tensor) -> Tensor:
    """L2 once in every subgraph, on the sum over the other subgraphs, along the edges of the whole graph."""
    others = torch.stack([h[union.node == v].sum(0) for v in union.node.tolist()]) - h
    source, target, features = [], [], []
    place = {(int(s), int(v)): row for row, (s, v) in enumerate(zip(union.batch.batch, union.node, strict=True))}
    for subgraph, graph in enumerate(union.graph_of.tolist()):
        for (u, v), feature in zip(edges.t().tolist(), attr, strict=True):
            if int(union.whole.batch[u]) == graph:
                source.append(place[subgraph, u])
                target.append(place[subgraph, v])
                features.append(int(feature))
    joined = torch.tensor([source, target], dtype=torch.long)
    return _norm(layer.shared_norm, _conv(layer.shared, others, joined, torch.tensor(features, dtype=torch.long)))


def _set_encoder(theirs: Any, x: Tensor, graph: Tensor, size: int) -> Tensor:
    def mean(values: Tensor) -> Tensor:
        return scatter(values, graph, 0, size, reduce="mean")

    match theirs:
        case esan.nn.SetMean():
            return mean(x)
        case esan.nn.SetMax():
            return scatter(x, graph, 0, size, reduce="max")
        case esan.nn.InvariantDeepSets():
            return theirs.rho(mean(theirs.phi(x)))
        case esan.nn.DeepSets():
            for own, bag in zip(theirs.own, theirs.bag, strict=True):
                x = torch.nn.functional.elu(own(x) + bag(mean(x))[graph])
            return mean(x)
    raise NotImplementedError(theirs)


EVERY_POLICY = pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=strategies.POLICIES)


@pytest.mark.pairwise
@EVERY_POLICY
@pytest.mark.parametrize("encoder", ["gin", "gine", "graphconv", "gcn-bonds"])
@pytest.mark.parametrize("architecture", strategies.ARCHITECTURES)
def test_one_of_each_kind_of_graph(architecture: str, encoder: str, policy: esan.Policy) -> None:
    network = strategies.model(architecture, encoder, policy)
    graphs = strategies.odd_graphs()
    expected = reference(network, graphs, policy)
    check_close(network(esan.Bag.of(graphs, policy, literal=True)), expected, "the reference")


@examples(6)
@given(graphs=strategies.batches(), policy=strategies.policies())
def test_any_graphs(graphs: list[Data], policy: esan.Policy) -> None:
    network = strategies.model("dss", "gine", policy, num_layers=2)
    expected = reference(network, graphs, policy)
    check_close(network(esan.Bag.of(graphs, policy, 2)), expected, "the reference")


@pytest.mark.pairwise
@pytest.mark.parametrize("bag_pool", ["sum", "mean", "max", "others"])
@pytest.mark.parametrize("adjacency", ["max", "original"])
@pytest.mark.parametrize("policy", [esan.EgoNets(1), esan.NodeDeletion(2), esan.EdgeDeletion()], ids=repr)
def test_every_aggregator(policy: esan.Policy, adjacency: str, bag_pool: str) -> None:
    network = strategies.model("dss", "gin", policy, num_layers=2, bag_pool=bag_pool, adjacency=adjacency)
    graphs = strategies.odd_graphs()
    expected = reference(network, graphs, policy)
    check_close(network(esan.Bag.of(graphs, policy, literal=True)), expected, "the reference")


@pytest.mark.parametrize("encoder", ["gin", "gine", "graphconv", "gcn-bonds"])
@pytest.mark.parametrize("policy", [esan.EgoNets(1), esan.NodeDeletion(2), esan.EdgeDeletion()], ids=repr)
def test_adjacency_that_counts_subgraphs(policy: esan.Policy, encoder: str) -> None:
    network = strategies.model("dss", encoder, policy, num_layers=2, adjacency="sum")
    graphs = strategies.odd_graphs()
    expected = reference(network, graphs, policy)
    check_close(network(esan.Bag.of(graphs, policy, 3)), expected, "the reference")


@pytest.mark.pairwise
@pytest.mark.parametrize("readout", ["sum", "mean", "max"])
@pytest.mark.parametrize("set_encoder", ["deepsets", "invariant-deepsets", "mean", "max"])
@pytest.mark.parametrize("jk", ["cat-input", "cat", "last", None])
def test_every_readout_and_set_encoder(jk: str | None, set_encoder: str, readout: str) -> None:
    policy = esan.EgoNets(1, marked=True)
    choices: dict[str, Any] = {
        "readout": readout,
        "set_encoder": set_encoder,
        "jk": jk,
        "set_channels": 7,
        "set_layers": 2,
    }
    network = strategies.model("ds", "gin", policy, num_layers=2, **choices)
    graphs = strategies.odd_graphs()
    expected = reference(network, graphs, policy)
    check_close(network(esan.Bag.of(graphs, policy, literal=True)), expected, "the reference")


@EVERY_POLICY
def test_output_about_nodes(policy: esan.Policy) -> None:
    network = strategies.model("dss", "gin", policy, num_layers=2, output="node")
    graphs = strategies.odd_graphs()
    expected = reference(network, graphs, policy)
    check_close(network(esan.Bag.of(graphs, policy, 2)), expected, "the reference")


@EVERY_POLICY
def test_output_about_edges_is_in_the_users_order(policy: esan.Policy) -> None:
    """A line a column of `edge_index`: the head of the bag's mean of [h_u + h_v, h_u * h_v]."""
    network: Any = strategies.model("dss", "gin", policy, num_layers=2, output="edge", jk="cat")
    graphs = strategies.odd_graphs()
    literal = esan.Bag.of(graphs, policy, literal=True)
    got = network.eval()(literal)
    given = network.encoder(network.features(literal, literal.layer_view(0), got), literal)
    h = torch.cat([g.h for g in given], 1)
    union = Union(graphs, policy)
    place = {(int(s), int(v)): row for row, (s, v) in enumerate(zip(union.batch.batch, union.node, strict=True))}
    wanted = []
    width = given[0].h.size(1)
    for u, v in union.whole.edge_index.t().tolist():
        mine = [s for s, g in enumerate(union.graph_of.tolist()) if g == int(union.whole.batch[u])]
        values = []
        for s in mine:
            left, right = h[place[s, u]].split(width), h[place[s, v]].split(width)
            values.append(torch.cat([part for a, b in zip(left, right, strict=True) for part in (a + b, a * b)]))
        wanted.append(torch.stack(values).mean(0))
    check_close(got, network.head(torch.stack(wanted)), "predictions about edges")
