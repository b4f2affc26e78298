"""Recipes: TOML there and back, changed fields, grids, and errors that say what is known."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from esan.bags import Bag
from esan.data import Task
from esan.graphs import Categories, Graphs, cycle
from esan.nn.linear import Linear
from esan.policies import EdgeDeletion, EgoNets, NodeDeletion, Policy, Sampled, Selection, Whole
from esan.train import Job, Recipe, protocol
from esan.train.model_spec import ModelSpec
from esan.train.recipes.recipe import FIELDS
from esan.train.recipes.toml_text import to_toml

FULL = Recipe(
    "zinc",
    name="zinc/mine",
    policy=Sampled(EgoNets(3, marked=True), 0.2),
    lr=1e-5,
    train_eps=False,
    grid=(
        {"lr": (0.01, 0.001), "set_encoder": ("deepsets",)},
        {"num_layers": (2, 3, 4), "policy": (EgoNets(2), EdgeDeletion())},
    ),
)


def test_toml_gives_the_same_recipe(tmp_path: Path) -> None:
    FULL.save(tmp_path / "a.toml")
    again = Recipe.load(tmp_path / "a.toml")
    assert again == FULL
    assert again.grid == FULL.grid


def test_a_file_names_its_recipe(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('data = "zinc"\nlr = 1\n')
    assert Recipe.load(tmp_path / "mine.toml") == Recipe("zinc", name="mine", lr=1.0)


def test_the_policy_of_a_recipe() -> None:
    assert Recipe.from_dict({"data": "zinc", "policy": "EGO(2)"}).policy == EgoNets(2)
    assert FULL.to_dict()["policy"] == "EGO+(3)@0.2"
    assert FULL.to_dict()["grid"][1]["policy"] == ["EGO(2)", "ED"]
    assert (FULL.num_votes, Recipe("zinc").num_votes) == (5, 1)
    with pytest.raises(ValueError, match="Expected a policy that esan can name in a file"):
        Recipe("zinc", policy=Own())


@dataclass(frozen=True)
class Own(Policy):
    """A policy that no file can name."""

    def select(self, graphs: Graphs) -> Selection:
        return Whole().select(graphs)


EARLIER = {"data": "zinc", "name": "zinc/mine~width=8", "layers": 3, "width": 8, "renew_norms": True, "renew_batch": 7}


def test_recipes_of_earlier_versions() -> None:
    """Old names are read as those of today; a fraction beside a policy is the sampled policy."""
    read = Recipe.from_dict(EARLIER | {"policy": "EGO+(3)", "fraction": 0.2})
    assert (read.num_layers, read.hidden_channels, read.recalibrate_norms, read.recalibrate_batch) == (3, 8, True, 7)
    assert read.policy == Sampled(EgoNets(3, marked=True), 0.2)
    assert Recipe.from_dict(EARLIER | {"policy": "ND", "fraction": 1.0}).policy == NodeDeletion()
    assert Recipe.from_dict({"data": "zinc", "fraction": 0.5}).policy == Sampled(FIELDS["policy"], 0.5)
    grid = [{"width": [4, 8]}, {"fraction": [0.2, 1.0]}]
    tuned = Recipe.from_dict(EARLIER | {"policy": "ND", "grid": grid})
    assert tuned.grid == ({"hidden_channels": (4, 8)}, {"policy": (Sampled(NodeDeletion(), 0.2), NodeDeletion())})
    assert tuned.variant(hidden_channels=16).name == "zinc/mine~hidden_channels=16"
    with pytest.raises(ValueError, match="Expected num_layers alone"):
        Recipe.from_dict(EARLIER | {"num_layers": 2})
    with pytest.raises(ValueError, match=r"Expected a fraction in \(0, 1\]"):
        Recipe.from_dict(EARLIER | {"fraction": 0.0})
    with pytest.raises(ValueError, match=r"got width.*Did you mean hidden_channels"):
        Recipe("zinc").override(["width=8"])


def test_committed_recipes_load() -> None:
    """Every recipe that is kept with the project, as the version that ran it wrote it."""
    tables = sorted((Path(__file__).parents[3] / "paper" / "results").rglob("recipes.json"))
    if not tables:
        pytest.skip("there are no records in paper/results")
    for values in [one for path in tables for one in json.loads(path.read_text()).values()]:
        recipe = Recipe.from_dict(values)
        width = values["width"] if "width" in values else values["hidden_channels"]
        assert (recipe.hidden_channels, recipe.lr, recipe.name) == (width, values["lr"], values["name"])
        share = values.get("fraction", 1.0)
        assert not isinstance(recipe.policy, Sampled) or "fraction" not in values or recipe.policy.fraction == share
        assert Recipe.from_dict(recipe.to_dict()) == recipe


def test_a_misspelt_field_is_answered_with_the_nearest_alone() -> None:
    with pytest.raises(ValueError, match=r"got epoch\)\. Did you mean epochs\?$"):
        Recipe.from_dict({"data": "zinc", "epoch": 3})


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"lrr": 1}, ValueError, "Did you mean lr?"),
        ({"colour": 1}, ValueError, "Expected fields of a recipe (got colour). Known: data, name, model"),
        ({"lrr": 1, "colour": 1}, ValueError, "Did you mean lr? Known: data, name, model"),
        ({"lr": "fast"}, TypeError, "Expected lr to be a number (got 'fast'). The default is 0.001."),
        ({"data": 3}, TypeError, "Expected data to be text (got 3). Name a set"),
        ({"task": "ranking"}, ValueError, "Expected task to be one of"),
        ({"epochs": 2.5}, TypeError, "Expected epochs to be a whole number (got 2.5)"),
        ({"train_eps": 1}, TypeError, "Expected train_eps to be true or false (got 1)"),
        ({"epochs": 0}, ValueError, "Expected epochs of at least 1 (got 0)"),
        ({"folds": 1}, ValueError, "Expected folds of at least 2 (got 1)"),
        ({"lr": 0.0}, ValueError, "Expected lr above 0 (got 0.0)"),
        ({"lr": float("nan")}, ValueError, "Expected lr above 0"),
        ({"lr": 1e-6}, ValueError, "Expected lr of at least min_lr, 1e-05, where schedule 'plateau' stops (got 1e-06)"),
        ({"dropout": 1.0}, ValueError, "Expected dropout in [0, 1) (got 1.0)"),
        ({"conv": "gat"}, ValueError, "Expected conv to be one of auto, gin, gine"),
        ({"policy": "EGOO"}, ValueError, "Expected the name of a policy"),
        ({"model": "gnn"}, ValueError, "Expected the identity policy for model 'gnn'"),
        ({"drop_edge": 0.2}, ValueError, "Expected the identity policy with drop_edge"),
        ({"name": "../up"}, ValueError, "Expected a name that can be a folder"),
        ({"grid": {"lrr": [1]}}, ValueError, "Expected fields of a recipe (got lrr)"),
        ({"grid": {"lr": 0.1}}, TypeError, "Expected a list of values for every field of a grid"),
        ({"grid": {"lr": ["x"]}}, TypeError, "Expected lr to be a number (got 'x')"),
        ({"grid": 3}, TypeError, "Expected tables of values as a grid (got 3)"),
    ],
)
def test_what_cannot_be_meant_is_refused(values: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        Recipe.from_dict({"data": "zinc"} | values)
    assert words in str(caught.value)


def test_files_that_are_no_recipes(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    with pytest.raises(FileNotFoundError, match="Expected a recipe at"):
        Recipe.load(file)
    file.write_text("lr = = 3")
    with pytest.raises(ValueError, match="Expected TOML in"):
        Recipe.load(file)
    file.write_text("lr = 0.1")
    with pytest.raises(ValueError, match="Expected a recipe to name its data"):
        Recipe.load(file)
    file.write_text('data = "zinc"\nlearning_rate = 0.1')
    with pytest.raises(ValueError, match=r"got learning_rate.*The recipe is .*a\.toml"):
        Recipe.load(file)


def test_changed_recipes_have_names_of_their_own() -> None:
    base = Recipe("zinc", name="zinc/gin", lr=0.1)
    changed = base.override(["lr=0.01", "policy=EGO+(3)", "train_eps=false"])
    assert (changed.lr, changed.policy, changed.train_eps) == (0.01, EgoNets(3, marked=True), False)
    assert changed.name == "zinc/gin~lr=0.01,policy=EGO+(3),train_eps=False"
    assert changed.override(["lr=0.02"]).name == "zinc/gin~lr=0.02,policy=EGO+(3),train_eps=False"
    assert changed.base == "zinc/gin"
    assert base.variant(lr=0.1).name == "zinc/gin"
    assert base.variant(name="own", lr=0.2).name == "own"
    with pytest.raises(ValueError, match="Expected a setting FIELD=VALUE"):
        base.override(["lr"])
    with pytest.raises(ValueError, match="Did you mean num_layers"):
        base.override(["num_layer=3"])


def test_the_points_of_a_grid() -> None:
    points = FULL.configurations()
    assert len(points) == 2 * 1 + 3 * 2
    assert [point.lr for point in points[:2]] == [0.01, 0.001]
    assert {point.set_encoder for point in points[:2]} == {"deepsets"}
    assert [point.num_layers for point in points[2::2]] == [2, 3, 4]
    assert [point.policy for point in points[2:4]] == [EgoNets(2), EdgeDeletion()]
    assert all(point.grid == () for point in points)
    assert len({point.name for point in points}) == 8
    assert Recipe("zinc").configurations() == (Recipe("zinc"),)


def test_grids_and_numbers_of_seeds_do_not_make_another_recipe() -> None:
    assert Recipe("zinc", seeds=3) == Recipe("zinc", grid=({"lr": (0.1,)},))
    assert Recipe("zinc") != Recipe("zinc", lr=0.1)


def test_the_jobs_of_a_protocol(tmp_path: Path) -> None:
    folds = Recipe("mutag", name="mutag/x", split="folds", folds=3, seeds=2)
    assert len(protocol(folds)) == 6
    assert len(protocol(folds, seeds=1)) == 3
    assert protocol(Recipe("zinc", seeds=10))[9].seed == 9
    assert Job(folds, 2, 1).folder(tmp_path) == tmp_path / "mutag" / "x" / "2-1"
    with pytest.raises(ValueError, match="Expected a fold below 3 for mutag/x"):
        Job(folds, 3)
    with pytest.raises(ValueError, match="Expected a fold below 1"):
        Job(Recipe("zinc"), 1)


def test_toml_of_what_it_cannot_hold() -> None:
    with pytest.raises(TypeError, match="Expected a text, a number"):
        to_toml({"a": None})


def test_embeddings_and_rounding_of_a_network() -> None:
    """Xavier's bounds for tables, all else as it is drawn without; every linear layer rounds, or none."""
    task, atoms, bonds = Task("labels", 2), Categories(7, 3), Categories(4)
    recipe = Recipe("zinc", model="ds", conv="gine-ogb", hidden_channels=12, num_layers=2)
    networks = []
    for chosen in (recipe, replace(recipe, embeddings="xavier", tf32=True)):
        torch.manual_seed(0)
        networks.append(ModelSpec(chosen, task, atoms, bonds).build())
    plain, xavier = networks
    tables = {f"{name}.weight" for name, m in plain.named_modules() if isinstance(m, torch.nn.Embedding)}
    assert len(tables) == 2 + 2
    for (name, mine), theirs in zip(xavier.named_parameters(), plain.parameters(), strict=True):
        if name in tables:
            bound = (6 / sum(mine.shape)) ** 0.5
            assert 0.5 * bound < mine.abs().max().item() <= bound < theirs.abs().max().item()
        else:
            assert torch.equal(mine, theirs)
    for network, rounds in zip(networks, (False, True), strict=True):
        assert {layer.tf32 for layer in network.modules() if isinstance(layer, Linear)} == {rounds}


