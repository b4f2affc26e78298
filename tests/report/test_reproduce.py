"""Reproducing a table: what it lacks is run and kept, what is there is left alone, and the page says which is which."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import esan
from esan.cli.main import app
from esan.report.reproduced_tables import TABLES, PaperNumber
from esan.report.reproduction import timing
from esan.report.reproduction.results_page import EARLIER, README, earlier_text, overview, results_page, table_text
from esan.report.reproduction.run_tables import reproduce, reproduce_tables, rows_of_all, table_jobs
from esan.report.reproduction.stored_results import chosen_rows, is_current, load_results, result_rows
from esan.report.reproduction.timing import EpochTimes, load_times, save_times, times_table, timing_recipes
from esan.report.rows import Measured, Row
from esan.train.campaigns.executors import Serial
from esan.train.recipes.catalogue import named
from esan.train.recipes.recipe import Recipe
from esan.train.runs.job import Job
from esan.train.runs.prepare_data import prepare
from esan.train.runs.record_table import add_records
from made_up_records import Pretend, record, save

ROOT = Path(__file__).parents[2]


def kept(results: Path) -> dict[str, str]:
    """The line of every stored run, by the name of its job."""
    lines = [line for path in results.rglob("runs.jsonl") for line in path.read_text().splitlines()]
    runs = {f"{run['recipe']}/{run['fold']}-{run['seed']}": line for line in lines for run in [json.loads(line)]}
    assert len(runs) == len(lines)
    return runs


def test_a_table_is_run_and_kept_and_then_there_is_nothing_left_to_do(tmp_path: Path) -> None:
    results, runs, first = tmp_path / "results", tmp_path / "runs", Pretend(0.25)
    assert reproduce("zinc", results, runs, first, rows=["gin", "zinc/dss-gin-ego+"], seeds=3) == {}
    assert len(first.ran) == len(kept(results)) == 6
    assert "zinc/gin/0-2" in kept(results)
    assert sorted(path.name for path in results.rglob("*") if path.is_file()) == [
        *(".lock", "README.md", "curves.npz", "recipes.json", "runs.jsonl")
    ]
    text = (results / "zinc" / "README.md").read_text()
    assert text.startswith("# ZINC12k")
    assert "None of the paper's 9 rows run yet, 2 more unfinished." in text
    assert text.count("not yet run") == 7
    before, second = kept(results), Pretend(0.9)
    # Kept results are enough: the folder of the runs, with its checkpoints, may be gone.
    assert reproduce("zinc", results, tmp_path / "elsewhere", second, rows=["gin"], seeds=4) == {}
    assert second.ran == ["zinc/gin/0-3"]
    assert before.items() <= kept(results).items()


def test_a_killed_table_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    results, runs = tmp_path / "results", tmp_path / "runs"
    stopped = Pretend(stop_after=4)
    with pytest.raises(KeyboardInterrupt):
        reproduce("zinc", results, runs, stopped, rows=["gin"])
    assert len(kept(results)) == 4
    # Ended, but killed before its record was kept:
    save([record("zinc/gin", 0.25, seed=7)], runs)
    again = Pretend()
    said: list[str] = []
    reproduce("zinc", results, runs, again, rows=["gin"], say=said.append)
    assert sorted(again.ran) == [f"zinc/gin/0-{seed}" for seed in (4, 5, 6, 8, 9)]
    assert len(kept(results)) == 10
    assert said[0] == "zinc: 5 of 10 runs are there"
    assert said[-1] == "zinc: 10 of 10 runs"


def test_one_row_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    said: list[str] = []
    executor = Pretend(bad="ds-gin-nd/")
    failures = reproduce("zinc", tmp_path / "results", tmp_path / "runs", executor, seeds=1, say=said.append)
    assert list(failures) == ["zinc/ds-gin-nd/0-0"]
    assert said[-1] == "zinc: 8 of 9 runs"
    assert len(kept(tmp_path / "results")) == 8


def test_a_row_is_stored_when_it_ends(tmp_path: Path) -> None:
    """Whoever is killed between two rows, even by force, has the first one in the table."""
    results, runs, seen = tmp_path / "results", tmp_path / "runs", []

    class Watching(Pretend):
        def make(self, job: Job) -> float:
            seen.append((job.name, len(kept(results))))
            return super().make(job)

    reproduce("zinc", results, runs, Watching(), rows=["gin", "zinc/ds-gin-nd"], seeds=3)
    assert dict(seen) == dict.fromkeys([f"zinc/gin/0-{seed}" for seed in range(3)], 0) | dict.fromkeys(
        [f"zinc/ds-gin-nd/0-{seed}" for seed in range(3)], 3
    )
    assert len(kept(results)) == 6


def test_several_tables_are_one_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker waits for the last run of a table: the jobs of all tables are handed out together."""
    campaigns: list[int] = []

    class Counting(Pretend):
        def map(self, work: Any, items: Any) -> Any:
            campaigns.append(len(items))
            return super().map(work, items)

    executor, results = Counting(), tmp_path / "results"
    said: list[str] = []
    tables = {"zinc": ["gin"], "csl": ["csl/gin", "csl/graphconv"]}
    assert reproduce_tables(tables, results, tmp_path / "runs", executor, seeds=2, say=said.append) == {}
    assert campaigns == [2 + 10 + 10]
    assert {table: len(kept(results / table)) for table in tables} == {"zinc": 2, "csl": 20}
    assert said[:3] == ["zinc: 0 of 2 runs are there", "csl: 0 of 20 runs are there", "zinc: 1 of 2 runs"]
    assert said[-1] == "csl: 20 of 20 runs"
    monkeypatch.setattr(Serial, "map", executor.map)
    options = ["--results", str(tmp_path / "more"), "--runs", str(tmp_path / "runs2"), "--seeds", "1"]
    done = CliRunner().invoke(app, ["reproduce", "all", "--row", "mutag/gin", "--row", "exp/gin", *options])
    assert campaigns[1:] == [10 + 10]
    assert "mutag/gin" in done.output
    assert "exp/gin" in done.output
    assert done.exit_code == 0


