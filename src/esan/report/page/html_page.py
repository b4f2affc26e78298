"""The HTML page of a report: one self-contained file with tables, plots and a script, for light and dark screens."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from statistics import fmean
from typing import Any

from esan.report.formatting import NOT_RUN, UNITS, duration
from esan.report.page.page_data import page_data
from esan.report.page.plots import ComparisonRow, comparison, learning_curves
from esan.report.page.prediction_plots import JobKey, PredictionTable, pictures
from esan.report.page.svg import tones
from esan.report.rows import Row
from esan.report.tables import HEAD, by_metric, columns, rule_of
from esan.single_file_html import asset, digest
from esan.train.recipes.toml_text import to_toml
from esan.train.runs.records import Record

#: Rows that have static learning curves, which readers without a script see; of more, the best of each section.
MOST_STATIC = 12
_KEY = (
    '<p class="soft">'
    '<span class="key key-ours"></span>validation &nbsp; '
    '<span class="key key-test"></span>test &nbsp; '
    '<span class="key key-soft"></span>training loss &nbsp; '
    '<span class="key key-paper"></span>the paper\'s number. '
    "Lines are means over the runs that reached the epoch, bands their standard deviation; a dot is the epoch that all "
    "runs report.</p>"
)
_READ = (
    "Mean ± standard deviation over runs. <b>Difference</b>: ours minus the paper's, and how many of the paper's "
    "standard deviations (sd) that is better or worse. <b>At best validation</b>: the value at each run's own epoch "
    "of best validation, whatever the protocol reports. <b>Votes differ</b>: for sampled bags, how much predictions "
    "differ between samples. <b>Time</b> is the mean over runs, <b>memory</b> the peak of any."
)
_AGREE = (
    "Numbers: predicted against true values; on the dashed diagonal they agree. Probabilities: how often what is "
    "predicted with some probability is observed; below the diagonal the network is too sure of itself. Grey bars "
    "count graphs."
)


def html(
    title: str,
    rows: Sequence[Row],
    problems: Sequence[str] = (),
    predictions: Mapping[JobKey, PredictionTable] | None = None,
) -> str:
    """The whole page.

    Args:
        title: its heading.
        rows: of any number of datasets.
        problems: what could not be used, named at the top.
        predictions: those that runs have saved, see `load_predictions`; None for none.
    """
    records = [record for row in rows for record in row.records]
    sections = by_metric(rows)
    links = " ".join(f'<a href="#{_anchor(title)}">{escape(title)}</a>' for title in sections)
    drawn = _static(list(sections.values()))
    numbers = itertools.count()
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{escape(_overview(rows, records))}</p>',
        _problems(problems),
        f"<nav>{links}</nav>" if len(sections) > 1 else "",
        f"<p>{_READ}</p>",
        '<div id="tools"></div><p id="said" class="unseen" role="status"></p>',
        *(
            _section(title, some, i, numbers, drawn, predictions or {})
            for i, (title, some) in enumerate(sections.items())
        ),
        _origins(records),
    ]
    style, script = tones() + asset("esan.report.page", "report.css"), asset("esan.report.page", "report.js")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in parts if part)
        + f'\n</main>\n<script type="text/plain" id="data">{page_data(list(sections.values()))}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _policy(style: str, script: str) -> str:
    """The Content-Security-Policy: this page's own script and style by their digests, and nothing else."""
    return (
        f"default-src 'none'; script-src {digest(script)}; style-src {digest(style)}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _static(sections: Sequence[Sequence[Row]]) -> set[str]:
    """The recipes whose learning curves are drawn without the script: all, or of many the best of each section."""
    some = [[row for row in rows if row.records] for rows in sections]
    if sum(map(len, some)) <= MOST_STATIC:
        return {row.recipe for rows in some for row in rows}
    return {max(rows, key=lambda row: row.merit).recipe for rows in some if rows}


def _overview(rows: Sequence[Row], records: Sequence[Record]) -> str:
    run = sum(bool(row.records) for row in rows)
    spent = duration(sum(record.seconds for record in records))
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    return f"{run} of {len(rows)} rows run, {len(records)} runs, {spent} of training. Written {when}."


def _problems(problems: Sequence[str]) -> str:
    lines = "".join(f"<li>{escape(problem)}</li>" for problem in problems)
    return f'<div class="box"><b>Not used:</b><ul>{lines}</ul></div>' if lines else ""


def _section(
    title: str,
    rows: Sequence[Row],
    number: int,
    numbers: Iterator[int],
    static: set[str],
    predictions: Mapping[JobKey, PredictionTable],
) -> str:
    cited = [row for row in rows if row.paper is not None]
    parts = [f'<section data-section="{number}"><h2 id="{_anchor(title)}">{escape(title)}</h2>']
    parts += [f'<p class="soft">Ours: {escape(rule)}.</p>'] if (rule := rule_of(rows)) else []
    parts.append(_table(title, rows, numbers))
    if cited:
        parts.append(f'<div class="wide" tabindex="0">{comparison_of(title, cited)}</div>')
    run = [row for row in rows if row.records]
    if run:
        curves = "".join(curves_of(row) for row in run if row.recipe in static)
        parts += [f'<h3>Learning curves</h3><div data-chart="{number}" hidden></div>']
        parts += [f'<div class="static">{_KEY}<div class="pictures">{curves}</div></div>'] if curves else []
        agreeing = [(row, found) for row in run if (found := pictures(row, predictions))]
        best = sorted(agreeing, key=lambda pair: -pair[0].merit)[:MOST_STATIC]
        if best:
            drawn = "".join(picture for _, found in best for picture in found)
            some = f"The best {len(best)} of {len(agreeing)} rows. " if len(agreeing) > len(best) else ""
            parts.append(f'<h3>Predictions</h3><p class="soft">{some}{_AGREE}</p><div class="pictures">{drawn}</div>')
        parts.append(_recipes(run))
    return "\n".join([*parts, "</section>"])


def comparison_of(title: str, rows: Sequence[Row]) -> str:
    """The plot of the paper's numbers and ours."""
    pairs = [
        ComparisonRow(
            row.name,
            None if row.paper is None else row.paper.value,
            None if row.paper is None else row.paper.std,
            None if row.ours is None else row.ours.mean,
            None if row.ours is None else row.ours.std,
            NOT_RUN if row.ours is None else f"{row.ours}" + (f", paper {row.paper}" if row.paper else ""),
        )
        for row in rows
    ]
    return comparison(title, pairs, lower_is_better=any(row.lower_is_better for row in rows))


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


def _table(title: str, rows: Sequence[Row], numbers: Iterator[int]) -> str:
    """One line per row; what a cell is sorted by is in `data-v` where its text does not say it."""
    shown, lines = columns(rows)
    head = "".join(f'<th scope="col"{_right(name)}>{escape(words)}</th>' for name, words in shown.items())
    body = []
    for row, line in zip(rows, lines, strict=True):
        marks = {"ours": "right ours" if row.ours else "right", "difference": row.verdict}
        keys = _sort_keys(row)
        tds = [
            f"<td{_right(name, marks.get(name))}{_key_attribute(keys.get(name))}>{escape(line[name])}</td>"
            for name in list(shown)[1:]
        ]
        kind = "" if row.records else ' class="unrun"'
        first = f'<th scope="row">{escape(line["method"])}</th>'
        body.append(
            f'<tr data-row="{next(numbers)}" data-recipe="{escape(row.recipe)}"{kind}>{first}{"".join(tds)}</tr>'
        )
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(title)}"><table class="rows"><thead>'
        f"<tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _sort_keys(row: Row) -> dict[str, float | str | None]:
    """The number behind each cell whose text is more than a number; "" for a text that stands for none."""
    records = row.records
    return {
        "paper": None if row.paper is None else row.paper.value,
        "ours": "" if row.ours is None else row.ours.mean,
        "difference": row.difference,
        "best validation": None if row.best is None else row.best.mean,
        "runs": len(records),
        "time per run": fmean(record.seconds for record in records) if records else None,
        "memory": max(record.peak_bytes for record in records) if records else None,
    }


