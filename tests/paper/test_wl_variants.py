"""Section 4.1 and its appendix: DS-WL and DSS-WL, and how they compare with 1-WL and with one another."""

import itertools

import numpy as np
import pytest
import torch

import esan
from esan import wl
from esan.graphs import Graphs, atlas, csl, cycle, disjoint_union, permuted, random_regular, read

#: The policies of the paper, all of which keep every node, and node marking.
POLICIES = ("ND", "ED", "EGO(1)", "EGO+(1)", "EGO(2)", "SE", "NM")


@pytest.fixture(scope="module")
def small_graphs() -> Graphs:
    """Every graph of 1 to 7 nodes."""
    return read(atlas())


def _refines(fine: torch.Tensor, coarse: torch.Tensor) -> bool:
    """Whether graphs that `fine` confuses are confused by `coarse` as well."""
    couples = np.unique(np.stack([fine.numpy(), coarse.numpy()]), axis=1)
    return couples.shape[1] == fine.unique().numel()


def test_lemma_c6_and_2xc3() -> None:
    """The C_6 and 2 × C_3 are disambiguated by DS-WL and DSS-WL under ED policy (1-WL converges at once)."""
    first, second = cycle(6), disjoint_union(cycle(3), cycle(3))
    plain = wl.separates(first, second, "1")
    assert not plain
    assert plain.colours == (1, 1)
    for test in ("ds", "dss"):
        # The proof: not after the first refinement, which sees degrees, but after the second.
        assert wl.separates(first, second, test, esan.EdgeDeletion()).iteration == 2


@pytest.mark.parametrize("n", [*range(8, 17), 25, 41])
def test_lemma_csl_k2(n: int) -> None:
    """CSL(n, 2) can be distinguished from any CSL(n, k) with k ∈ [3, n/2 − 1] by DS-WL and DSS-WL with either the ND,
    EGO, or EGO+ policy; 1-WL distinguishes no two of them.
    """
    for k in range(3, int(n / 2 - 1) + 1):
        assert not wl.separates(csl(n, 2), csl(n, k), "1")
        for test, policy in itertools.product(("ds", "dss"), ("ND", "EGO(1)", "EGO+(1)")):
            verdict = wl.separates(csl(n, 2), csl(n, k), test, policy)
            # ND after two rounds, ego-networks by their degrees.
            assert verdict.iteration == (2 if policy == "ND" else 1), (k, test, policy)


def test_lemma_csl_node_delete() -> None:
    """All node-deleted subgraphs of G = CSL(n, k) are isomorphic. All depth-1 ego-nets of it are isomorphic."""
    for policy in ("ND", "EGO(1)"):
        assert wl.colouring(csl(13, 5), "ds-2-fwl", policy).subgraphs[-1].unique().numel() == 1
    assert wl.colouring(cycle(5), "ds", "ND").subgraphs[-1].unique().numel() == 1
    assert wl.colouring(esan.graphs.path(5), "ds", "ND").subgraphs[-1].unique().numel() == 3


@pytest.mark.parametrize("test", ["ds", "dss"])
@pytest.mark.parametrize("policy", POLICIES)
def test_proposition_colourings_are_refinements(test: str, policy: str) -> None:
    """Let c^t_S be the vertex coloring computed by DSS-WL (DS-WL) over subgraph S at round t. Then, for all S and all
    t > 0, c^{t+1}_S refines c^t_S; and there is a round at which the test converges.
    """
    found = wl.colouring(random_regular(3, 12, seed=4), test, policy)
    sizes = [colours.unique().numel() for colours in found.rounds]
    assert sizes == sorted(set(sizes))
    for before, after in itertools.pairwise(found.rounds):
        assert _refines(after.reshape(-1), before.reshape(-1))


@pytest.mark.parametrize("policy", POLICIES)
def test_lemma_dss_wl_refines_wl_on_every_subgraph(policy: str) -> None:
    """Let a^t, b^t be the coloring after t steps of WL, running on each subgraph, and of DSS-WL. For any t ≥ 0 and any
    subgraphs G, H of the two bags, b^t refines a^t.
    """
    graphs = atlas(6)
    ds, dss = wl.colourings(graphs, "ds", policy), wl.colourings(graphs, "dss", policy)
    for t in range(len(dss[0].rounds)):
        coarse = torch.cat([one.rounds[min(t, len(one.rounds) - 1)].reshape(-1) for one in ds])
        assert _refines(torch.cat([one.rounds[t].reshape(-1) for one in dss]), coarse)


