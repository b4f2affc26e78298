"""Theorem 2 and its lemmas: networks against tests. Random networks in double precision, and one built by hand."""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import esan
from esan import wl
from esan.graphs import HARD_PAIRS, atlas, csl, cycle, disjoint_union, hard_pair, path, rook, shrikhande, star

POLICIES = ("ND", "ED", "EGO(1)", "EGO+(1)", "NM", "EGO(2)^", "SE^")
#: Rounding leaves equal graphs this far apart at most; random networks put different ones much farther.
SAME, DIFFERENT = 1e-12, 1e-9


@cache
def _family() -> tuple[Data, ...]:
    """All graphs of up to 6 nodes, and the hard pairs but for the one that needs deeper networks."""
    pairs = [graph for name in HARD_PAIRS if name != "csl41-9-12" for graph in hard_pair(name)]
    return tuple(atlas(6) + pairs)


def _network(
    test: str, policy: esan.Policy, num_layers: int, seed: int = 0, conv: str = "graphconv", bag_pool: str = "mean"
) -> torch.nn.Module:
    """Random weights; tanh, since an activation that is constant on an interval may lose colours with some chance."""
    torch.manual_seed(seed)
    choices = {"conv": conv, "norm": None, "act": "tanh", "marked": policy.marked, "readout": "sum"}
    if test == "dss":
        choices |= {"bag_pool": bag_pool, "adjacency": "original", "set_encoder": "deepsets"}
    build = esan.dss_gnn if test == "dss" else esan.ds_gnn
    return build(None, 24, num_layers, 16, **choices).double().eval()  # type: ignore[arg-type]


@torch.no_grad()
def _distances(network: torch.nn.Module, graphs: list[Data], policy: esan.Policy) -> Tensor:
    out = network(esan.Bag.of(graphs, policy, literal=True))
    return (out[:, None] - out).abs().amax(-1)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("test", ["ds", "dss"])
def test_theorem_2_networks_are_as_powerful_as_tests(test: str, policy: str) -> None:
    """A DS(S)-GNN never tells apart what DS(S)-WL cannot, and one with random weights tells apart what it can: over all
    pairs of the family at once.
    """
    graphs, chosen = list(_family()), esan.policy_named(policy)
    found = wl.classes(graphs, test, chosen)
    alike = (found[:, None] == found).fill_diagonal_(False)
    assert bool(alike.any())
    distances = _distances(_network(test, chosen, num_layers=6), graphs, chosen)
    distances.fill_diagonal_(1)
    assert bool((distances[alike] < SAME).all())
    assert bool((distances[~alike] > DIFFERENT).all())


def test_this_check_can_fail() -> None:
    """A network of one layer does not see what the test sees in the second round."""
    graphs = [cycle(6), disjoint_union(cycle(3), cycle(3))]
    policy = esan.EdgeDeletion()
    assert wl.separates(graphs[0], graphs[1], "ds", policy).iteration == 2
    assert float(_distances(_network("ds", policy, num_layers=1), graphs, policy)[0, 1]) < SAME
    assert float(_distances(_network("ds", policy, num_layers=2), graphs, policy)[0, 1]) > DIFFERENT


def test_layers_are_rounds_on_csl_41() -> None:
    """CSL(41,9) and CSL(41,12) with ND: the colours are equal after 3 rounds and differ after 4, so a DS-GNN of 3
    layers cannot tell them apart and one of 4 can.
    """
    graphs, policy = [csl(41, 9), csl(41, 12)], esan.NodeDeletion()
    assert float(_distances(_network("ds", policy, num_layers=3), graphs, policy)[0, 1]) < SAME
    assert float(_distances(_network("ds", policy, num_layers=4), graphs, policy)[0, 1]) > DIFFERENT


def test_corollary_more_powerful_than_mpnns() -> None:
    """DSS-GNN and DS-GNN are strictly more powerful than standard MPNN models, which are the bag {G}."""
    graphs = [cycle(6), disjoint_union(cycle(3), cycle(3))]
    for test in ("ds", "dss"):
        plain = _distances(_network(test, esan.Whole(), 6), graphs, esan.Whole())
        bags = _distances(_network(test, esan.EdgeDeletion(), 6), graphs, esan.EdgeDeletion())
        assert float(plain[0, 1]) < SAME
        assert float(bags[0, 1]) > DIFFERENT


def test_proposition_3_networks() -> None:
    """SE on P_4 and K_{1,3}: no DS-GNN tells them apart, a DSS-GNN does."""
    graphs, policy = [path(4), star(3)], esan.SingleEdges()
    for seed in range(5):
        assert float(_distances(_network("ds", policy, 4, seed), graphs, policy)[0, 1]) < SAME
    assert float(_distances(_network("dss", policy, 4), graphs, policy)[0, 1]) > DIFFERENT


