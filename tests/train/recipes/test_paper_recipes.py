"""Recipes by name: one for every row of the paper's tables, with the protocol and the number that it has there."""

from dataclasses import replace

import pytest

from esan.data.sets.catalogue import CATALOGUE
from esan.policies import Augmented, EgoNets, NodeDeletion, Sampled
from esan.report.reproduced_tables import paper_number
from esan.train import MeanStd, Recipe, named, names, paper_table, paper_value
from esan.train.model_spec import WITH_EDGES, ModelSpec
from esan.train.recipes.catalogue import BIG_WIDTHS, DEGREES, FAMILIES, TU, find_recipe
from esan.train.recipes.paper_values import PRINTED


def parameters(recipe: Recipe) -> int:
    entry = CATALOGUE[recipe.data]
    edges = entry.edge_channels if recipe.conv in WITH_EDGES else None
    model = ModelSpec(recipe, entry.task, entry.in_channels, edges).build()
    return sum(weight.numel() for weight in model.parameters())


def test_every_row_has_a_recipe() -> None:
    found = [named(name) for name in names()]
    assert [recipe.name for recipe in found] == list(names())
    assert {f"{data}/{kind}" for data in FAMILIES for kind in ("gcn", "rni-gin")} <= set(names())
    assert {recipe.data for recipe in found} == set(FAMILIES) <= set(CATALOGUE)
    assert all(recipe.adjacency == "original" for recipe in found)
    assert {name: len(paper_table(name)) for name in PRINTED} == {
        "tu": 31 * 7,
        "tu-sampled": 24 * 7 + 8 + 1,
        "ogb": 18 * 2,
        "rni": 20 * 2,
        "sampled": 24 * 4,
        "big-gin": 4,
        "zinc": 9,
        "csl": 18 + 24,
    }


@pytest.mark.parametrize(
    ("name", "mean", "std"),
    [
        ("zinc/dss-gin-ego+", 0.102, 0.003),
        ("zinc/gin", 0.252, 0.017),
        ("mutag/ds-graphconv-nd", 0.883, 0.051),
        ("ptc/dss-gin-ego+", 0.692, 0.065),
        ("imdb-m/rni-graphconv", 0.531, 0.019),
        ("nci109/ds-gin-ego+^", 0.804, 0.014),
        ("proteins/dss-gin-ego+-20%", 0.774, 0.045),
        ("rdt-b/dss-gin-ego+-5%", 0.933, 0.013),
        ("ogbg-molhiv/ds-gin-ego", 0.78, 0.0142),
        ("ogbg-moltox21/dss-gcn-ego+", 0.7629, 0.0078),
        ("cexp/ds-gin-ego-5%", 0.839, 0.038),
        ("exp/gin", 0.511, 0.021),
        ("nci1/big-gin", 0.829, 0.018),
    ],
)
def test_the_numbers_of_the_paper(name: str, mean: float, std: float) -> None:
    value = paper_value(named(name))
    assert value is not None
    assert (value.mean, value.std) == (pytest.approx(mean), pytest.approx(std))


def test_what_the_paper_does_not_report() -> None:
    assert paper_value("rdt-b/ds-gin-ed") is None
    assert paper_value("mutag/rni-gin") is None
    assert paper_value(named("zinc/gin").variant(lr=0.1)) == MeanStd(0.252, 0.017)
    assert paper_value(named("mutag/gin").variant(data="ptc", lr=0.1)) is None, "on other data"
    assert paper_number("mutag/gin~data=ptc,lr=0.1") is None
    assert paper_number("mutag/gin~lr=0.1") == paper_number("mutag/gin")


