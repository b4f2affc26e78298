"""Text tables: a CSV of molecules with targets, and a file of labels; errors name the line."""

import csv
import difflib
import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from esan.data.dataset import SkippedLine
from esan.data.infer_task import TargetCells
from esan.data.smiles import MOST_CHARACTERS, molecule_arrays, molecules
from esan.graphs.readers.archives import gunzipped
from esan.graphs.readers.graph_arrays import GraphArrays

_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
_MISSING = ("", "nan", "na", "none", "null")


@dataclass
class MoleculeTable:
    """The molecules of a CSV, their targets, and the lines that were left out."""

    arrays: GraphArrays
    y: Tensor | None
    cells: TargetCells
    smiles: tuple[str, ...]
    skipped: tuple[SkippedLine, ...]


def is_csv(path: Path) -> bool:
    """Whether a file is a table, by its name: .csv or .tsv, also .gz."""
    return path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv"))


def read_molecules(
    path: Path,
    smiles: str | None,
    targets: Sequence[str] | str | None,
    skip_unreadable: bool,
    skip_missing: bool = False,
    classes: bool = False,
) -> MoleculeTable:
    """The molecules of a CSV (or .tsv, also with gzip) with a header line.

    A target column may hold words, which are classes, if it is the only one and none of its cells is a number.

    Args:
        path: of the file.
        smiles: the column of SMILES; by default the one called "smiles".
        targets: the column or columns of targets; by default all others.
        skip_unreadable: whether rows that RDKit does not read are left out, with a warning, instead of an error.
        skip_missing: whether rows that lack a target are left out, with a warning.
        classes: whether the targets are known to be classes, which may be any words.
    """
    header, rows = _rows(path)
    at = _smiles_column(header, smiles, path)
    if targets is None:
        wanted = [name for name in header if name != header[at]]
    else:
        wanted = [targets] if isinstance(targets, str) else list(targets)
    places = [_place(header, name, path) for name in wanted]
    found = molecules([row.cells[at].strip() for row in rows])
    bad = [row for row, molecule in zip(rows, found, strict=True) if molecule is None]
    skipped = tuple(SkippedLine(row.line, row.cells[at], _why_unread(row.cells[at])) for row in bad)
    if skipped:
        _tell(skipped, len(rows), path, skip_unreadable)
    kept = [(row, molecule) for row, molecule in zip(rows, found, strict=True) if molecule is not None]
    if not kept:
        raise ValueError(f"Expected at least one molecule that RDKit reads (got none in {path}). Is {header[at]!r} it?")
    worded = len(places) == 1 and _are_words([row.cells[places[0]] for row, _ in kept], classes)
    if skip_missing:
        gap = _is_blank if worded else _is_missing
        lacking = [row for row, _ in kept if any(gap(row.cells[place]) for place in places)]
        gaps = tuple(SkippedLine(row.line, row.cells[at], "a target is missing") for row in lacking)
        if gaps:
            _warn_left_out(gaps, len(rows), path)
        gone = {row.line for row in lacking}
        kept, skipped = [pair for pair in kept if pair[0].line not in gone], (*skipped, *gaps)
        if not kept:
            raise ValueError(
                f"Expected a row with all its targets (got none in {path}). Choose targets that are there."
            )
    lines_of = [[(row.line, row.cells[place]) for row, _ in kept] for place in places]
    words = None
    if worded:
        y, words = _words(lines_of[0], header[places[0]], path)
        columns = [y]
    else:
        columns = [_numbers(some, header[place], path) for some, place in zip(lines_of, places, strict=True)]
    lines, whole = [row.line for row, _ in kept], [_whole(some) for some in lines_of]
    return MoleculeTable(
        arrays=molecule_arrays([molecule for _, molecule in kept]),
        y=_joined(columns),
        cells=TargetCells(path, lines, [header[place] for place in places], whole, words, tuple(wanted) or None),
        smiles=tuple(row.cells[at].strip() for row, _ in kept),
        skipped=skipped,
    )


def other_columns(path: Path, smiles: str | None) -> list[str]:
    """The columns of a table beside that of the SMILES."""
    header, _ = _rows(path)
    at = _smiles_column(header, smiles, path)
    return [name for name in header if name != header[at]]