class Damaging(Pretend):
    """Damages a table during the first run."""

    def __init__(self, path: Path, stop_after: int | None = None) -> None:
        super().__init__(stop_after=stop_after)
        self.path = path

    def make(self, job: Job) -> float:
        if len(self.ran) == 1:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text("{\n")
        return super().make(job)


def test_a_table_that_becomes_damaged_does_not_stop_the_others(tmp_path: Path) -> None:
    results, tables = tmp_path / "results", {"zinc": ["gin"], "csl": ["csl/gin"]}
    damaged = results / "zinc" / "runs.jsonl"
    with pytest.raises(ValueError, match=r"Expected a whole file of a record table at .*zinc"):
        reproduce_tables(tables, results, tmp_path / "runs", Damaging(damaged), seeds=1)
    assert len(kept(results / "csl")) == 5
    damaged.unlink()
    assert reproduce_tables(tables, results, tmp_path / "runs", Pretend(stop_after=0), seeds=1) == {}
    assert len(kept(results / "zinc")) == 1, "what was run is not lost"


def test_an_interrupt_is_not_hidden_by_a_damaged_table(tmp_path: Path) -> None:
    results, tables = tmp_path / "results", {"zinc": ["gin"], "csl": ["csl/gin"]}
    executor = Damaging(results / "zinc" / "runs.jsonl", stop_after=3)
    with pytest.raises(KeyboardInterrupt):
        reproduce_tables(tables, results, tmp_path / "runs", executor, seeds=1)
    assert len(kept(results / "csl")) == 2


def test_a_damaged_record_is_not_counted(tmp_path: Path) -> None:
    save([record("zinc/gin", 0.25, seed=seed) for seed in range(3)], tmp_path / "runs")
    (tmp_path / "runs" / "zinc" / "gin" / "0-1" / "record.json").write_text("{")
    said: list[str] = []
    with pytest.warns(UserWarning, match="was damaged"):
        reproduce("zinc", tmp_path, tmp_path / "runs", Pretend(), rows=["gin"], seeds=3, say=said.append)
    assert said == ["zinc: 2 of 3 runs are there", "zinc: 3 of 3 runs"]


def test_what_is_wrong_with_times_is_said_before_anything_runs(tmp_path: Path) -> None:
    executor = Pretend()
    with pytest.raises(ValueError, match="Expected a row of the table timing"):
        reproduce_tables({"zinc": ["gin"], "timing": ["nonsense"]}, tmp_path, tmp_path / "runs", executor)
    assert executor.ran == []


