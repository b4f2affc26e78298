"""Documentation: every Python block runs, links lead somewhere, numbers are the records', no name is missing."""

import ast
import dataclasses
import importlib
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

import esan
from esan.cli.main import app
from esan.graphs import Graphs
from esan.train import Recipe, named
from esan.train.recipes.recipe_fields import plain

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs" / "tools"))

from blocks import Block, blocks, run  # noqa: E402  (a tool of the documentation, not of the package)
from gallery import BLOCK as GALLERY_BLOCK  # noqa: E402
from gallery import commands, run_gallery  # noqa: E402

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
API = sorted((ROOT / "docs" / "api").glob("*.md"))
ROOT_PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
NOTES = sorted((ROOT / "benchmarks" / "notes").glob("*.md"))
LINKED = [*ROOT_PAGES, *PAGES[1:], *TUTORIALS, *API, *NOTES]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)]*))?\)")
PACKAGES = ("graphs", "policies", "bags", "nn", "ops", "wl", "explore", "data", "train", "testing", "report")


def short(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def run_page(page: Path) -> None:
    torch.manual_seed(0)
    names: dict[str, Any] = {"__name__": __name__}  # a module that exists: PyG looks classes up there
    for block in blocks(text_of(page)):
        if not block.reason:
            run(block, page, names)


#: The pages whose code `make test` runs; `make docs` runs that of all.
QUICK = ("README.md", "docs/bags.md", "docs/models.md", "docs/own_policy.md")


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if short(page) in QUICK else pytest.mark.exhaustive) for page in PAGES],
    ids=short,
)
def test_the_code_on_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page)


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", TUTORIALS, ids=short)
def test_a_tutorial_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make docs` runs them, too, and shows what they give."""
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_blocks_are_found_run_and_shown() -> None:
    page = '# A\n\n```python\nx = 1\nprint("said")\nx + 1\n```\n\n```python no-run="why"\nimport nothing\n```\n'
    first, second = blocks(page)
    assert first == Block(line=3, code='x = 1\nprint("said")\nx + 1\n', reason="")
    assert second.reason == "why"
    assert run(first, Path("page.md"), {}).text == "said\n2\n"
    with pytest.raises(ZeroDivisionError) as failed:
        run(Block(line=7, code="1 / 0\n", reason=""), Path("page.md"), {})
    assert failed.traceback[-1].lineno == 7  # counted from 0: the eighth line of the page
    with pytest.raises(ValueError, match="Expected ```python or"):
        blocks("```python skip\n1\n```\n")


