"""`output="edge"` scores the pairs in `edge_label_index`, and the columns of `edge_index` where there is none."""

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import RandomLinkSplit

import esan
import strategies
from esan.testing import assert_invariant, assert_same_execution

POLICIES = [esan.NodeDeletion(), esan.EgoNets(1, marked=True), esan.EdgeDeletion()]
EVERY_POLICY = pytest.mark.parametrize("policy", POLICIES, ids=repr)


def paired(pairs: int = 5) -> list[Data]:
    generator = torch.Generator().manual_seed(1)
    graphs = [strategies.from_edges(9, [(i, i + 1) for i in range(8)], 3), strategies.from_edges(1, [], 5)]
    for graph in graphs:
        n = int(graph.num_nodes or 0)
        graph.edge_label_index = torch.randint(n, (2, pairs), generator=generator)
    return graphs


def network(policy: esan.Policy, jk: str = "cat") -> esan.nn.SubgraphGNN:
    return strategies.model("dss", "gin", policy, output="edge", jk=jk)


@pytest.mark.each_value
@EVERY_POLICY
@pytest.mark.parametrize("jk", ["cat", "last"])
def test_pairs_are_scored_alike_on_both_bags(jk: str, policy: esan.Policy) -> None:
    model = network(policy, jk)
    assert_same_execution(model, paired(), policy)
    assert_invariant(model, paired(), policy, trials=1)


@EVERY_POLICY
def test_a_score_is_the_mean_over_the_bag_of_both_ends(policy: esan.Policy) -> None:
    graphs, model = paired(), network(policy, "last").eval()
    bag = esan.Bag.of(graphs, policy, literal=True)
    (*_, last) = model.encoder(model.features(bag, bag.layer_view(1), next(model.parameters())), bag)
    place = {pair: row for row, pair in enumerate(zip(bag.rows.node.tolist(), bag.rows.subgraph.tolist(), strict=True))}
    lines = []
    for u, v in bag.edge_label_index.t().tolist():
        of = [s for node, s in place if node == u]
        ends = [(last.h[place[u, s]], last.h[place[v, s]]) for s in of]
        lines.append(torch.stack([torch.cat([a + b, a * b]) for a, b in ends]).mean(0))
    torch.testing.assert_close(model(bag), model.head(torch.stack(lines)))


@EVERY_POLICY
def test_edges_as_pairs_are_scored_as_edges(policy: esan.Policy) -> None:
    graphs, model = paired(), network(policy).eval()
    for graph in graphs:
        graph.edge_label_index = graph.edge_index
    scored = model(esan.Bag.of(graphs, policy, 3))
    for graph in graphs:
        del graph.edge_label_index
    torch.testing.assert_close(scored, model(esan.Bag.of(graphs, policy, 3)))


def test_batches_keep_pairs_and_labels_together() -> None:
    policy = esan.NodeDeletion()
    graphs, model = paired(), network(policy).eval()
    bag = esan.Bag.of(graphs, policy, 3)
    scores = model(bag)
    torch.testing.assert_close(model(bag[[1, 0]]), scores[[*range(5, 10), *range(5)]])
    torch.testing.assert_close(model(esan.Bag.of(Batch.from_data_list(graphs), policy, 3)), scores)
    none = [graph.clone() for graph in graphs]
    none[0].edge_label_index = torch.empty(2, 0, dtype=torch.long)
    torch.testing.assert_close(model(esan.Bag.of(none, policy, 3)), scores[5:])


def test_pyg_link_splits_train() -> None:
    torch.manual_seed(0)
    ring = esan.graphs.cycle(20)
    split = RandomLinkSplit(num_val=0.2, num_test=0.2, is_undirected=True, add_negative_train_samples=True)
    model = esan.ds_gnn(None, 8, 2, 1, output="edge")
    for part in split(ring):
        bag = esan.Bag.of(part, esan.NodeDeletion(), 2)
        scores = model(bag).squeeze(1)
        assert scores.shape == bag.edge_label.shape == (part.edge_label_index.size(1),)
        torch.nn.functional.binary_cross_entropy_with_logits(scores, bag.edge_label).backward()


def test_pairs_in_two_parts_are_refused() -> None:
    split = RandomLinkSplit(is_undirected=True, split_labels=True, num_val=0.2, num_test=0.0)
    train, _, _ = split(strategies.from_edges(9, [(i, i + 1) for i in range(8)], 3))
    bag = esan.Bag.of([train], POLICIES[0], 4)
    with pytest.raises(ValueError, match=r"Expected pairs .*\(got pos_edge_label_index.*split_labels=False"):
        network(POLICIES[0])(bag)
    assert len(strategies.model("dss", "gin", POLICIES[0])(bag)) == 1
