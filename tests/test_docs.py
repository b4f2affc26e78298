"""Every Python block in README.md and docs/ runs, in order, each file in one namespace."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import esan
from esan.graphs import Graphs
from esan.train import named

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")


def blocks(page: Path) -> list[tuple[int, str]]:
    """The code of each block, and the line on which it starts."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, match.start(1)), match[1]) for match in BLOCK.finditer(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_on_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, Any] = {"__name__": __name__}  # a module that exists: PyG looks classes up there
    for line, code in blocks(page):
        # Blank lines in front, so that an error names the line of the page.
        exec(compile("\n" * line + code, str(page), "exec"), names)


def test_no_two_pages_give_one_name_to_their_runs() -> None:
    """Who runs the blocks of several pages in one folder must not meet the records of another page."""
    named_on: dict[str, set[str]] = {}
    for page in PAGES:
        for _, code in blocks(page):
            for name in re.findall(r'name="([^"/]+/[^"]+)"', code):
                named_on.setdefault(name, set()).add(page.name)
    assert named_on, "there are such blocks"
    assert {name: pages for name, pages in named_on.items() if len(pages) > 1} == {}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert not missing


def test_the_errors_that_the_readme_quotes_are_real() -> None:
    """The table of bad input, line by line, save the one about devices."""

    def read(arcs: list[list[int]], **rest: Any) -> Graphs:
        return esan.graphs.read(Data(edge_index=torch.tensor(arcs), **rest))

    bag = esan.Bag.of(esan.graphs.cycle(4), esan.NodeMarking(), num_layers=3)
    cases = [
        lambda: read([[0], [1]], num_nodes=2),
        lambda: read([[0, 0, 1], [1, 1, 0]], num_nodes=2),
        lambda: read([[0, 5], [5, 0]], num_nodes=3),
        lambda: read([[0, 1], [1, 0]], x=torch.tensor([[0.0], [torch.nan]])),
        lambda: esan.ds_gnn(None, 4, 4, 1, marked=True)(bag),
        lambda: esan.ds_gnn(None, 4, 3, 1)(bag),
        lambda: named("csl/gin").override(["lrr=0.1"]),
    ]
    table = (ROOT / "README.md").read_text(encoding="utf-8").split("## Bad input")[1].split("##")[0]
    quoted = re.findall(r"`(Expected [^`]+)`", table)
    for case, message in zip(cases, quoted, strict=False):
        with pytest.raises(ValueError, match=re.escape(message)):
            case()
    assert len(quoted) == len(cases) + 1


def test_the_numbers_of_the_paper_that_the_readme_has_are_those_of_the_results() -> None:
    """Each line of the table against the section with as many rows: the number of ours beside the paper's."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## The paper's numbers")[1].split("\n## ")[0]
    tables = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").split("\n## ")
    lines = re.findall(r"\| (\d+) of (\d+) \| (.*) \|", section)
    assert len(lines) == 6
    for run, rows, words in lines:
        (table,) = (text for text in tables if f"{run} of the paper's {rows} rows run" in text)
        for ours, paper in re.findall(r"\*\*([^*]+)\*\*(?: \((?:the paper )?([^)]+)\))?", words):
            assert f"| {paper} | {ours} |" in table if paper else f"| {ours} |" in table