@pytest.mark.parametrize("policy", POLICIES)
def test_lemma_needle_colours_refine_wl(policy: str) -> None:
    """Let π be any vertex set preserving policy. Let b denote the needle node coloring from DSS-WL, C_v, and a the node
    coloring from the standard WL algorithm. Then b refines a.
    """
    graphs = atlas(6)
    plain, dss = wl.colourings(graphs, "1"), wl.colourings(graphs, "dss", policy)
    for t in range(len(dss[0].rounds)):
        needles: dict[tuple[int, ...], int] = {}
        fine = [
            needles.setdefault(tuple(sorted(one.rounds[t][:, v].tolist())), len(needles))
            for one in dss
            for v in range(one.rounds[t].size(1))
        ]
        coarse = torch.cat([one.rounds[min(t, len(one.rounds) - 1)] for one in plain])
        assert _refines(torch.tensor(fine), coarse)


@pytest.mark.parametrize("policy", POLICIES)
def test_proposition_dss_wl_refines_ds_wl(policy: str, small_graphs: Graphs) -> None:
    """Any two non-isomorphic graphs distinguished by DS-WL via policy π are also distinguished by DSS-WL via the same
    policy. Here: all pairs of the 1,252 graphs of up to 7 nodes.
    """
    assert _refines(wl.classes(small_graphs, "dss", policy), wl.classes(small_graphs, "ds", policy))


@pytest.mark.parametrize("policy", POLICIES)
def test_lemma_dss_wl_refines_wl(policy: str, small_graphs: Graphs) -> None:
    """Let π be any vertex set preserving policy. DSS-WL on π-induced bags is at least as powerful as WL. Here: on all
    pairs of the 1,252 graphs of up to 7 nodes.
    """
    assert _refines(wl.classes(small_graphs, "dss", policy), wl.classes(small_graphs, "1"))


@pytest.mark.parametrize("policy", POLICIES)
def test_lemma_augmented_ds_wl_refines_wl(policy: str, small_graphs: Graphs) -> None:
    """Let π̂ be any augmented policy. DS-WL on π̂-induced bags is at least as powerful as WL. Here: on all pairs of the
    1,252 graphs of up to 7 nodes.
    """
    assert _refines(wl.classes(small_graphs, "ds", f"{policy}^"), wl.classes(small_graphs, "1"))


def test_without_augmentation_ds_wl_need_not_refine_wl(small_graphs: Graphs) -> None:
    """The footnote of Theorem 1: in the case of DS-WL it is required that the original graph is included in the bag."""
    plain = wl.classes(small_graphs, "1")
    assert not _refines(wl.classes(small_graphs, "ds", "SE"), plain)
    assert not _refines(wl.classes(small_graphs, "ds", "EGO(1)"), plain)


def test_theorem_1_ds_and_dss_wl_are_strictly_more_powerful_than_wl(small_graphs: Graphs) -> None:
    """There exist selection policies such that DS(S)-WL is strictly more powerful than 1-WL in distinguishing between
    non-isomorphic graphs: they refine it, and make more classes.
    """
    plain = wl.classes(small_graphs, "1")
    for policy in ("ND", "ED", "EGO(2)", "EGO+(2)"):
        for test, name in (("dss", policy), ("ds", f"{policy}^")):
            found = wl.classes(small_graphs, test, name)
            assert _refines(found, plain)
            assert found.unique().numel() > plain.unique().numel()


def test_identity_reduces_both_to_wl(small_graphs: Graphs) -> None:
    """Both DSS- and DS-WL variants reduce to trivial equivalents of the standard WL test with policy π: G ↦ {G}."""
    plain = wl.classes(small_graphs, "1")
    assert torch.equal(wl.classes(small_graphs, "ds", "identity"), plain)
    assert torch.equal(wl.classes(small_graphs, "dss", "identity"), plain)


def test_no_test_separates_isomorphic_graphs(small_graphs: Graphs) -> None:
    """Every graph of up to 6 nodes and a renumbered copy of it share a class, whatever the test."""
    graphs = atlas(6)
    generator = torch.Generator().manual_seed(7)
    both = graphs + [permuted(graph, generator) for graph in graphs]
    for test, policy in (("1", None), ("ds", "ED"), ("dss", "EGO+(1)"), ("dss-excluding", "ND"), ("2-fwl", None)):
        found = wl.classes(both, test, policy)
        assert torch.equal(found[: len(graphs)], found[len(graphs) :])