def test_results_of_a_recipe_that_has_changed_are_not_passed_off_as_its_own(tmp_path: Path) -> None:
    old = named("zinc/gin").variant(name="zinc/gin", lr=0.5)
    add_records(tmp_path / "zinc", [record(old, 0.2)])
    found = load_results(tmp_path / "zinc")
    assert found.records == ()
    assert "1 run of zinc/gin left out. The recipe has other settings now" in found.problems[0]
    with pytest.raises(ValueError, match=r"Expected results of the recipe zinc/gin in .* \(got some with lr 0\.5, not"):
        reproduce("zinc", tmp_path, tmp_path / "runs", Pretend(), rows=["gin"])


def test_a_variant_of_a_recipe_that_has_changed_is_left_out_too() -> None:
    today = named("mutag/gin").variant(lr=0.001)
    assert is_current(today)
    assert is_current(replace(today, hidden_channels=16, name="mutag/gin~lr=0.001,width=16")), "by its earlier name"
    assert not is_current(replace(today, jk="cat"))
    assert not is_current(replace(today, name="mutag/gin"))
    assert is_current(replace(today, name="my own"))


def test_single_records_of_earlier_versions_count(tmp_path: Path) -> None:
    for seed in range(2):
        record("zinc/gin", 0.25, seed=seed).save(tmp_path / "zinc" / "zinc" / "gin" / f"0-{seed}.json")
    (tmp_path / "zinc" / "zinc" / "gin" / "0-1.json").write_text("{")
    executor = Pretend()
    reproduce("zinc", tmp_path, tmp_path / "runs", executor, rows=["gin"], seeds=3)
    assert executor.ran == ["zinc/gin/0-1", "zinc/gin/0-2"], "a damaged one is run again"
    assert len(load_results(tmp_path / "zinc").records) == 3


def test_a_damaged_table_is_named_and_nothing_runs(tmp_path: Path) -> None:
    reproduce("zinc", tmp_path, tmp_path / "runs", Pretend(), rows=["gin"], seeds=2)
    path = tmp_path / "zinc" / "runs.jsonl"
    path.write_text(path.read_text()[:-30])
    executor = Pretend()
    with pytest.raises(ValueError, match=r"runs\.jsonl \(got damage in line 2: "):
        reproduce("zinc", tmp_path, tmp_path / "runs", executor, rows=["gin"], seeds=3)
    assert executor.ran == []


def test_variants_and_rows_that_the_paper_does_not_have_stand_beside_its_own(tmp_path: Path) -> None:
    jobs = table_jobs("tu", ["mutag/rni-gin"], seeds=1)
    assert [job.name for job in jobs] == [f"mutag/rni-gin/{fold}-0" for fold in range(10)]
    reproduce("tu", tmp_path, tmp_path / "runs", Pretend(0.8), rows=["mutag/rni-gin", "mutag/gin"])
    reproduce("tu", tmp_path, tmp_path / "runs", Pretend(0.9), rows=["mutag/gin"], changes=["lr=0.001"])
    rows = [row for row in result_rows("tu", load_results(tmp_path / "tu")) if row.records]
    assert [row.name for row in rows] == ["GIN", "GIN with lr=0.001", "RNI (GIN)"]
    text = table_text("tu", tmp_path)
    assert "1 of the paper's 221 rows run; 1 variant of them; 1 that the paper does not have." in text
    assert "| GIN | **80.0 ± 0.0** (90.0 ± 0.0 with lr=0.001), 89.4 ± 5.6 | –, 64.6 ± 7.0 |" in text
    assert "### mutag" in text


def test_rows_are_chosen_by_recipe_dataset_or_method() -> None:
    assert chosen_rows("zinc", ["zinc/gin"]) == ["zinc/gin"]
    assert len(chosen_rows("tu", ["ptc"])) == 31
    assert chosen_rows("exp", ["gin", "cexp/gin"]) == ["exp/gin", "cexp/gin"]
    for wrong in ("qm9", "zinc/nonsense"):
        with pytest.raises(ValueError, match="Expected"):
            chosen_rows("zinc", [wrong])


def test_the_page_of_results_has_every_table_and_the_notes_beside_its_records(tmp_path: Path) -> None:
    results = tmp_path / "paper" / "results"
    add_records(results / "zinc", [record("zinc/gin", 0.25)])
    (results / "zinc" / "notes.md").write_text("Two seeds diverge: see there.\n")
    text = results_page(results, tmp_path / "docs" / "results.md")
    assert "](../paper/results)" in text
    assert text.count("\n## ") == 7
    assert "Two seeds diverge: see there." in text
    assert "| GIN | 1.00 ± 0.05 | not yet run |" in text


