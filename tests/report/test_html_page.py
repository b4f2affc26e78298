"""The page: one file, well formed, with everything in it and nothing from elsewhere."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_up import record, save
from typer.testing import CliRunner

from esan.cli.main import app
from esan.report.html_page import html
from esan.report.rows import empty_row, row_of
from esan.train.recipes.catalogue import named

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
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|url\(|@import|<script", text)


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
