"""The page: one file, well formed, with everything in it and nothing from elsewhere."""

import base64
import hashlib
import json
import random
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from esan.cli.main import app
from esan.report.gather import gather
from esan.report.page.html_page import html
from esan.report.page.page_data import LEVELS, binned, packed
from esan.report.rows import empty_row, row_of
from esan.train.recipes.catalogue import named
from esan.train.runs.records import Epoch
from made_up_records import record, save

VOID = {"meta", "br", "rect", "line", "polyline", "polygon", "circle"}


class Balanced(HTMLParser):
    """Follows the tags; all that are opened are closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def text() -> str:
    rows = [
        row_of([record("zinc/dss-gin-ego+", 0.1 + 0.001 * seed, seed=seed) for seed in range(10)]),
        empty_row(named("zinc/gin")),
        row_of([record("mutag/gin", 0.5, fold=fold) for fold in range(4)]),
    ]
    return html("A <b>bold</b> title", rows, ["runs/x/record.json: left out. <broken>"])


def test_the_page_is_well_formed_and_needs_nothing_from_elsewhere(text: str) -> None:
    reader = Balanced()
    reader.feed(text)
    assert reader.open == []
    assert all(address.startswith("#") for address in reader.addresses)
    # The name of the SVG language is no address that anybody fetches.
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import| style=| on[a-z]+=\"", text)
    assert re.findall(r"url\(", text) == ["url("], "a clip path of the page itself"


def test_the_policy_of_the_page_allows_its_own_script_and_style_alone(text: str) -> None:
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (*scripts, style)]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{digests[0]}'; style-src 'sha256-{digests[1]}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    assert text.count("<script") == 2, "the data and the script"


def test_names_and_problems_are_text_wherever_they_stand(tmp_path: Path) -> None:
    evil = "x</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'"
    recipe = named("zinc/gin").variant(data="own")
    row = replace(row_of([record(recipe, 0.1)]), name=evil, recipe=evil, data=evil, targets=evil, rule=evil)
    made = html(evil, [row], [evil])
    assert "<img" not in made
    assert made.count("<script") == 2
    reader = Balanced()
    reader.feed(made)
    assert reader.open == []


def rows_of(text: str) -> list[dict[str, Any]]:
    (block,) = re.findall(r'id="data">([^<]*)<', text)
    return json.loads(zlib.decompress(base64.b64decode(block)))["rows"]


def test_the_page_holds_the_curves_of_every_run(text: str) -> None:
    zinc, unrun, mutag = rows_of(text)
    assert (len(zinc["runs"]), len(unrun["runs"]), len(mutag["runs"])) == (10, 0, 4)
    low, high, log, steps = zinc["runs"][3]["curves"]["test"]
    # Test errors 1.5, 1.25, 1.17, 1.125, 1 and 1.01 times the best.
    assert (low, high, log) == (0.103, 0.1545, 0)
    values = [low + (high - low) * number / LEVELS for number in accumulate(steps)]
    assert values == pytest.approx([line.test for line in record("zinc/gin", 0.103).curve], abs=(high - low) / LEVELS)
    assert set(mutag["runs"][0]["curves"]) == {"valid", "loss"}
    assert mutag["runs"][0]["curves"]["valid"][1] == pytest.approx(50.0)


def test_packed_values_come_back_on_either_scale_and_gaps_stay() -> None:
    for values in ([5.0, None, 0.5, 0.001], [-1.0, 2.0, None, 0.25], [3.0, 3.0]):
        low, high, log, steps = packed(values)
        assert log == (values[0] == 5.0)
        number, found = 0, []
        for step in steps:
            number += step or 0
            share = number / LEVELS
            found.append(None if step is None else low * (high / low) ** share if log else low + (high - low) * share)
        assert found == [None if value is None else pytest.approx(value, rel=0.01, abs=0.002) for value in values]
    assert binned([1.0, None, 3.0, float("nan"), None], 2) == [1.0, 3.0, None]


@pytest.mark.exhaustive
def test_a_page_of_thousands_of_runs_is_below_a_megabyte() -> None:
    noise = random.Random(0)
    rows = []
    for data in range(250):
        recipe = named("mutag/gin").variant(name=f"mine/{data}")
        one = record(recipe, 0.5)
        runs = []
        for fold in range(10):
            lines = [Epoch(e, 0.01, noise.random(), noise.random(), None) for e in range(1, 101)]
            runs.append(replace(one, fold=fold, curve=tuple(lines), epochs=100))
        rows.append(row_of(runs))
    assert len(html("many", rows).encode()) < 1_000_000


def test_the_page_says_all_that_was_found(text: str) -> None:
    for words in (
        "A &lt;b&gt;bold&lt;/b&gt; title",
        "left out. &lt;broken&gt;",
        "2 of 3 rows run, 14 runs",
        "0.102 ± 0.003",
        "not yet run",
        "4 of 10 runs",
        ">zinc: mean absolute error, in the unit of the target</h2>",
        ">mutag: accuracy, per cent</h2>",
        "Ours: test where training stopped.",
        "valid at best validation</th>",
        "10 seeds",
        "1 min 30 s",
        "1.0 GiB",
        "12,345",
        "a machine",
        "torch 2.6.0",
        "Test where training stopped".lower(),
        'class="bad"',
        "prefers-color-scheme: dark",
        "batch_size = 128",
    ):
        assert words in text, words
    assert text.count("<svg") == 2 + 2, "a comparison a dataset, and curves for what was run"


def test_the_command_writes_page_and_markdown_and_names_what_it_could_not_use(tmp_path: Path) -> None:
    save([record("zinc/gin", 0.25, seed=seed) for seed in range(2)], tmp_path)
    broken = tmp_path / "zinc" / "gin" / "0-1" / "record.json"
    broken.write_text("{")
    done = CliRunner().invoke(app, ["report", str(tmp_path), "--title", "Mine"])
    assert done.exit_code == 0, done.output
    assert "1 of 1 row run, 1 run." in done.output
    assert "0-1/record.json: left out" in done.output.replace("\n", "")
    table = (tmp_path / "report.md").read_text()
    assert table.startswith(
        "# Mine\n\n## zinc: mean absolute error, in the unit of the target\n\n"
        "Ours: test where training stopped.\n\n| method | paper |"
    )
    assert "| GIN | 0.252 ± 0.017 | 0.253 |" in table
    assert "<h1>Mine</h1>" in (tmp_path / "report.html").read_text()
    # Written beside the runs, and not taken for one of them.
    assert CliRunner().invoke(app, ["report", str(tmp_path)]).exit_code == 0


def test_an_empty_folder_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert done.exit_code == 2
    assert "Expected records under" in done.output
    assert "esan train RECIPE" in done.output.replace("\n", " ")


@pytest.mark.exhaustive  # reads thousands of records
def test_the_page_of_the_stored_results_is_below_a_megabyte() -> None:
    folder = Path(__file__).parents[2] / "paper" / "results"
    found = gather([folder])
    assert len(found.records) > 2000
    assert len(html("Results", found.rows(), found.problems).encode()) < 1_000_000
