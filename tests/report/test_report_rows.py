"""Rows: the paper's number, ours, and the difference between them, in the paper's units."""

from dataclasses import replace

import pytest

from esan.report.formatting import difference, duration, signed, size
from esan.report.reproduced_tables import TABLES, method, paper_number, table_named, table_rows
from esan.report.rows import Row, empty_row, row_of
from esan.report.tables import HEAD, cells, markdown, table
from esan.train.recipes.catalogue import named
from made_up_records import record


def test_a_row_holds_the_protocols_number_and_the_best_validation_beside_it() -> None:
    """On ZINC the test error where training stopped counts, not that of the best epoch."""
    values = [0.100, 0.104, 0.108]
    row = row_of([record("zinc/dss-gin-ego+", value, seed=seed) for seed, value in enumerate(values)])
    assert row.ours is not None
    assert row.best is not None
    assert row.best.mean == pytest.approx(0.104)
    assert row.ours.mean == pytest.approx(0.104 * 1.01)
    assert row.ours.std == pytest.approx(1.01 * 0.004 * (2 / 3) ** 0.5)
    assert str(row.paper) == "0.102 ± 0.003"
    assert row.paper_stds == pytest.approx(-(0.104 * 1.01 - 0.102) / 0.003)
    assert difference(row) == "+0.003 (1.0 sd worse)"
    assert row.verdict == "", "worse than the paper, though within its deviation, is not good"
    assert row.state == "3 of 10 runs"
    assert row.rule == "test where training stopped"


def test_accuracies_are_per_cent_and_more_is_better() -> None:
    row = row_of([record("mutag/gin", value, fold=fold) for fold, value in enumerate([0.9, 0.8] * 5)])
    assert row.ours is not None
    assert str(row.ours) == "85.0 ± 5.0"
    assert row.epoch == 5
    assert row.state == "10 folds"
    assert difference(row) == "−4.4 (0.8 sd worse)"
    assert row.verdict == ""
    near = row_of([record("mutag/gin", 0.95, fold=fold) for fold in range(10)])
    assert near.difference is not None
    assert near.difference > 0
    assert near.verdict == "good"
    far = row_of([record("mutag/gin", 0.7, fold=fold) for fold in range(10)])
    assert difference(far) == "−19.4 (3.5 sd worse)"
    assert far.verdict == "bad"


def test_without_a_standard_deviation_there_is_a_difference_alone() -> None:
    perfect = row_of([record("csl/ds-gin-ed", 1.0, fold=fold) for fold in range(5)])
    assert perfect.paper_stds is None
    assert difference(perfect) == "0.0"
    assert perfect.verdict == "good"
    exact = row_of([record("exp/ds-gin-ed", 0.999, fold=fold) for fold in range(10)])
    assert exact.paper is not None
    assert exact.paper.std == 0.0
    assert difference(exact) == "−0.1"
    assert exact.verdict == "bad"


def test_a_recipe_of_ones_own_has_no_paper_and_a_variant_has_that_of_its_origin() -> None:
    recipe = named("zinc/gin")
    own = row_of([record(recipe.variant(name="mine"), 0.3)])
    assert (own.paper, own.difference, own.verdict, own.name) == (None, None, "", "mine")
    variant = row_of([record(recipe.variant(lr=0.01), 0.3)])
    assert variant.paper == paper_number("zinc/gin")
    assert variant.name == "GIN with lr=0.01"


def test_what_was_not_run_is_said_so() -> None:
    row = empty_row(named("zinc/dss-gin-ego+"))
    line = cells(row)
    assert line["ours"] == "not yet run"
    assert line["paper"] == "0.102 ± 0.003"
    assert not any(line[name] for name in HEAD if name not in ("method", "paper", "ours"))
    assert cells(empty_row(named("zinc/gin"), unfinished=2))["runs"] == "not yet run, 2 unfinished"


def test_sampled_bags_show_how_much_their_votes_differ() -> None:
    runs = [record("exp/ds-gin-ed-5%", 0.99, fold=fold) for fold in range(2)]
    row = row_of([replace(run, spread=0.1 * (1 + run.fold)) for run in runs])
    assert cells(row)["spread of votes"] == "0.150"


def test_a_markdown_table_leaves_out_columns_of_which_nothing_is_known() -> None:
    rows = [empty_row(named("zinc/gin"))]
    assert table(rows).splitlines()[0] == "| method | paper | ours |"
    rows.append(row_of([record("zinc/dss-gin-ego+", 0.1)]))
    head, ruler, *lines = table(rows).splitlines()
    headings = {"best validation": "test at best validation"}
    assert [part.strip() for part in head.strip("|").split("|")] == [
        headings.get(name, name) for name in HEAD if name not in ("spread of votes", "ours is")
    ]
    assert len({line.count("|") for line in (head, ruler, *lines)}) == 1
    assert "| GIN | 0.252 ± 0.017 | not yet run |" in lines[0]
    odd = Row("a|b", "a", "a", "mae")
    assert "a\\|b" in table([odd])


