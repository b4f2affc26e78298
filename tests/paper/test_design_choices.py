"""Section 4.3 and its appendix: DSS against DS, the base encoder, and the policy."""

import itertools
from pathlib import Path

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data

import esan
from esan import wl
from esan.graphs import csl, cycle, disjoint_union, path, rook, shrikhande, star, strong_regularity, strongly_regular

SR = Path(__file__).parents[2].parent / "shared" / "data" / "SR"


def test_proposition_3_single_edges() -> None:
    """There are policies where DSS-GNN is strictly more powerful than DS-GNN. SE on the path of 4 nodes and the 3-star:
    DS-WL cannot distinguish them, DSS-WL can, by the degrees after one round.
    """
    assert not wl.separates(path(4), star(3), "ds", esan.SingleEdges())
    assert wl.separates(path(4), star(3), "dss", esan.SingleEdges()).iteration == 1


def test_proposition_3_strengthened() -> None:
    """The policy SE with the graph added, on 2 × C_3 and C_6: DS-WL cannot distinguish them; nor can DSS-WL with the
    multiset over the whole bag; with the aggregation Σ_{j≠i} that leaves the current subgraph out it can, after the
    second layer.
    """
    pair = disjoint_union(cycle(3), cycle(3)), cycle(6)
    policy = esan.Augmented(esan.SingleEdges())
    assert not wl.separates(*pair, "ds", policy)
    assert not wl.separates(*pair, "dss", policy)
    assert wl.separates(*pair, "dss-excluding", policy).iteration == 2


@pytest.mark.parametrize("policy", ["EGO(1)^", "EGO+(1)^"])
def test_proposition_4_a_stronger_base_encoder(policy: str) -> None:
    """Let the policy be depth-1 ÊGO or ÊGO+. (1) DS with a 3-WL encoder is strictly more powerful than 3-WL. (2) It is
    strictly more powerful than DS with a 1-WL encoder. The pair: the Rook's graph and the Shrikhande graph.
    """
    assert not wl.separates(rook(), shrikhande(), "2-fwl")
    assert not wl.separates(rook(), shrikhande(), "ds", policy)
    assert wl.separates(rook(), shrikhande(), "ds-2-fwl", policy)


def test_proposition_4_at_least_as_powerful() -> None:
    """DS with 3-WL is at least as strong as 3-WL, and as DS with 1-WL, for an augmented policy: on all graphs of 6."""
    graphs = [graph for graph in esan.graphs.atlas(6) if graph.num_nodes == 6]
    strong = wl.classes(graphs, "ds-2-fwl", "EGO(1)^").tolist()
    for weaker in (wl.classes(graphs, "2-fwl"), wl.classes(graphs, "ds", "EGO(1)^")):
        assert len(set(zip(strong, weaker.tolist(), strict=True))) == len(set(strong))


def test_proposition_6_depth_of_ego_networks() -> None:
    """DS-GNN with depth-1 or depth-3 EGO policies does not distinguish CSL(12,3) and CSL(12,5), while the depth-2 EGO
    policy does.
    """
    found = [bool(wl.separates(csl(12, 3), csl(12, 5), "ds", esan.EgoNets(hops))) for hops in (1, 2, 3)]
    assert found == [False, True, False]


@pytest.mark.exhaustive
def test_csl_41_9_and_12() -> None:
    """CSL(41,9) and CSL(41,12): EGO and EGO+ of depth 1, 2, 3 cannot, depth 4 can. ND: the colours are equal after 3
    rounds and differ after 4.
    """
    pair = csl(41, 9), csl(41, 12)
    for marked in (False, True):
        found = [bool(wl.separates(*pair, "ds", esan.EgoNets(hops, marked))) for hops in (1, 2, 3, 4)]
        assert found == [False, False, False, True]
    assert wl.separates(*pair, "ds", esan.NodeDeletion()).iteration == 4


@pytest.mark.parametrize("test", ["ds", "dss"])
def test_lemma_rook_and_shrikhande_ed(test: str) -> None:
    """The 4×4 Rook's graph and the Shrikhande graph are distinguished by DS-GNN and DSS-GNN with the ED policy: after 3
    rounds of refinement, which the paper's tables call iteration 4.
    """
    assert wl.separates(rook(), shrikhande(), test, esan.EdgeDeletion()).iteration == 3


#: The tables of the lemma: the letters of nodes 1 to 16 at iterations 1 to 4, edge (1, 2) deleted.
ROOK = "abdh abdh acei acei acfj acfj acgk acgk acfj acfj acgk acgk acfj acfj acgk acgk"
SHRIKHANDE = "abdh abdh acfj acfj acfl acem acfl acgn acgk acgk acgk acgk acem acfl acgn acfl"
#: What each letter is the hash of: the node's own letter and its neighbours'.
MEANINGS = {
    "b": ("a", "aaaaa"),
    "c": ("a", "aaaaaa"),
    "d": ("b", "ccccc"),
    "e": ("c", "bbcccc"),
    "f": ("c", "bccccc"),
    "g": ("c", "cccccc"),
    "h": ("d", "eefff"),
    "i": ("e", "ddeggg"),
    "j": ("f", "dfffgg"),
    "k": ("g", "effggg"),
    "l": ("f", "defggg"),
    "m": ("e", "ddffgg"),
    "n": ("g", "ffffgg"),
}