def read_labels(path: Path) -> tuple[Tensor, TargetCells]:
    """A file with one line of numbers per graph, with commas or blanks between them, or with one word per line."""
    lines = [(place, line) for place, line in enumerate(_text(path).splitlines(), start=1) if line.strip()]
    cells = [(place, re.split(r"[,\s]+", line.strip())) for place, line in lines]
    if not cells:
        raise ValueError(f"Expected one line of labels per graph (got an empty file, {path}). Write one per line.")
    if _are_words([cell for _, row in cells for cell in row], False):
        y, words = _words([(place, line) for place, line in lines], "1", path)
        return y[:, None], TargetCells(path, [place for place, _ in lines], ["1"], [False], words)
    width = len(cells[0][1])
    for place, row in cells:
        if len(row) != width:
            raise ValueError(
                f"Expected {width} labels per line (got {len(row)} at line {place} of {path}). Complete that line."
            )
    lines_of = [[(place, row[i]) for place, row in cells] for i in range(width)]
    joined = _joined([_numbers(some, f"{i + 1}", path) for i, some in enumerate(lines_of)])
    assert joined is not None  # there is at least one column
    whole = [_whole(some) for some in lines_of]
    return joined, TargetCells(path, [place for place, _ in cells], [str(i + 1) for i in range(width)], whole)


@dataclass
class _CSVRow:
    line: int
    cells: list[str]