def test_every_table_holds_one_metric_and_says_which() -> None:
    recipe = named("zinc/gin").variant(data="all.csv", name="a", targets="logS")
    numbers = replace(record(recipe, 0.6), metric="mae")
    other = replace(record(recipe.variant(name="b", targets="active"), 0.9), metric="accuracy")
    last, best = (
        record(recipe.variant(name=select, targets="active", select=select), 0.9) for select in ("last", "best-valid")
    )
    rows = [row_of([run]) for run in (numbers, other, replace(last, metric="rocauc"), replace(best, metric="rocauc"))]
    rows.append(empty_row(recipe.variant(name="later")))
    first, second, third = markdown(rows).split("\n## ")
    assert first.startswith("## all.csv, logS: mean absolute error, in the unit of the target\n\nOurs: test where")
    assert "0.6" in first
    assert "later | not yet run" in first, "what has not ended stands with the others of its data"
    assert second.startswith("all.csv, active: accuracy, per cent\n\nOurs: test where training stopped.\n")
    assert third.startswith("all.csv, active: ROC-AUC, per cent\n\n| method | ours | ours is |"), (
        "two rules, row by row"
    )
    assert "| test at the best validation of each run |" in third
    assert "| test at best validation |" in third.splitlines()[2]
    folds = row_of([record("mutag/gin", 0.9, fold=fold) for fold in range(10)])
    assert "| valid at best validation |" in markdown([folds])


def test_a_row_is_complete_with_every_fold_of_every_seed() -> None:
    def row(*jobs: tuple[int, int]) -> Row:
        return row_of([record("mutag/gin", 0.9, fold=fold, seed=seed) for fold, seed in jobs])

    first = [(fold, 0) for fold in range(10)]
    assert row(*first).is_complete
    assert row(*[(fold, 4) for fold in range(10)]).is_complete, "whichever the seed is"
    assert row(*first, *[(fold, 1) for fold in range(10)]).state == "10 folds × 2 seeds"
    halves = row(*[(fold, seed) for fold in range(5) for seed in range(2)])
    assert (halves.is_complete, halves.state) == (False, "10 of 20 runs")
    more = row(*first, *[(fold, 1) for fold in range(3)])
    assert (more.is_complete, more.state) == (False, "13 of 20 runs")
    seeds = row_of([record("zinc/gin", 0.2, seed=seed) for seed in range(11)])
    assert (seeds.is_complete, seeds.state) == (True, "11 seeds")


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ("zinc/dss-gin-ego+", "DSS-GNN (GIN) (EGO+)"),
        ("mutag/ds-graphconv-nd^", "DS-GNN (GraphConv) (ND^)"),
        ("exp/ds-gin-ed-5%", "DS-GNN (GIN) (ED) 5%"),
        ("ptc/id-gin", "GIN + ID-GNN"),
        ("ptc/dropedge-gin", "DropEdge (GIN)"),
        ("mutag/big-gin", "BIG-GIN"),
        ("ogbg-molhiv/gcn", "GCN"),
        ("mine", "mine"),
        ("some/thing-else", "some/thing-else"),
    ],
)
def test_recipes_are_called_what_the_paper_calls_them(recipe: str, words: str) -> None:
    assert method(recipe) == words


def test_tables_have_all_rows_of_the_paper() -> None:
    counts = {name: len(table_rows(name)) for name in TABLES}
    sampled_tu, sampled_others, csl = 24 * 7 + 8 + 1, 24 * 4, 24
    assert counts == {
        "zinc": 9,
        "csl": 18,
        "exp": 2 * 20,
        "tu": 31 * 7 + 4,
        "ogb": 2 * 18,
        "sampling": sampled_tu + sampled_others + csl,
        "timing": 0,
    }
    assert all(named(row.recipe).name == row.recipe for name in TABLES for row in table_rows(name))
    with pytest.raises(ValueError, match=r"Expected a table of the paper \(got 'qm9'\). There are zinc, csl"):
        table_named("qm9")


def test_times_sizes_and_signs_in_words() -> None:
    assert [duration(s) for s in (1.42, 42.4, 60, 200, 7500)] == ["1.4 s", "42 s", "1 min", "3 min 20 s", "2 h 5 min"]
    assert [size(b) for b in (12, 2**20, 3.25 * 2**30)] == ["12 B", "1 MiB", "3.2 GiB"]
    assert [signed(v, 1) for v in (0.26, -0.26, 0.01, -0.01)] == ["+0.3", "−0.3", "0.0", "0.0"]
