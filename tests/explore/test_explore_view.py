"""What a page is given: the colours of `esan.wl`, the subgraphs of the bag, how a compact bag grows, and its limits."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from torch_geometric.data import Data

import esan
import strategies
from esan import wl
from esan.explore import STORIES, Choice, FieldError, view
from esan.explore.choice import Reader, plain_choice
from esan.graphs import read, to_graph6
from hypothesis_examples import examples


@examples(15)
@given(graph=strategies.graphs(max_nodes=6), policy=strategies.policies())
def test_a_view_holds_the_colours_and_the_subgraphs(graph: Data, policy: esan.Policy) -> None:
    plain = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)
    found = view(Choice.of([plain], "dss", policy))
    json.dumps(found, allow_nan=False)
    colours = wl.colouring(plain, "dss", policy)
    assert found["rounds"] == len(colours.rounds)
    for t, expected in enumerate(colours.rounds):
        shown = found["colours"][t][0]
        assert len(set(zip(shown, expected.reshape(-1).tolist(), strict=True))) == len(set(shown))
    bag = esan.Bag.of(read(plain), policy, literal=True)
    drawn = found["graphs"][0]
    assert len(drawn["subgraphs"]) == bag.num_subgraphs
    for number, one in enumerate(drawn["subgraphs"]):
        kept = {tuple(e) for i, e in enumerate(drawn["edges"]) if (i in set(one["listed"])) != drawn["keeps"]}
        data = bag.subgraph(number)
        assert kept == {(min(e), max(e)) for e in data.edge_index.t().tolist()}
        marked = data.mark.nonzero().reshape(-1).tolist() if bag.marked else []
        assert one["marks"] == marked


@examples(15)
@given(graph=strategies.graphs(max_nodes=7), policy=strategies.policies())
def test_a_view_tells_how_the_compact_bag_grows(graph: Data, policy: esan.Policy) -> None:
    plain = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)
    (found,) = view(Choice.of([plain], "ds", policy))["bags"]
    level = np.array(found["level"])
    for layer, rows in enumerate(found["rows"]):
        stored = int(plain.num_nodes or 0) + int(((level >= 0) & (level <= layer)).sum())
        assert rows == stored
        if layer:
            bag = esan.Bag.of(read(plain), policy, num_layers=layer)
            assert (rows, found["bytes"][layer]) == (bag.num_rows, bag.nbytes)
    assert found["literalRows"] == level.size


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.key)
def test_every_story_is_true(story: esan.explore.Story) -> None:
    """What a story says of the test is what the test says, and the round it opens at is the one it speaks of."""
    assert 1 <= story.text.count(". ") + 1 <= 3
    for look in (story.look, *story.others):
        if look.separated is None:
            continue
        first, second = look.graphs
        verdict = wl.separates(first, second, look.test, look.policy)
        assert verdict.separated == look.separated
        if look.separated:
            assert verdict.iteration == look.round
        else:
            assert verdict.relation == "not isomorphic"


def test_what_the_stories_say_besides() -> None:
    ring, triangles = (wl.History(["cycle(6)", "2xcycle(3)"], "ds", "ED").of(graph, 2, 0) for graph in (0, 1))
    assert Counter(ring)[2] == 2
    assert 2 not in triangles
    ego = esan.Bag.of(read(esan.graphs.csl(12, 3)), "EGO(1)", literal=True)
    assert all(one.num_edges == 8 for one in ego.subgraphs())  # a star of four edges
    assert not wl.separates("rook", "shrikhande", "2-fwl")
    bag = esan.Bag.of(read(esan.graphs.cycle(24)), "ND", num_layers=2)
    assert (bag.num_pairs, bag.num_rows) == (576, 144)


def test_titles_of_subgraphs() -> None:
    def titles(policy: str) -> list[str]:
        return [one["title"] for one in view(Choice.of(["path(3)"], "ds", policy))["graphs"][0]["subgraphs"]]

    assert titles("ED^") == ["without edge 0–1", "without edge 1–2", "the graph itself"]
    assert titles("ND") == ["without edge 0–1", "without node 1", "without edge 1–2"]
    assert titles("SE^") == ["edge 0–1 alone", "edge 1–2 alone", "the graph itself"]
    assert titles("EGO(1)") == ["around node 0", "around node 1", "around node 2"]
    assert titles("EGO+(1)") == ["around node 0, marked", "around node 1, marked", "around node 2, marked"]
    assert titles("NM") == ["node 0 marked", "node 1 marked", "node 2 marked"]


def test_a_molecule_is_drawn_with_its_atoms() -> None:
    pytest.importorskip("rdkit")
    found = view(Choice.of(["smiles:CC=O"], "1"))["graphs"][0]
    assert found["symbols"] == ["C", "C", "O"]
    assert [kind for (kind,) in found["kinds"]] == [1, 2]
    with pytest.raises(FieldError, match="Expected SMILES that RDKit reads"):
        Choice.of(["smiles:C(C"], "1")


@pytest.mark.parametrize(
    ("graphs", "test", "policy", "field", "message"),
    [
        (["cycle(2)"], "1", None, "g", "at least 3 nodes of a cycle"),
        (["cycle(3)", "nothing"], "1", None, "h", "Expected the name of a graph"),
        (["petersn"], "1", None, "g", "Did you mean petersen"),
        (["cycle(3)"], "9", None, "test", "Expected the name of a test"),
        (["cycle(3)"], "ds", "EDD", "policy", "Expected the name of a policy"),
        (["cycle(3)"], "ds", "ED@0.5", "policy", "a policy that draws nothing"),
        (["cycle(3)"], "1", "ED", "policy", "Expected no policy"),
        (["cycle(201)"], "1", None, "g", "at most 200 nodes in the explorer"),
        (["complete(60)", "complete(60)"], "ds", "ED", "policy", "at most 60,000"),
        (["cycle(100)"], "ds", "ND(50)", "policy", "at most 60,000"),
        (["cycle(60)"], "ds-2-fwl", "ED", "policy", "at most 60,000"),
        (["cycle(190)"], "2-fwl", None, "policy", "triples"),
        ([""], "1", None, "g", "Expected a graph"),
        (["x" * 20_001], "1", None, "g", "at most 20,000 characters"),
        ([], "1", None, "view", "one or two graphs"),
    ],
)
def test_what_is_wrong_belongs_to_its_field(
    graphs: list[str], test: str, policy: str | None, field: str, message: str
) -> None:
    with pytest.raises(FieldError, match=message) as caught:
        Choice.of(graphs, test, policy, reader=Reader())
    assert caught.value.field == field


@pytest.mark.parametrize("sent", [None, [], {"graphs": "x"}, {"graphs": [], "more": 1}, {"graphs": [], "test": 3}])
def test_requests_that_are_none(sent: object) -> None:
    with pytest.raises(FieldError):
        Choice.of(**plain_choice(sent))


def test_a_reader_reads_no_file_but_its_own(tmp_path: Path) -> None:
    folder = tmp_path
    mine, other = folder / "mine.g6", folder / "other.g6"
    for file in (mine, other):
        file.write_text(to_graph6(esan.graphs.cycle(5)) + "\n" + to_graph6(esan.graphs.path(4)) + "\n")
    reader = Reader([str(mine)])
    assert reader(f"{mine}:1").num_nodes == 5
    assert reader(f"{mine}:2").num_nodes == 4
    for text in (str(other), f"{other}:1", f"{mine}/../other.g6:1", "/etc/passwd", "/etc/passwd:1"):
        with pytest.raises(ValueError, match="Expected the name of a graph, or a line of graph6"):
            reader(text)
    with pytest.raises(ValueError, match="holds a graph"):
        reader(f"{mine}:3")


def test_positions_are_within_the_unit_square() -> None:
    for name in ("rook", "shrikhande", "2xcycle(3)", "petersen", "path(7)", "decalin", "bicyclopentyl", "grid(3,5)"):
        places = torch.tensor(view(Choice.of([name], "1"))["graphs"][0]["places"])
        assert float(places.min()) >= 0
        assert float(places.max()) <= 1
        assert float(torch.pdist(places).min()) > 0.05