def _rows(path: Path) -> tuple[list[str], list[_CSVRow]]:
    delimiter = "\t" if ".tsv" in path.suffixes else ","
    reader = csv.reader(io.StringIO(_text(path), newline=""), delimiter=delimiter, strict=True)
    try:
        read = [_CSVRow(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except csv.Error as error:
        raise ValueError(f"Expected a table (got {error} at line {reader.line_num} of {path}). Correct it.") from None
    if len(read) < 2:
        got = f"column names alone in {path}" if read else f"an empty file, {path}"
        raise ValueError(f"Expected a line of column names and one row per molecule (got {got}). Is it the right file?")
    header = [name.strip() for name in read[0].cells]
    _check_delimiter(header, delimiter, path)
    for row in read[1:]:
        if len(row.cells) != len(header):
            raise ValueError(
                f"Expected {len(header)} cells, one per column (got {len(row.cells)} at line {row.line} of {path}). "
                "Complete that line; quote cells that hold commas."
            )
    return header, read[1:]


def _check_delimiter(header: list[str], delimiter: str, path: Path) -> None:
    """An error for a line of column names that is one cell, because something else stands between them."""
    others = {";": "semicolons", ",": "commas", "\t": "tabs"}
    wanted = others.pop(delimiter)
    found = next((word for other, word in others.items() if other in header[0]), None)
    if len(header) == 1 and found is not None:
        kind = "a .tsv" if delimiter == "\t" else "a .csv"
        other = " or, with tabs, as .tsv" if delimiter == "," else ""
        raise ValueError(
            f"Expected {wanted} between the columns of {kind} (got {found} in {path}). Save it with {wanted}{other}."
        )


def _text(path: Path) -> str:
    content = gunzipped(path) if path.suffix == ".gz" else path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"Expected a text file in UTF-8 (got {path}: {error}). Save it again as UTF-8.") from None


def _smiles_column(header: list[str], smiles: str | None, path: Path) -> int:
    if smiles is not None:
        return _place(header, smiles, path)
    named = [place for place, name in enumerate(header) if name.lower() == "smiles"]
    if len(named) != 1:
        raise ValueError(
            f"Expected one column called smiles (got {', '.join(header)[:200]} in {path}). Name it: smiles='COLUMN'."
        )
    return named[0]


def _place(header: list[str], name: str, path: Path) -> int:
    if header.count(name) != 1:
        near = difflib.get_close_matches(name, header, 1)
        meant = f" Did you mean {near[0]!r}?" if near and name not in header else ""
        raise ValueError(
            f"Expected one column {name!r} (got {header.count(name)} in {path}).{meant} "
            f"It has {', '.join(header)[:200]}."
        )
    return header.index(name)


def _numbers(cells: list[tuple[int, str]], name: str, path: Path) -> Tensor:
    """A column as integers if all its cells are, else as floats with NaN where nothing is written."""
    values = []
    for line, cell in cells:
        text = cell.strip()
        try:
            values.append(float("nan") if _is_missing(text) else _number(text))
        except ValueError:
            raise ValueError(
                f"Expected numbers in column {name!r} (got {text[:40]!r} at line {line} of {path}). Name the target: "
                "targets='COLUMN'. Words are read as classes where their column is the only target."
            ) from None
        if values[-1] in (float("inf"), float("-inf")):
            raise ValueError(
                f"Expected finite numbers in column {name!r} (got {text[:40]!r} at line {line} of {path}). Correct it."
            )
    if all(_WHOLE.fullmatch(cell.strip()) for _, cell in cells):
        large = next(((line, cell) for line, cell in cells if abs(int(cell)) >= 2**63), None)
        if large is not None:
            raise ValueError(
                f"Expected whole numbers below 2^63 in column {name!r} (got {large[1].strip()[:40]!r} at line "
                f"{large[0]} of {path}). Write quantities with a decimal point."
            )
        return torch.tensor([int(cell) for _, cell in cells])
    return torch.tensor(values, dtype=torch.float64)


def _are_words(cells: list[str], classes: bool) -> bool:
    """Whether cells hold words: no number among those that are filled or, of classes, one at least that is none."""
    filled = [cell.strip() for cell in cells if not _is_missing(cell)]
    numbers = [_is_number(cell) for cell in filled]
    return bool(filled) and (not all(numbers) if classes else not any(numbers))


def _words(cells: list[tuple[int, str]], name: str, path: Path) -> tuple[Tensor, tuple[str, ...]]:
    """The place of each word among all of them, in the order of the alphabet, and the words."""
    for line, cell in cells:
        if _is_blank(cell):
            raise ValueError(
                f"Expected a class for every graph (got none at line {line} of {path}, column {name}). Fill it, or "
                "leave such rows of a table out: skip_missing=True."
            )
    texts = [cell.strip() for _, cell in cells]
    words = tuple(sorted(set(texts)))
    number = {word: place for place, word in enumerate(words)}
    return torch.tensor([number[text] for text in texts]), words


def _is_blank(cell: str) -> bool:
    # Of words, "none" or "na" may well be a class.
    return cell.strip().lower() in ("", "nan")


def _is_number(text: str) -> bool:
    try:
        _number(text)
    except ValueError:
        return False
    return True


def _number(text: str) -> float:
    # Python also takes 1_000 and the digits of other scripts for numbers.
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return float(text)


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in _MISSING


def _whole(cells: list[tuple[int, str]]) -> bool:
    """Whether all cells that are filled hold whole numbers."""
    return all(_is_missing(cell) or _WHOLE.fullmatch(cell.strip()) for _, cell in cells)


def _joined(columns: list[Tensor]) -> Tensor | None:
    """Integers only where all columns are."""
    if not columns:
        return None
    if any(column.is_floating_point() for column in columns):
        columns = [column.double() for column in columns]
    return torch.stack(columns, 1)


def _why_unread(smiles: str) -> str:
    long = f"longer than {MOST_CHARACTERS:,} characters"
    return long if len(smiles.strip()) > MOST_CHARACTERS else "RDKit does not read it"


def _tell(skipped: tuple[SkippedLine, ...], rows: int, path: Path, skip: bool) -> None:
    if not skip:
        raise ValueError(
            f"Expected SMILES that RDKit reads (got {len(skipped)} of {rows} rows in {path} that it does not: "
            f"{_listed(skipped)}). Correct them, or pass skip_unreadable=True to leave them out."
        )
    warnings.warn(f"Left out {len(skipped)} of {rows} rows of {path}: {_listed(skipped)}.", stacklevel=5)


def _warn_left_out(gaps: tuple[SkippedLine, ...], rows: int, path: Path) -> None:
    words = f"Left out {len(gaps)} of {rows} rows of {path}, of which a target is missing: {_listed(gaps)}."
    warnings.warn(words, stacklevel=5)


def _listed(skipped: tuple[SkippedLine, ...]) -> str:
    more = f" and {len(skipped) - 10} more" if len(skipped) > 10 else ""
    return ", ".join(f"line {bad.line} ({bad.text[:30]!r})" for bad in skipped[:10]) + more