def _key_attribute(value: float | str | None) -> str:
    if value is None:
        return ""
    return f' data-v="{value if isinstance(value, str) else f"{value:.7g}"}"'


def _anchor(title: str) -> str:
    return re.sub(r"[^\w-]+", "-", title)


def _right(name: str, mark: str | None = None) -> str:
    kind = mark if mark is not None else "right" if HEAD[name] == "--:" else ""
    return f' class="{kind}"' if kind else ""


def _recipes(rows: Sequence[Row]) -> str:
    """The settings of the recipes of a section: what all share once, and what each has beside that."""
    settings = [{k: v for k, v in row.records[0].recipe.to_dict().items() if k != "grid"} for row in rows]
    shared = {k: v for k, v in settings[0].items() if len(settings) > 1 and all(one[k] == v for one in settings)}
    parts = ["<h3>Recipes</h3>"]
    if shared:
        parts.append(_details(f"settings that all {len(rows)} share", shared))
    for row, one in zip(rows, settings, strict=True):
        parts.append(_details(row.recipe, {k: v for k, v in one.items() if k not in shared}))
    return "\n".join(parts)


def _details(words: str, settings: Mapping[str, Any]) -> str:
    return f"<details><summary>{escape(words)}</summary><pre>{escape(to_toml(settings))}</pre></details>"


def _origins(records: Sequence[Record]) -> str:
    """On what machines and with which versions the records were made, each combination once."""
    found: dict[tuple[str, str], int] = {}
    for record in records:
        versions = ", ".join(f"{name} {number}" for name, number in record.versions.items())
        found[record.hardware, versions] = found.get((record.hardware, versions), 0) + 1
    lines = "".join(
        f"<tr><td class='right'>{count}</td><td>{escape(hardware)}</td><td>{escape(versions)}</td></tr>"
        for (hardware, versions), count in found.items()
    )
    head = "<tr><th class='right'>runs</th><th>hardware</th><th>versions</th></tr>"
    return f'<h2>Machines and versions</h2><div class="wide"><table>{head}{lines}</table></div>' if lines else ""