def test_a_network_as_ogb_has_it() -> None:
    """A linear head behind layers of which the last may give negative numbers; all else is drawn as without."""
    task, recipe = (
        Task("labels", 2),
        Recipe("zinc", model="gnn", policy=Whole(), conv="gin", hidden_channels=12, num_layers=2, jk="last"),
    )
    networks = []
    for chosen in (recipe, replace(recipe, head="linear", last_act=False)):
        torch.manual_seed(0)
        networks.append(ModelSpec(chosen, task, Categories(7), None).build())
    plain, ogb = networks
    assert {n: p.shape for n, p in ogb.head.named_parameters()} == {"weight": (2, 12), "bias": (2,)}
    for (name, mine), theirs in zip(ogb.encoder.named_parameters(), plain.encoder.parameters(), strict=True):
        assert torch.equal(mine, theirs), name
    graph = cycle(5)
    graph.x = torch.arange(5)
    bag = Bag.of([graph], Whole(), 2)
    least = []
    for network in networks:
        like = next(network.parameters())
        view, width = network.encoder.input(bag, like, network.features.out_channels)
        rows = network.features(bag, view, like, width)
        least.append([given.h.min().item() for given in network.encoder(rows, bag)])
    assert least[0][1] == 0 > least[1][1]
    assert least[0][0] == least[1][0] == 0
