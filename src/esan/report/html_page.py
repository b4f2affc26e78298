"""The HTML page of a report: one self-contained file with tables and plots, for light and dark screens."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from esan.report.formatting import NOT_RUN, UNITS, duration
from esan.report.plots import ComparisonRow, comparison, learning_curves
from esan.report.rows import Row
from esan.report.svg import tones
from esan.report.tables import HEAD, by_metric, columns, rule_of
from esan.train.recipes.toml_text import to_toml
from esan.train.runs.records import Record

_STYLE = """
body { margin: 0 auto; max-width: 1120px; padding: 24px 20px 60px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; }
h1 { font-size: 26px; margin: 8px 0 2px; } h2 { font-size: 20px; margin: 40px 0 6px; }
h3 { font-size: 15px; margin: 24px 0 6px; }
p { margin: 6px 0; } .soft { color: var(--soft); } code { font-size: 13px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13.5px; font-variant-numeric: tabular-nums; margin: 8px 0; }
th { text-align: left; font-weight: 600; color: var(--soft); border-bottom: 1.5px solid var(--soft); }
th, td { padding: 4px 12px 4px 0; white-space: nowrap; } td { border-bottom: 1px solid var(--line); }
.right { text-align: right; } .ours { color: var(--ours); font-weight: 600; }
.good { color: var(--good); } .bad { color: var(--bad); } tr.unrun td { color: var(--soft); }
.box { border: 1px solid var(--bad); border-radius: 6px; padding: 8px 14px; margin: 14px 0; font-size: 13.5px; }
.curves { display: grid; grid-template-columns: repeat(auto-fill, minmax(320px, 1fr)); gap: 14px 20px; margin: 10px 0; }
svg { max-width: 100%; height: auto; } nav a { margin-right: 14px; } a { color: var(--ours); }
details { margin: 4px 0; font-size: 13.5px; } summary { cursor: pointer; }
pre { background: var(--panel); padding: 10px 12px; border-radius: 6px; overflow-x: auto; font-size: 12.5px; }
.key { display: inline-block; width: 22px; height: 0; border-top: 2px solid; margin: 0 5px 4px 0; }
@media print { body { max-width: none; } .curves svg, tr { break-inside: avoid; } }
"""
_KEY = (
    '<p class="soft">'
    '<span class="key" style="border-color: var(--ours)"></span>validation &nbsp; '
    '<span class="key" style="border-color: var(--test); border-top-style: dashed"></span>test &nbsp; '
    '<span class="key" style="border-color: var(--soft)"></span>training loss &nbsp; '
    '<span class="key" style="border-color: var(--paper); border-top-style: dotted"></span>the paper\'s number. '
    "Lines are means over the runs that reached the epoch, bands their standard deviation; a dot is the epoch that all "
    "runs report.</p>"
)
_READ = (
    "Mean ± standard deviation over runs. <b>Difference</b>: ours minus the paper's, and how many of the paper's "
    "standard deviations (sd) that is better or worse. <b>At best validation</b>: the value at each run's own epoch "
    "of best validation, whatever the protocol reports. <b>Votes differ</b>: for sampled bags, how much predictions "
    "differ between samples. <b>Time</b> is the mean over runs, <b>memory</b> the peak of any."
)


def html(title: str, rows: Sequence[Row], problems: Sequence[str] = ()) -> str:
    """The whole page.

    Args:
        title: its heading.
        rows: of any number of datasets.
        problems: what could not be used, named at the top.
    """
    records = [record for row in rows for record in row.records]
    sections = by_metric(rows)
    links = " ".join(f'<a href="#{_anchor(title)}">{escape(title)}</a>' for title in sections)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{escape(_overview(rows, records))}</p>',
        _problems(problems),
        f"<nav>{links}</nav>" if len(sections) > 1 else "",
        f"<p>{_READ}</p>",
        *(_section(title, some) for title, some in sections.items()),
        _origins(records),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{tones()}{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body>\n</html>\n"
    )


def _overview(rows: Sequence[Row], records: Sequence[Record]) -> str:
    run = sum(bool(row.records) for row in rows)
    spent = duration(sum(record.seconds for record in records))
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    return f"{run} of {len(rows)} rows run, {len(records)} runs, {spent} of training. Written {when}."


def _problems(problems: Sequence[str]) -> str:
    lines = "".join(f"<li>{escape(problem)}</li>" for problem in problems)
    return f'<div class="box"><b>Not used:</b><ul>{lines}</ul></div>' if lines else ""


def _section(title: str, rows: Sequence[Row]) -> str:
    cited = [row for row in rows if row.paper is not None]
    parts = [f'<h2 id="{_anchor(title)}">{escape(title)}</h2>']
    parts += [f'<p class="soft">Ours: {escape(rule)}.</p>'] if (rule := rule_of(rows)) else []
    parts.append(_table(rows))
    if cited:
        parts.append(f'<div class="wide">{comparison_of(title, cited)}</div>')
    drawn = [row for row in rows if row.records]
    if drawn:
        parts += ["<h3>Learning curves</h3>", _KEY, f'<div class="curves">{"".join(map(curves_of, drawn))}</div>']
        parts += ["<h3>Recipes</h3>", *(_recipe(row) for row in drawn)]
    return "\n".join(parts)


def comparison_of(title: str, rows: Sequence[Row], alone: bool = False) -> str:
    """The plot of the paper's numbers and ours."""
    pairs = [
        ComparisonRow(
            row.name,
            None if row.paper is None else row.paper.value,
            None if row.paper is None else row.paper.std,
            None if row.ours is None else row.ours.mean,
            None if row.ours is None else row.ours.std,
            NOT_RUN if row.ours is None else f"{row.ours}" + (f"   paper {row.paper}" if row.paper else ""),
        )
        for row in rows
    ]
    return comparison(title, pairs, lower_is_better=any(row.lower_is_better for row in rows), alone=alone)


