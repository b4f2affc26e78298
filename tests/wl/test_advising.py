"""`advise`: counts by hand on a tiny collection, floors of the error, and what is recommended."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import esan
from esan import wl
from esan.graphs import cycle, disjoint_union, path, rook, shrikhande, star
from esan.policies import short_name


def _tiny() -> list[Data]:
    return [cycle(6), disjoint_union(cycle(3), cycle(3)), cycle(6), rook(), shrikhande(), path(3)]


def test_counts_by_hand() -> None:
    advice = wl.advise(_tiny(), [0, 1, 0, 0, 1, 0], policies=["ND", "ED"])
    plain, ds_nd, dss_nd, ds_ed, dss_ed = advice.options
    # 1-WL: {C6, 2xC3, C6}, {rook, shrikhande}, {P3}.
    assert (plain.classes, plain.confused, plain.confused_labels) == (3, 4, 3)
    assert plain.error_floor == pytest.approx(2 / 6)
    assert plain.rows == plain.pairs == 6 + 6 + 6 + 16 + 16 + 3
    for option in (ds_nd, dss_nd):
        assert (option.classes, option.confused, option.split, option.lost) == (4, 2, 2, 0)
        assert (option.confused_labels, option.error_floor) == (1, pytest.approx(1 / 6))
    for option in (ds_ed, dss_ed):
        # The two C6 are isomorphic: no test splits them.
        assert (option.classes, option.confused, option.split, option.confused_labels) == (5, 1, 3, 0)
        assert option.pairs == 3 * 36 + 2 * 16 * 48 + 6
    assert advice.best is ds_ed
    assert advice.needs_subgraphs
    assert "DS-WL ED is the cheapest that suffices" in advice.text


def test_without_labels_all_pairs_count() -> None:
    advice = wl.advise(_tiny(), policies=["ND"])
    assert advice.options[0].confused_labels is None
    assert advice.best.name == "DS-WL ND"
    assert "2 pairs of graphs left" in advice.text


def test_1_wl_is_recommended_where_it_suffices() -> None:
    advice = wl.advise([path(3), star(3), cycle(4)], [0, 1, 1], policies=["ND"])
    assert not advice.needs_subgraphs
    assert "1-WL suffices" in advice.text


def test_what_ds_loses_is_counted() -> None:
    """With single edges DS-WL confuses the path and the star, which 1-WL tells apart; DSS-WL does not."""
    _, ds, dss = wl.advise([path(4), star(3)], policies=["SE"]).options
    assert (ds.lost, dss.lost) == (1, 0)


def test_real_labels_give_a_floor_of_the_absolute_error() -> None:
    graphs = [cycle(6), disjoint_union(cycle(3), cycle(3)), cycle(6), path(3)]
    advice = wl.advise(graphs, [0.5, 2.0, 1.0, 7.0], policies=["ED"])
    # One class {0.5, 2, 1}: its median 1 is off by 0.5 + 1 + 0; then {0.5, 1}: off by 0.5 whatever lies between.
    assert advice.options[0].error_floor == pytest.approx(1.5 / 4)
    assert advice.options[1].error_floor == pytest.approx(0.5 / 4)


def test_labels_come_with_the_graphs() -> None:
    graphs = _tiny()
    for graph, y in zip(graphs, (0, 1, 0, 0, 1, 0), strict=True):
        graph.y = torch.tensor([y])
    assert wl.advise(graphs, policies=["ED"]).options[0].confused_labels == 3


def test_dss_agrees_with_the_test_on_all_graphs() -> None:
    """DSS-WL is run only where 1-WL confuses; the classes are those of the whole."""
    graphs = esan.graphs.atlas(6)
    for policy in ("ND", "SE"):
        found = wl.advise(graphs, policies=[policy]).options[2]
        assert found.classes == int(wl.classes(graphs, "dss", policy).max()) + 1


def test_too_large_a_bag_is_skipped_and_said() -> None:
    advice = wl.advise(_tiny(), policies=["ND", "ED"], most_pairs=1000)
    assert advice.skipped == (wl.SkippedPolicy(policy="ED", pairs=3 * 36 + 2 * 16 * 48 + 6),)
    assert advice.to_dict()["skipped"] == ({"policy": "ED", "pairs": 1650},)
    assert len(advice.options) == 3


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], "Expected one label a graph, 6 in all"),
        ([0.0, 1.0, float("nan"), 0, 0, 0], "got nan in labels"),
        ([0.0, 1.0, float("inf"), 0, 0, 0], "got inf in labels"),
        (["a", "b", "a", "a", "b", "a"], r"one number per graph as labels \(got \['a', 'b'"),
        (np.array(["a", "b", "a", "a", "b", "a"]), "one number per graph as labels"),
        ([0, None, 0, 0, 1, 0], "one number per graph as labels"),
    ],
)
def test_bad_labels(labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wl.advise(_tiny(), labels)


def test_truth_values_are_labels() -> None:
    result = wl.advise(_tiny(), np.array([0, 1, 0, 0, 1, 0]) == 1, policies=[])
    assert result.options[0].error_floor == pytest.approx(2 / 6)


@pytest.mark.parametrize("depth", [0, -1])
def test_a_network_has_a_layer(depth: int) -> None:
    with pytest.raises(ValueError, match=rf"num_layers of at least 1 \(got {depth}\)"):
        wl.advise(_tiny(), num_layers=depth)


def test_an_advice_is_plain_json_and_a_picture(tmp_path: Path) -> None:
    advice = wl.advise(_tiny(), np.array([0, 1, 0, 0, 1, 0]), policies=["ND"])
    result = json.loads(json.dumps(advice.to_dict()))
    assert result["options"][0]["classes"] == 3
    assert result["needs_subgraphs"] is True
    pytest.importorskip("matplotlib")
    wl.plot_advice(advice, tmp_path / "advice.png")
    assert (tmp_path / "advice.png").stat().st_size > 5000


@pytest.mark.parametrize(
    "policy",
    ["ND", "ND(2)", "ED", "SE", "NM", "EGO(3)", "EGO+(12)", "EGO+(1)^", "ND@0.5"],
)
def test_short_names_are_read_back(policy: str) -> None:
    assert short_name(esan.policy_named(policy)) == policy


def test_a_policy_without_a_short_name_shows_its_call() -> None:
    class Own(esan.NodeDeletion):
        def __repr__(self) -> str:
            return "Own()"

    assert short_name(Own()) == "Own()"
