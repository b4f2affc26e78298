"""Names and labels are a user's own: Markdown shows them as they are, and one wrong record is named, not fatal."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from esan.report import gather, markdown
from esan.report.formatting import escape_markdown
from esan.train.recipes.recipe import Recipe
from esan.train.runs.records import Record
from made_up_records import record, save


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("a|b", "a\\|b"),
        ("[x](http://y)", "\\[x\\](http://y)"),
        ("![x](y)", "\\!\\[x\\](y)"),
        ("`code` **bold** _it_ ~~gone~~", "\\`code\\` \\*\\*bold\\*\\* \\_it\\_ \\~\\~gone\\~\\~"),
        ("# head\n- item", "\\# head - item"),
        ("batch_size=128, EGO+(2) ~lr=0.1 ± 3 & 4", "batch_size=128, EGO+(2) ~lr=0.1 ± 3 &amp; 4"),
        ("a\\", "a\\\\"),
    ],
)
def test_markup_is_escaped(text: str, shown: str) -> None:
    assert escape_markdown(text) == shown


def test_a_report_holds_no_markup_of_names() -> None:
    from esan.report.rows import row_of

    data = "sets/<img src=x onerror=alert(1)>|[a](b).csv"
    recipe = Recipe(data=data, name="own/a_b", targets="`y` | <b>")
    text = markdown([row_of([replace(record("zinc/gin", 0.25), recipe=recipe)])])
    assert "<" not in text
    assert "\\[a\\](b)" in text
    cells = {len(re.split(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")}
    assert len(cells) == 1, "every line of the table has as many cells"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("metric", "loss"),
        ("metric", 3),
        ("seconds", "long"),
        ("seconds", None),
        ("seed", "0"),
        ("fold", 0.5),
        ("epochs", 0),
        ("parameters", [1]),
        ("peak_bytes", None),
        ("versions", ["esan"]),
        ("hardware", 7),
        ("curve", []),
        ("curve", [[1, 0.1, 0.1, "x", None]]),
        ("curve", [[2, 0.1, 0.1, 0.1, None]]),
        ("curve", [[1, 0.1, 0.1, float("nan"), None]]),
        ("best", {"epoch": 99, "train": None, "valid": 0.1, "test": 0.1}),
        ("best", None),
        ("final", {"epoch": 1, "train": "x", "valid": 0.1, "test": 0.1}),
        ("recipe", "zinc/gin"),
        ("spread", "wide"),
        ("another", 1),
    ],
)
def test_a_wrong_field_loses_one_record_and_not_the_report(field: str, value: Any, tmp_path: Path) -> None:
    save([record("zinc/gin", 0.25, seed=seed) for seed in range(3)], tmp_path)
    broken = tmp_path / "zinc" / "gin" / "0-1" / "record.json"
    broken.write_text(json.dumps(json.loads(broken.read_text()) | {field: value}))
    found = gather([tmp_path])
    assert [one.seed for one in found.records] == [0, 2]
    (problem,) = found.problems
    assert "Expected a whole record" in problem
    assert "zinc" in markdown(found.rows())


def test_a_record_of_another_metric_is_named(tmp_path: Path) -> None:
    save([record("zinc/gin", 0.25, seed=seed) for seed in range(2)], tmp_path)
    save([replace(record("zinc/gin", 0.25, seed=2), metric="accuracy")], tmp_path)
    found = gather([tmp_path])
    assert [one.seed for one in found.records] == [0, 1]
    assert "Its metric differs" in found.problems[0]


def test_nested_brackets_are_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text('data = "zinc"\nlr = ' + "[" * 3000 + "]" * 3000)
    with pytest.raises(ValueError, match=r"Expected TOML in .*nested too deeply") as refused:
        Recipe.load(tmp_path / "recipe.toml")
    assert len(str(refused.value)) < 500
    with pytest.raises(ValueError, match="Expected a value"):
        Recipe(data="zinc").override(["lr=" + "[" * 3000])
    (tmp_path / "record.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="Expected a whole record"):
        Record.load(tmp_path / "record.json")