def test_no_two_pages_give_one_name_to_their_runs() -> None:
    """Who runs the blocks of several pages in one folder must not meet the records of another page."""
    named_on: dict[str, set[str]] = {}
    for page in [*PAGES, *TUTORIALS]:
        for block in blocks(text_of(page)):
            for name in re.findall(r'name="([^"/]+/[^"]+)"', block.code):
                named_on.setdefault(name, set()).add(page.name)
    assert named_on, "there are such blocks"
    assert {name: pages for name, pages in named_on.items() if len(pages) > 1} == {}


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, and of the names that an API page documents."""
    text = re.sub(r"^(`{3,}).*?^\1", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    made = {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", head.strip().lower())) for head in heads}
    return made | set(re.findall(r"^::: (\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("page", LINKED, ids=short)
def test_links_lead_somewhere(page: Path) -> None:
    missing = []
    for target, anchor in LINK.findall(text_of(page)):
        linked = page.parent / target if target else page
        if not linked.exists() or (anchor and anchor not in anchors(linked)):
            missing.append(f"{target}#{anchor}")
    assert not missing


def is_path(word: str) -> bool:
    return re.fullmatch(r"[\w.-]+(/[\w.+-]+)+/?", word) is not None and word.split("/")[0] in {
        "src", "tests", "docs", "benchmarks", "examples", "paper",
    }  # fmt: skip


@pytest.mark.parametrize("page", [*ROOT_PAGES, *PAGES[1:]], ids=short)
def test_the_files_that_a_page_names_exist(page: Path) -> None:
    words = [word for word in re.findall(r"`([^`\n]+)`", text_of(page)) if is_path(word)]
    assert [word for word in words if not (ROOT / word).exists()] == []


def test_the_map_of_the_code_names_files() -> None:
    for name in ("ARCHITECTURE.md", "CONTRIBUTING.md"):
        assert len([word for word in re.findall(r"`([^`\n]+)`", text_of(ROOT / name)) if is_path(word)]) > 10


def public(package: ModuleType) -> dict[str, Any]:
    """What a package re-exports: `from x import y as y`, or `__all__`."""
    if hasattr(package, "__all__"):
        return {name: getattr(package, name) for name in package.__all__}
    tree = ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))
    aliases = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    return {alias.asname: getattr(package, alias.asname) for alias in aliases if alias.asname == alias.name}


def test_every_public_name_is_in_the_api_reference() -> None:
    said = [path for page in API for path in re.findall(r"^::: (\S+)$", text_of(page), re.MULTILINE)]
    assert len(said) == len(set(said)), "each name once"
    documented = []
    for path in said:
        package, name = path.rsplit(".", 1)
        documented.append(getattr(importlib.import_module(package), name))  # an error if it is gone
    missing = []
    for package in ("esan", *(f"esan.{part}" for part in PACKAGES)):
        for name, thing in public(importlib.import_module(package)).items():
            if isinstance(thing, ModuleType) or name.startswith("__"):
                continue
            if not any(thing is one for one in documented):
                missing.append(f"{package}.{name}")
    assert missing == [], "add a line ::: NAME to a page in docs/api/"


def test_every_page_is_in_the_navigation() -> None:
    said = re.findall(r": ([\w/]+\.md)$", text_of(ROOT / "mkdocs.yml"), re.MULTILINE)
    pages = [*PAGES[1:], *TUTORIALS, *API]
    assert sorted(said) == sorted(page.relative_to(ROOT / "docs").as_posix() for page in pages)


def test_the_table_of_recipe_fields_is_complete() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (?:`([^`]*)`)? ?\|", text_of(ROOT / "docs" / "training.md"), re.MULTILINE)
    result = dict(rows)
    for field in dataclasses.fields(Recipe):
        default = "" if field.name in ("data", "name", "grid") else json.dumps(plain(field.default))
        assert result[field.name] == default


def test_the_errors_that_the_faq_quotes_are_real() -> None:
    def read(edges: list[list[int]], **rest: Any) -> Graphs:
        return esan.graphs.read(Data(edge_index=torch.tensor(edges), **rest))

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
    table = text_of(ROOT / "docs" / "faq.md").split("## What is refused?")[1].split("##")[0]
    quoted = re.findall(r"`(Expected [^`]+)`", table)
    for case, message in zip(cases, quoted, strict=True):
        with pytest.raises(ValueError, match=re.escape(message)):
            case()


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_results_are_those_of_the_tables(page: str) -> None:
    """Each row against the section with as many rows run: the number of ours beside the paper's."""
    tables = text_of(ROOT / "docs" / "tables.md").split("\n## ")
    lines = re.findall(r"\| (\d+) of (\d+) \| (.*) \|", text_of(ROOT / page))
    assert len(lines) >= 2
    for done, rows, words in lines:
        (table,) = (
            text
            for text in tables
            if f"{done} of the paper's {rows} rows run" in text or f"{done} of {rows} rows" in text
        )
        for ours, paper in re.findall(r"\*\*([^*]+)\*\*(?: \(([^)]+)\))?", words):
            assert f"| {paper} | {ours} |" in table if paper else f"| {ours} |" in table


def figures(name: str) -> dict[str, Any]:
    return json.loads(text_of(ROOT / "benchmarks" / "figures" / f"{name}.json"))


def loops(record: str = "loop") -> dict[str, float]:
    return {row["loop"]: row["s per epoch"] for row in figures(record)["rows"]}