def curves_of(row: Row) -> str:
    """The learning curves of a row, in the units of the paper."""
    scale = 1.0 if row.lower_is_better else 100.0
    curves = [
        [(e.epoch, e.lr, e.loss, *(None if v is None else v * scale for v in (e.valid, e.test))) for e in record.curve]
        for record in row.records
    ]
    paper = None if row.paper is None else row.paper.value
    chosen = None if row.epoch is None or row.ours is None else (row.epoch, row.ours.mean)
    note = f"{row.state}; {UNITS[row.metric]}" if row.metric else row.state
    return learning_curves(row.name, note, curves, lower_is_better=row.lower_is_better, paper=paper, chosen=chosen)


def _table(rows: Sequence[Row]) -> str:
    shown, lines = columns(rows)
    head = "".join(f"<th{_right(name)}>{escape(words)}</th>" for name, words in shown.items())
    body = []
    for row, line in zip(rows, lines, strict=True):
        marks = {"ours": "right ours" if row.ours else "right", "difference": row.verdict}
        tds = "".join(f"<td{_right(name, marks.get(name))}>{escape(line[name])}</td>" for name in shown)
        body.append(f"<tr{'' if row.records else ' class=unrun'}>{tds}</tr>")
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'


def _anchor(title: str) -> str:
    return re.sub(r"[^\w-]+", "-", title)


def _right(name: str, mark: str | None = None) -> str:
    kind = mark if mark is not None else "right" if HEAD[name] == "--:" else ""
    return f' class="{kind}"' if kind else ""


def _recipe(row: Row) -> str:
    settings = to_toml({name: v for name, v in row.records[0].recipe.to_dict().items() if name != "grid"})
    return f"<details><summary>{escape(row.recipe)}</summary><pre>{escape(settings)}</pre></details>"


def _origins(records: Sequence[Record]) -> str:
    """On what machines and with which versions the records were made, each combination once."""
    found: dict[tuple[str, str], int] = {}
    for record in records:
        versions = ", ".join(f"{name} {number}" for name, number in record.versions.items())
        found[record.hardware, versions] = found.get((record.hardware, versions), 0) + 1
    lines = "".join(
        f"<tr><td class=right>{count}</td><td>{escape(hardware)}</td><td>{escape(versions)}</td></tr>"
        for (hardware, versions), count in found.items()
    )
    head = "<tr><th class=right>runs</th><th>hardware</th><th>versions</th></tr>"
    return f'<h2>Machines and versions</h2><div class="wide"><table>{head}{lines}</table></div>' if lines else ""