def test_lemma_rook_and_shrikhande_tables() -> None:
    """1-WL on an edge-deleted subgraph of the Rook's graph and of the Shrikhande graph, where we delete edge (1,2): the
    two tables of colours, class by class, with one palette for both.
    """
    tables = [table.split() for table in (ROOK, SHRIKHANDE)]
    found = wl.colourings([rook(), shrikhande()], "ds", esan.EdgeDeletion())
    for iteration in range(4):
        letters: dict[int, str] = {}
        for table, one in zip(tables, found, strict=True):
            # The first edge of both graphs is the one between the first two nodes.
            colours = one.rounds[iteration][0].tolist()
            for word, colour in zip(table, colours, strict=True):
                assert letters.setdefault(colour, word[iteration]) == word[iteration]
        assert len(set(letters.values())) == len(letters)


@pytest.mark.parametrize(("graph", "table"), [(rook(), ROOK), (shrikhande(), SHRIKHANDE)], ids=["rook", "shrikhande"])
def test_lemma_rook_and_shrikhande_hashes(graph: Data, table: str) -> None:
    """The right-hand tables: each letter stands for the node's letter before and the multiset of its neighbours'."""
    words = table.split()
    subgraph = esan.Bag.of([graph], esan.EdgeDeletion(), literal=True).subgraph(0)
    edges = subgraph.edge_index.t().tolist()
    assert [0, 1] not in edges
    for v, word in enumerate(words):
        for before, now in itertools.pairwise(word):
            column = word.index(before)
            near = "".join(sorted(words[u][column] for u, target in edges if target == v))
            assert MEANINGS[now] == (before, near)


@pytest.mark.parametrize(
    ("test", "policy"),
    [("1", None), ("2-fwl", None), ("ds", "ND"), ("ds", "EGO+(16)"), ("ds", "EGO(1)^"), ("ds", "EGO+(1)^")],
)
def test_rook_and_shrikhande_are_hard(test: str, policy: str | None) -> None:
    """1-WL, 2-FWL, and DS-WL with ND, depth-n EGO+, depth-1 ÊGO and ÊGO+ cannot distinguish the two graphs."""
    assert not wl.separates(rook(), shrikhande(), test, policy)


def _from_networkx(graph: nx.Graph) -> Data:
    graph = nx.convert_node_labels_to_integers(nx.Graph(graph))
    edges = torch.tensor(list(graph.edges)).reshape(-1, 2)
    return esan.graphs.undirected(len(graph), edges)


def _strongly_regular() -> list[Data]:
    """Strongly regular graphs of 13 sets of parameters, two graphs of one of them."""
    triangular = [nx.line_graph(nx.complete_graph(n)) for n in (5, 6, 7)]
    others = [
        nx.petersen_graph(),
        nx.paley_graph(13),
        nx.paley_graph(17),
        nx.complete_bipartite_graph(4, 4),
        nx.complement(nx.complete_bipartite_graph(4, 4)),
        nx.complement(nx.line_graph(nx.complete_graph(6))),
    ]
    return [cycle(5), rook(3), rook(4), shrikhande(), rook(5), *map(_from_networkx, triangular + others)]


@pytest.mark.parametrize("policy", ["ND", "EGO+(28)", "ED"])
def test_proposition_5_different_parameters(policy: str) -> None:
    """(1) ND, depth-n EGO+, ED can distinguish any SR graphs of different parameters (Lemmas on ND, EGO+ and ED)."""
    graphs = _strongly_regular()
    parameters = [strong_regularity(graph) for graph in graphs]
    assert None not in parameters
    assert len(set(parameters)) == len(graphs) - 1
    found = wl.classes(graphs, "ds", policy).tolist()
    assert len(set(zip(found, parameters, strict=True))) == len(set(found))


@pytest.mark.parametrize("policy", ["ND", "EGO+(28)"])
def test_proposition_5_same_parameters(policy: str) -> None:
    """(2) ND, depth-n EGO+ cannot distinguish any SR graphs of the same parameters: one class a set of parameters."""
    graphs = _strongly_regular()
    parameters = [strong_regularity(graph) for graph in graphs]
    for test in ("ds", "dss"):
        found = wl.classes(graphs, test, policy).tolist()
        assert len(set(found)) == len(set(parameters))


def test_lemma_ed_on_strongly_regular_graphs() -> None:
    """3 iterations of 1-WL on any edge-deleted subgraph of a strongly regular graph give a coloring that depends on the
    parameters alone: 2 nodes of degree k − 1, then λ, 2(k − 1 − λ) and n + λ − 2k nodes of degree k.
    """
    for graph in _strongly_regular():
        found = strong_regularity(graph)
        assert found is not None
        n, k, lam, _ = found
        colours = wl.colouring(graph, "ds", "ED")
        # Round 2 is the paper's iteration 3; where every subgraph is stable before, it is the last round.
        third = colours.rounds[min(2, colours.stable_after)]
        expected = sorted(count for count in (2, lam, 2 * (k - 1 - lam), n + lam - 2 * k) if count)
        for line in third:
            assert sorted(line.unique(return_counts=True)[1].tolist()) == expected


@pytest.mark.parametrize("file", ["sr16622.g6", "sr251256.g6"])
def test_proposition_5_on_whole_families(file: str) -> None:
    """(2) and (3) on families from a catalogue: ND, depth-n EGO+ and 3-WL see one class, ED sees every graph."""
    if not (SR / file).is_file():
        pytest.skip(f"needs the strongly regular graphs of {file}, which are not here")
    graphs = strongly_regular(SR / file)
    n = int(graphs[0].num_nodes or 0)
    for test, policy in (("1", None), ("2-fwl", None), ("ds", "ND"), ("dss", "ND"), ("ds", f"EGO+({n})")):
        assert wl.classes(graphs, test, policy).unique().numel() == 1
    assert wl.classes(graphs, "ds", "ED").unique().numel() == len(graphs)