def table_rows(page: Path) -> dict[str, list[str]]:
    """The rows of all tables of a page: the other cells by the first."""
    lines = [line for line in text_of(page).splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return {line[0]: line[1:] for line in cells}


def test_costs_in_the_readme_are_those_of_the_records() -> None:
    rows = table_rows(ROOT / "README.md")
    loop = loops()
    own, faster, ten = (
        rows[key] for key in rows if key.startswith(("epoch of ZINC12k, DSS-GNN EGO+(3), your", "that loop with"))
    )
    assert own[0] == f"{loop['DSS EGO+(3), step']:.2g} s"
    assert own[1].startswith(f"{loop['PyG GIN']:.2g} s")
    assert figures("loop")["machine"]["date"] in own[2]
    assert faster[0] == f"{loop['DSS EGO+(3), eager']:.2g} s"
    assert ten[0] == f"{loop['DSS EGO+(3), ten networks, step']:.2g} s"
    (epoch,) = (row for row in figures("epoch")["rows"] if row["recipe"] == "zinc/dss-gin-ego+")
    trained = rows["epoch of ZINC12k, DSS-GNN EGO+(3), `esan train`"]
    assert trained[0] == f"{epoch['esan, s']:.3g} s, {epoch['esan, MiB']:.0f} MiB"
    assert trained[1].startswith(f"{epoch['usual, s']:.3g} s, {epoch['usual, MiB']:.0f} MiB")
    (step,) = (row for row in figures("step_zinc")["rows"] if (row["network"], row["policy"]) == ("DSS", "EGO+(3)"))
    on_cpu = rows["step on 128 molecules of ZINC12k on a CPU, DSS-GNN EGO+(3)"]
    assert on_cpu[1].startswith(f"{step['compact vs yardstick']:.2g}:")


def test_loops_on_the_page_of_speed_are_those_of_the_records() -> None:
    """One column per run: each cell is that run's record, and is empty where the run did not have the loop."""
    rows = table_rows(ROOT / "docs" / "speed.md")
    runs = [loops(name) for name in ("loop_first", "loop", "loop_hooks", "loop_eager", "loop_fields")]
    for row, names in {
        "plain GIN in PyG": ["PyG GIN"],
        "DSS EGO+(3), with `esan.step`": ["DSS EGO+(3), step"],
        "… without `esan.step`": ["DSS EGO+(3), eager"],
        "… positions, names and targets in double precision in the batch, with and without `esan.step`": [
            f"DSS EGO+(3), more fields, {way}" for way in ("step", "eager")
        ],
        "… literal bag, with `esan.step`": ["DSS EGO+(3), literal, step"],
        "… ten networks as an `esan.Ensemble`, with `esan.step`": ["DSS EGO+(3), ten networks, step"],
        "… GraphConv, with and without `esan.step`": [f"DSS EGO+(3), GraphConv, {way}" for way in ("step", "eager")],
        "… PyG's GATConv, without `esan.step`": ["DSS EGO+(3), GATConv, eager"],
        "… forward hooks on all eight convolutions, without `esan.step`": ["DSS EGO+(3), hooks on convs, eager"],
        "… a convolution of a user's own, without `esan.step`": ["DSS EGO+(3), own conv, eager"],
        "… the same, declared `capturable`": ["DSS EGO+(3), own conv, capturable, eager"],
        "DS EGO+(3), with `esan.step`": ["DS EGO+(3), step"],
    }.items():
        assert rows[row] == [", ".join(f"{run[name]:.2g}" for name in names if name in run) for run in runs]
    assert figures("loop")["machine"]["date"] in text_of(ROOT / "docs" / "speed.md")


def test_the_readme_is_short() -> None:
    assert len(text_of(ROOT / "README.md").split()) <= 1300


@pytest.mark.exhaustive  # `make docs` runs the gallery, too, and shows what it makes
def test_every_command_of_the_gallery_makes_a_picture_or_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = text_of(ROOT / "docs" / "gallery.md")
    made = run_gallery(ROOT / "docs" / "gallery.md", tmp_path)
    kinds = [match["kind"] for match in GALLERY_BLOCK.finditer(text)]
    assert kinds.count("bash") >= 8
    assert [kind for kind, one in zip(kinds, made, strict=True) if kind == "bash" and not one.files] == []
    pictures = [data for one in made for name, data in one.files.items() if name.endswith(".png")]
    assert all(data.startswith(b"\x89PNG") for data in pictures)


def test_the_commands_of_the_gallery_are_esans_own_and_known() -> None:
    """Their options exist: quick, where running them is not."""
    page = text_of(ROOT / "docs" / "gallery.md")
    codes = [match["code"] for match in GALLERY_BLOCK.finditer(page) if match["kind"] == "bash"]
    found = [command for code in codes for command in commands(code)]
    assert {name for name, *_ in found} == {"wl", "bag", "advise", "explore", "report"}
    for name, *more in found:
        told = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).output
        assert [word for word in more if word.startswith("--") and word not in told] == []
    with pytest.raises(ValueError, match="Expected commands of esan alone"):
        commands("rm -r x\n")