def test_protocols() -> None:
    zinc, tu, ogb = named("zinc/ds-gin-ego+"), named("mutag/dss-gin-ed"), named("ogbg-molhiv/ds-gcn-nd")
    assert (zinc.schedule, zinc.patience, zinc.factor, zinc.min_lr, zinc.epochs) == ("plateau", 20, 0.5, 1e-5, 400)
    assert (zinc.select, zinc.seeds, zinc.batch_size, zinc.lr) == ("last", 10, 128, 0.001)
    assert (zinc.policy, zinc.set_encoder, zinc.set_channels) == (EgoNets(3, marked=True), "invariant-deepsets", 96)
    assert (zinc.jk, zinc.readout, zinc.set_layers) == ("cat-input", "sum", 1)
    assert (tu.split, tu.folds, tu.epochs, tu.schedule, tu.period) == ("folds", 10, 350, "step", 50)
    assert (tu.select, tu.num_layers, tu.jk, tu.train_eps, tu.readout) == ("mean-valid", 4, "last", False, "mean")
    assert (ogb.conv, ogb.num_layers, ogb.hidden_channels, ogb.dropout, ogb.epochs) == ("gcn", 5, 300, 0.5, 100)
    assert (ogb.select, ogb.jk, ogb.batch_size, ogb.split) == ("best-valid", "last", 32, "given")
    assert (ogb.readout, named("ogbg-molhiv/ds-gin-nd").readout) == ("sum", "mean")
    assert (named("ogbg-molhiv/dss-gcn-nd").dropout, named("ogbg-molhiv/dss-gcn-nd").last_act) == (0.0, True)
    assert (named("exp/gin").num_layers, named("exp/gin").hidden_channels) == (6, 32)
    methods = ("ds-gin-ego", "ds-gin-ed", "dss-graphconv-nd", "dss-gin-ed-5%", "dss-gin-nd-5%", "ds-gin-ed-5%")
    csl = [named(f"csl/{method}") for method in methods]
    assert [recipe.num_layers for recipe in csl] == [4, 8, 8, 8, 8, 8]
    assert [recipe.double for recipe in csl] == [False, False, True, False, False, False]
    assert [recipe.recalibrate_norms for recipe in csl] == [False, False, True, True, False, False]
    assert not named("exp/gin").recalibrate_norms
    assert (named("csl/ds-gin-ego").policy, named("csl/ds-gin-ego").folds) == (EgoNets(4), 5)
    assert (named("nci1/ds-graphconv-ed").num_layers, named("nci1/ds-graphconv-ed").hidden_channels) == (3, 64)


def test_grids() -> None:
    assert len(named("mutag/gin").configurations()) == 8
    assert len(named("mutag/ds-gin-ed").configurations()) == 16
    assert len(named("mutag/dss-gin-ed").configurations()) == 8
    assert len(named("mutag/graphconv").configurations()) == 4
    assert len(named("rdt-b/gin").configurations()) == 2
    assert len(named("rdt-b/dss-gin-nd-5%").configurations()) == 4
    assert len(named("csl/gin").configurations()) == 16
    assert len(named("ogbg-molhiv/ds-gin-ed").configurations()) == 4
    assert named("zinc/ds-gin-ed").configurations() == (named("zinc/ds-gin-ed"),)
    assert named("zinc/gin").configurations() == (named("zinc/gin"),)


def test_baselines() -> None:
    assert named("mutag/dropedge-gin").drop_edge == 0.2
    assert named("mutag/rni-graphconv").random_features == 0.5
    assert named("exp/id-gin").walk_features == 10
    assert named("mutag/dss-gin-nd-5%").policy == Sampled(NodeDeletion(), 0.05)
    assert named("mutag/ds-gin-ego+^").policy == Augmented(EgoNets(2, marked=True))
    # The grammar of policies is that of `policy_named`.
    assert named("zinc/ds-gin-EGO(1)^@0.2").policy == Sampled(Augmented(EgoNets(1)), 0.2)


def test_features_and_answers() -> None:
    """Degrees of subgraphs stand for the features on IMDB and CSL; two classes are told apart by one logit."""
    assert [(named(f"{data}/dss-gin-nd").degrees, named(f"{data}/gin").node_features) for data in DEGREES] == [
        (136, False),
        (136, False),
        (6, False),
    ]
    assert (named("mutag/gin").degrees, named("mutag/gin").node_features) == (0, True)
    logits = {data: named(f"{data}/gin").one_logit for data in FAMILIES}
    assert {data for data, one in logits.items() if one} == {*TU, "exp", "cexp"} - {"imdb-m"}


#: Parameters of the paper's best network on each set for which it has a wider GIN.
BIG_GIN_PARAMETERS = {"mutag": 18_625, "proteins": 10_865, "nci1": 47_137, "nci109": 20_481}


@pytest.mark.parametrize("data", BIG_WIDTHS)
def test_big_gin_has_the_parameters_of_the_papers_best(data: str) -> None:
    wanted, big = BIG_GIN_PARAMETERS[data], named(f"{data}/big-gin")
    distance = {width: abs(parameters(replace(big, hidden_channels=width)) - wanted) for width in range(30, 90)}
    assert big.hidden_channels == min(distance, key=lambda width: distance[width])


@pytest.mark.parametrize("name", ["zinc/gni", "zink/gin", "zinc", "mutag/ds-gat-nd", "zinc/ds-gin", ""])
def test_unknown_names(name: str) -> None:
    with pytest.raises(ValueError, match="Expected the name of a recipe or a TOML file"):
        find_recipe(name)


def test_names_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="Near: zinc/gin"):
        named("zinc/gni")
    with pytest.raises(ValueError, match="Expected big-gin on one of"):
        named("zinc/big-gin")
    with pytest.raises(ValueError, match="Expected the name of a recipe"):
        named("zinc/ds-gin-xyz")
    with pytest.raises(ValueError, match="Expected a table of the paper"):
        paper_table("nope")