def test_the_page_of_results_is_what_the_records_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page, results = Path("docs/tables.md"), Path("paper/results")
    if not page.exists():
        pytest.skip("there is no page of results yet")
    assert page.read_text() == results_page(results, page), "run: esan reproduce all --dry --docs docs/tables.md"
    for earlier in sorted((results / EARLIER).glob(f"*/{README}")):
        assert earlier.read_text() == earlier_text(earlier.parent.name, results), earlier


def test_times_are_kept_and_stand_beside_the_papers(tmp_path: Path) -> None:
    timed = EpochTimes("nci1/ds-gin-ed-20%", (0.5, 0.52, 0.48), 3.0, 3699, "a GPU", {"esan": "0.1.0"}, "2026-01-01")
    save_times(timed, tmp_path)
    assert load_times(tmp_path) == {timed.recipe: timed}
    text = times_table(load_times(tmp_path))
    assert "The paper: RTX 2080, mean ± deviation; ours: a GPU, median (least to most). 1 of 26 rows run." in text
    assert (
        "| DS-GNN (GIN) (ED) | 2.07 ± 0.01 | not yet run | 1.73 ± 0.01 | **0.5 (0.48 to 0.52)** | 3.56 ± 0.03 |" in text
    )
    assert all(named(name).name == name for name in timing_recipes())
    (tmp_path / "times.jsonl").write_text((tmp_path / "times.jsonl").read_text() + "{\n")
    with pytest.raises(ValueError, match=r"times\.jsonl \(got damage in line 2"):
        load_times(tmp_path)
    (tmp_path / "broken.json").write_text(json.dumps({"recipe": "x"}))
    with pytest.raises(ValueError, match=r"Expected times at .*broken\.json"):
        load_times(tmp_path)


def test_times_are_measured_once_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def pretend(recipe: str, device: str, **folders: object) -> EpochTimes:
        asked.append(recipe)
        if recipe == "zinc/ds-gin-ed":
            raise ValueError("Expected data (got none).")
        return EpochTimes(recipe, (0.1,), 1.0, 10, device, {}, "")

    monkeypatch.setattr("esan.report.reproduction.run_tables.measure", pretend)
    failures = reproduce("timing", tmp_path, tmp_path / "runs", rows=["zinc"], device="cpu")
    assert len(asked) == 9
    assert {name: failure.reason for name, failure in failures.items()} == {
        "zinc/ds-gin-ed": "Expected data (got none)."
    }
    assert reproduce("timing", tmp_path, tmp_path / "runs", rows=["gin", "zinc/dss-gin-ed"]) == {}
    assert asked[9:] == ["nci1/gin"]
    assert "9 of 26 rows run" in (tmp_path / "timing" / "README.md").read_text()
    with pytest.raises(ValueError, match=r"Expected a row of the table timing \(got 'qm9'\)"):
        reproduce("timing", tmp_path, tmp_path / "runs", rows=["qm9"])


def test_an_epoch_is_timed_after_warming_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = [esan.graphs.cycle(n) for n in (4, 5, 6, 7, 8, 9, 10, 11)]
    data = esan.data.own(graphs, labels=[0, 1] * 4, name="cycles")
    recipe = Recipe(
        data="cycles",
        name="small",
        policy=esan.NodeDeletion(),
        num_layers=2,
        hidden_channels=4,
        split="folds",
        folds=2,
        batch_size=2,
    )
    monkeypatch.setattr(timing, "named", lambda name: recipe)
    monkeypatch.setattr(timing, "prepare", partial(prepare, dataset=data))
    timed = timing.measure("small", epochs=3, warm=1, cache=tmp_path)
    assert len(timed.seconds) == 3
    assert all(second > 0 for second in timed.seconds)
    assert timed.graphs == 4


def test_the_command_names_an_unknown_table_and_writes_tables_without_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = CliRunner().invoke(app, ["reproduce", "qm9"])
    assert wrong.exit_code == 2
    assert "Expected a table of the paper (got 'qm9')" in wrong.output
    assert "timing; all runs every one of them." in " ".join(wrong.output.split())
    add_records("paper/results/zinc", [record("zinc/gin", 0.25)])
    Path("paper/results/zinc/0-1.json").write_text("{")
    dry = CliRunner().invoke(app, ["reproduce", "all", "--dry", "--docs", "docs/results.md"])
    assert dry.exit_code == 0, dry.output
    assert "0-1.json: left out" in dry.output.replace("\n", "")
    assert "| GIN | 0.252 ± 0.017 | 0.253 |" in Path("docs/results.md").read_text()
    assert sorted(path.parent.name for path in Path("paper/results").glob("*/README.md")) == sorted(
        ["zinc", "csl", "exp", "tu", "ogb", "sampling", "timing"]
    )
    for table in ("tu", "timing"):
        strange = CliRunner().invoke(app, ["reproduce", table, "--row", "foo", "--dry"])
        assert strange.exit_code == 2
        assert f"Expected a row of the table {table} (got 'foo')" in strange.output
    assert CliRunner().invoke(app, ["reproduce", "zinc", "--executor", "slurm"]).exit_code == 2


