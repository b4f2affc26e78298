"""Tables of SMILES: molecules as OGB makes them, targets by column, and every unreadable row reported by its line."""

import gzip
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from esan import data
from esan.data import SkippedLine, Task
from esan.graphs import ATOMS, BONDS

pytest.importorskip("rdkit")
pytest.importorskip("ogb")

TABLE = """id,SMILES,active,logP
a,CCO,1,0.5
b,c1ccccc1C(=O)O,0,-1.25
c,[Na+].[Cl-],1,2
d,C,0,3
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "molecules.csv"
    file.write_text(TABLE)
    return file


def test_a_part_of_the_molecules(table: Path) -> None:
    dataset = data.own(table, targets=["active"])
    part = dataset[[2, 0]]
    assert part.smiles == ("[Na+].[Cl-]", "CCO")
    assert part.fingerprint == dataset.graphs[[2, 0]].fingerprint
    assert (part.task, part.in_channels, part.classes) == (dataset.task, dataset.in_channels, dataset.classes)
    with pytest.raises(IndexError, match=r"Expected numbers of graphs below 4, .*len\(dataset\)"):
        dataset[4]


def test_molecules_are_those_of_ogb(table: Path) -> None:
    from ogb.utils import smiles2graph

    dataset = data.own(table, targets=["active"])
    assert (dataset.in_channels, dataset.edge_channels) == (ATOMS, BONDS)
    assert dataset.task == Task("classification", 2)
    assert dataset.smiles == ("CCO", "c1ccccc1C(=O)O", "[Na+].[Cl-]", "C")
    for place, smiles in enumerate(dataset.smiles):
        ours, theirs = dataset.graphs.take(torch.tensor([place])), smiles2graph(smiles)
        order = np.lexsort(theirs["edge_index"])
        assert ours.x is not None
        assert ours.edge_attr is not None
        assert np.array_equal(ours.x.numpy(), theirs["node_feat"])
        assert np.array_equal(ours.edge_index.numpy(), theirs["edge_index"][:, order])
        assert np.array_equal(ours.edge_attr.numpy(), theirs["edge_feat"][order])


def test_columns_of_targets_are_chosen_by_name(table: Path) -> None:
    assert data.own(table, targets=["logP"]).task == Task("regression", 1)
    assert data.own(table, targets=["active"], task="labels").task == Task("labels", 1)
    assert data.own(table, targets=["logP", "active"]).y.tolist()[1] == [-1.25, 0]
    packed = table.with_suffix(".tsv.gz")
    packed.write_bytes(gzip.compress(TABLE.replace(",", "\t").encode()))
    assert data.own(packed, targets=["logP"]).y.tolist() == data.own(table, targets=["logP"]).y.tolist()
    with pytest.raises(ValueError, match=r"Expected one column 'ph' \(got 0 .*It has id, SMILES, active, logP"):
        data.own(table, targets=["ph"])
    with pytest.raises(ValueError, match="Expected one column 'mol'"):
        data.own(table, smiles="mol")


def test_a_column_of_text_is_no_target(table: Path) -> None:
    with pytest.raises(ValueError, match=r"numbers in column 'id' \(got 'a' at line 2 of .*targets='COLUMN'"):
        data.own(table)


def test_missing_cells_are_missing_labels(table: Path) -> None:
    table.write_text("smiles,a,b\nC,1,\nCC,nan,0\nCCC,0,1\n")
    dataset = data.own(table)
    assert dataset.task == Task("labels", 2)
    assert dataset.y.isnan().tolist() == [[False, True], [True, False], [False, False]]
    table.write_text("smiles,a\nC,1.5\nCC,\n")
    with pytest.raises(ValueError, match=r"got \[nan\] at line 3 of .*molecules\.csv, column a\). Fill it"):
        data.own(table)
    table.write_text("smiles,a\nC,1.5\nCC,inf\n")
    with pytest.raises(ValueError, match=r"column 'a' \(got 'inf' at line 3"):
        data.own(table)


def test_one_name_is_one_column(table: Path) -> None:
    assert data.own(table, targets="active").y.tolist() == data.own(table, targets=["active"]).y.tolist()
    assert data.own(table, targets="active").name == "molecules"
    with pytest.raises(ValueError, match=r"Expected every target once \(got \['active', 'active'\]\)"):
        data.own(table, targets=["active", "active"])


def test_a_gap_among_classes_is_reported_once_and_can_be_left_out(table: Path) -> None:
    table.write_text("smiles,a\nC,1\nCC,\nCCC,0\n")
    with pytest.warns(UserWarning, match=r"Column a of .* nothing at line 3: read as labels") as warned:
        assert data.own(table).task == Task("labels", 1)
    assert [warning.filename for warning in warned] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert data.own(table, task="labels").task == Task("labels", 1), "a task that the user states needs no warning"
    with pytest.raises(ValueError, match=r"Expected a class for every graph \(got none at line 3 of .*, column a\)"):
        data.own(table, task="classification")
    with pytest.warns(UserWarning, match=r"Left out 1 of 3 rows .* a target is missing: line 3 \('CC'\)"):
        dataset = data.own(table, skip_missing=True)
    assert (dataset.task, dataset.smiles) == (Task("classification", 2), ("C", "CCC"))
    assert dataset.skipped == (SkippedLine(3, "CC", "a target is missing"),)
    table.write_text("smiles,a\nC,\n")
    with pytest.warns(UserWarning, match="Left out"), pytest.raises(ValueError, match="a row with all its targets"):
        data.own(table, skip_missing=True)


def test_unreadable_rows_are_reported_by_line(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    table.write_text('smiles,y\nCC,1\nC1CC,0\n\n"",1\nnot a molecule,0\nCCC,0\n')
    with pytest.raises(ValueError, match=r"got 3 of 5 rows .*line 3 \('C1CC'\), line 5 \(''\), line 6 .*skip_"):
        data.own(table)
    with pytest.warns(UserWarning, match="Left out 3 of 5 rows") as warned:
        dataset = data.own(table, skip_unreadable=True)
    assert warned[0].filename == __file__, "the warning points to the caller"
    assert dataset.skipped[0] == SkippedLine(3, "C1CC", "RDKit does not read it")
    assert [row.line for row in dataset.skipped] == [3, 5, 6]
    assert dataset.smiles == ("CC", "CCC")
    assert dataset.y.tolist() == [1, 0]
    assert capfd.readouterr().err == "", "RDKit's own complaints are not repeated"


def test_tables_that_are_none_are_refused(table: Path) -> None:
    for text, message in [
        ("name,y\nCC,1\n", "Expected one column called smiles .got name, y"),
        ("smiles,y\n", r"Expected a line of column names and one row per molecule \(got column names alone in .*table"),
        ("", r"Expected a line of column names and one row per molecule \(got an empty file, .*Is it the right file"),
        (
            "smiles;y\nCC;1,5\n",
            r"Expected commas between the columns of a \.csv \(got semicolons in .*Save it with comma",
        ),
        ("smiles\ty\nCC\t1\n", r"Expected commas between .* \(got tabs in .*or, with tabs, as \.tsv"),
        ("smiles,y\nCC,1\nCCC\n", r"Expected 2 cells, one per column \(got 1 at line 3"),
        ("smiles,y\nC(C,1\n", "line 2"),
        ('smiles,y\n"CC,1\n', "Expected a table"),
    ]:
        table.write_text(text)
        with pytest.raises(ValueError, match=message):
            data.own(table)
    table.write_text("smiles,y\nC(C,1\n")
    with (
        pytest.warns(UserWarning, match="Left out 1 of 1"),
        pytest.raises(ValueError, match="at least one molecule that RDKit reads"),
    ):
        data.own(table, skip_unreadable=True)
    table.write_bytes(b"smiles,y\n\xff\xfe,1\n")
    with pytest.raises(ValueError, match="Expected a text file in UTF-8"):
        data.own(table)


def test_molecules_without_targets_await_them(table: Path) -> None:
    table.write_text("smiles\nCC\nCCC\n")
    assert data.own(table, task=Task("regression", 1)).graphs.y is None


def test_a_table_of_molecules_splits_by_scaffold(table: Path) -> None:
    rows = "".join(f"c1ccccc1{'C' * i},{i % 2}\n" for i in range(1, 9))
    table.write_text(f"smiles,y\n{rows}C1CCCC1,0\nCC,1\n")
    split = data.scaffold(data.own(table))
    assert split.train.tolist() == list(range(8))
    assert split.valid.tolist() == [9], "of two scaffolds of one molecule the later one goes first"
    assert split.test.tolist() == [8]