def test_proposition_3_strengthened_networks() -> None:
    """SE with the graph added, on 2 × C_3 and C_6: DSS-GNN needs the sum over the other subgraphs, Σ_{j≠i}."""
    graphs, policy = [disjoint_union(cycle(3), cycle(3)), cycle(6)], esan.Augmented(esan.SingleEdges())
    for seed in range(5):
        for bag_pool in ("mean", "sum"):
            network = _network("dss", policy, 4, seed, bag_pool=bag_pool)
            assert float(_distances(network, graphs, policy)[0, 1]) < SAME
    assert float(_distances(_network("dss", policy, 4, bag_pool="others"), graphs, policy)[0, 1]) > DIFFERENT


def test_proposition_4_networks() -> None:
    """With the 3-WL encoder PPGN: alone it does not tell Rook and Shrikhande apart, nor does DS-GNN with a 1-WL encoder
    and depth-1 ego-networks; both together do.
    """
    graphs, policy = [rook(), shrikhande()], esan.Augmented(esan.EgoNets(hops=1))
    # Products of large matrices round more: the answers are compared with their size.
    alone = _relative(_network("ds", esan.Whole(), 3, conv="ppgn"), graphs, esan.Whole())
    weak = _relative(_network("ds", policy, 3), graphs, policy)
    both = _relative(_network("ds", policy, 3, conv="ppgn"), graphs, policy)
    assert alone < SAME
    assert weak < SAME
    assert both > DIFFERENT


@torch.no_grad()
def _relative(network: torch.nn.Module, graphs: list[Data], policy: esan.Policy) -> float:
    first, second = network(esan.Bag.of(graphs, policy, literal=True))
    return float((first - second).abs().max() / first.abs().max())


@cache
def _example() -> ModuleType:
    file = Path(__file__).parents[2] / "examples" / "theorem_2.py"
    spec = importlib.util.spec_from_file_location("example_theorem_2", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _same_partition(first: Tensor, second: Tensor) -> bool:
    couples = torch.unique(torch.stack([first, second]), dim=1).size(1)
    return couples == first.unique().numel() == second.unique().numel()


@pytest.mark.parametrize("policy", ["ND", "ED", "EGO(1)"])
def test_lemma_dss_gnn_simulates_dss_wl(policy: str) -> None:
    """There exists a DSS-GNN model with layers of the form of the paper's equation such that the colour of node v in
    subgraph k after T iterations of DSS-WL is uniquely represented by a one-hot encoding. Here it is, with weights set
    by hand, and 6 layers a round in place of 10.
    """
    family = [graph for name in ("c6-2xc3", "p4-k13", "csl8-2-3") for graph in hard_pair(name)]
    chosen = esan.policy_named(policy)
    exact = wl.colourings(family, "dss", chosen)
    given = _example().simulate(family, chosen, rounds=len(exact[0].rounds) - 1)
    for number, step in enumerate(given):
        assert step.layers == 6 * number
        # One-hot, exactly: zeros and a single one, not a rounding away.
        assert torch.equal(step.codes.sum(1), torch.ones(len(step.codes), dtype=torch.float64))
        assert torch.equal(step.codes, step.codes.square())
        colours = torch.cat([one.rounds[number].reshape(-1) for one in exact])
        assert _same_partition(step.codes.argmax(1), colours)


def test_theorem_2_by_hand_up_to_the_graph() -> None:
    """The readout sums one-hot codes over nodes, the set encoder codes the sums one-hot and adds them up: two graphs
    get one vector exactly where DSS-WL puts them in one class.
    """
    generator = torch.Generator().manual_seed(0)
    family = [graph for name in ("c6-2xc3", "csl8-2-3") for graph in hard_pair(name)]
    family += [esan.graphs.permuted(graph, generator) for graph in family]
    policy = esan.EdgeDeletion()
    codes = _example().simulate(family, policy, rounds=3)[-1].codes
    bag = esan.Bag.of(family, policy, literal=True)
    subgraphs = bag.layer_view(0).pool_nodes(codes, "sum")
    _, kind = torch.unique(subgraphs, dim=0, return_inverse=True)
    one_hot = torch.nn.functional.one_hot(kind).double()
    vectors = torch.zeros(len(family), one_hot.size(1), dtype=torch.float64)
    vectors.index_add_(0, bag.selection.subgraph_graph, one_hot)
    _, found = torch.unique(vectors, dim=0, return_inverse=True)
    assert _same_partition(found, wl.classes(family, "dss", policy))