@pytest.mark.parametrize("more", [["--set", "epochs=2"], ["--grid"]])
def test_nothing_is_asked_of_what_runs_nothing(tmp_path: Path, more: list[str]) -> None:
    done = CliRunner().invoke(app, ["reproduce", "zinc", "--dry", "--results", str(tmp_path), *more])
    assert done.exit_code == 2
    assert f"Expected --dry alone, which runs nothing (got {more[0]} too)" in " ".join(done.output.split())


def test_rows_of_all_tables_are_those_of_the_tables_that_have_them(tmp_path: Path) -> None:
    assert rows_of_all([]) == {table: [] for table in TABLES}
    assert rows_of_all(["mutag/gin", "zinc"]) == {"zinc": ["zinc"], "tu": ["mutag/gin"], "timing": ["zinc"]}
    assert "csl" in rows_of_all(["gin"])
    wrong = CliRunner().invoke(app, ["reproduce", "all", "--row", "mutag/gni", "--dry", "--results", str(tmp_path)])
    assert wrong.exit_code == 2
    assert "Expected a row of one of the tables zinc, " in wrong.output.replace("\n", " ")


@pytest.mark.parametrize("grid", [[], ["--grid"]])
@pytest.mark.parametrize("folder", ["results", "runs"])
def test_folders_that_cannot_be_written_to_are_named_before_anything_runs(
    tmp_path: Path, folder: str, grid: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Serial, "map", lambda *_: pytest.fail("something ran"))
    folders = {"results": tmp_path / "here", "runs": tmp_path / "there"}
    folders[folder].touch()
    options = [text for name, path in folders.items() for text in (f"--{name}", str(path))]
    wrong = CliRunner().invoke(app, ["reproduce", "tu", "--row", "mutag/gin", *grid, *options])
    assert wrong.exit_code == 2
    assert "Expected" in wrong.output
    assert str(folders[folder]) in wrong.output.replace("\n", "")


def test_whoever_interrupts_is_reported_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Serial, "map", Pretend(stop_after=0).map)
    options = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    ended = CliRunner().invoke(app, ["reproduce", "tu", "--row", "mutag/gin", *options])
    assert ended.exit_code == 130
    assert "Interrupted. Run the same command to continue" in ended.output


def test_a_cell_that_the_paper_does_not_have() -> None:
    ours = Measured(90.0, 5.0, 1)
    rows = [
        Row("GIN", "mutag/gin", "mutag", "accuracy", PaperNumber("mutag/gin", 89.4, 5.6, 1), ours),
        Row("GIN", "ptc/gin", "ptc", "accuracy", None, ours),
    ]
    assert "| GIN | **90.0 ± 5.0**, 89.4 ± 5.6 | **90.0 ± 5.0** |" in overview(rows)


def test_other_choices_stand_in_brackets_where_validation_chooses_them() -> None:
    def cell(ours: float, **variant: Any) -> str:
        row = Row("GIN", "mutag/gin", "mutag", "accuracy", None, Measured(80.0, 1.0, 1), part="valid")
        other = replace(row, name="GIN with lr=0.1", recipe="mutag/gin~lr=0.1", ours=Measured(ours, 1.0, 1))
        row, other = (replace(one, **variant) for one in (row, other))
        return overview([row, other]).splitlines()[2]

    better = "| GIN | **80.0 ± 1.0** (90.0 ± 1.0 with lr=0.1) |"
    assert cell(90.0) == better
    assert cell(70.0) == cell(80.0) == "| GIN | **80.0 ± 1.0** |"
    assert cell(90.0, part="test") == "| GIN | **80.0 ± 1.0** |", "test graphs choose nothing"
    assert cell(90.0, metric="mae") == "| GIN | **80.0 ± 1.0** |"
    assert cell(70.0, metric="mae") != cell(70.0)
    assert cell(90.0, jobs=10) == "| GIN | **80.0 ± 1.0** (0 of 10 runs) |"
