"""Arrays drawn by hypothesis: read as they say, or refused; and indices of bags, in range or refused."""

import re
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import files_damage as damage
import files_oracles as oracles
import files_readers as readers
import numpy as np
import pytest
import torch
from files_trials import BAGS, toys
from hypothesis import given
from hypothesis import strategies as st

import esan
from esan.bags.validate import check_bag
from hypothesis_examples import examples

NUMBER = st.one_of(st.integers(-2, 5), st.sampled_from(damage.NUMBERS))


@st.composite
def nearly_graphs(draw: st.DrawFn) -> dict[str, np.ndarray]:
    """Arrays of a few graphs, whole or with one of them replaced by random values."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    columns, ends = [], [0]
    for size in sizes:
        pairs = draw(st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=3, unique=True))
        both = sorted({*pairs, *((v, u) for u, v in pairs)})
        columns += both
        ends.append(len(columns))
    arrays = {
        "edge_index": np.array(columns, dtype=np.int64).reshape(-1, 2).T,
        "edge_ptr": np.array(ends),
        "num_nodes": np.array(sizes),
    }
    if draw(st.booleans()):
        arrays["node_ptr"] = np.append(0, np.cumsum(arrays.pop("num_nodes")))
    if draw(st.booleans()):
        arrays["x"] = np.arange(sum(sizes))
    if draw(st.booleans()):
        name = draw(st.sampled_from(sorted(arrays)))
        size = draw(st.integers(0, arrays[name].size + 1))
        kind = draw(st.sampled_from([np.int64, np.float64]))
        numbers: list[Any] = draw(
            st.lists(NUMBER if kind is np.int64 else st.floats(-3, 9), min_size=size, max_size=size)
        )
        arrays[name] = np.array(numbers, dtype=kind)
    return arrays


@given(nearly_graphs())
@examples(60)
def test_an_npz_means_what_it_says_or_is_refused(arrays: dict[str, np.ndarray]) -> None:
    expected = oracles.npz(arrays)
    found, refused = None, ""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "graphs.npz"
        damage.write_npz(file, arrays)
        try:
            found = readers.graphs(str(file))
        except ValueError as error:
            refused = str(error)
    if refused:
        assert re.search(r"Expected .*\(got .*\)", refused)
        return
    assert expected is not None, "read, though it contradicts itself"
    assert found == oracles.digest(expected)


@pytest.fixture(scope="module")
def bags() -> dict[str, esan.Bag]:
    return {name: esan.Bag.of(toys(), policy, 2, literal=literal) for name, (policy, literal) in BAGS.items()}


@given(st.data())
@examples(80)
def test_an_index_outside_its_range_is_found(bags: dict[str, esan.Bag], data: st.DataObject) -> None:
    """Whatever number is put wherever: none that compiled loops would follow out of an array is let through."""
    bag = bags[data.draw(st.sampled_from(sorted(bags)))]
    part = data.draw(st.sampled_from(["graphs", "selection", "rows"]))
    held = getattr(bag, part)
    names = [
        n for n, t in held.tensors().items() if t.dtype == torch.int64 and t.numel() and n not in ("x", "edge_attr")
    ]
    name = data.draw(st.sampled_from(names))
    changed = getattr(held, name).clone()
    at = data.draw(st.integers(0, changed.numel() - 1))
    before = int(changed.view(-1)[at])
    changed.view(-1)[at] = data.draw(NUMBER.filter(lambda number: number < 0 or number > 1000))
    assert int(changed.view(-1)[at]) != before
    parts = {one: getattr(bag, one) for one in ("graphs", "selection", "rows")}
    parts[part] = type(held)(**vars_of(held) | {name: changed})
    with pytest.raises(ValueError, match="Expected "):
        check_bag(**parts, num_layers=bag.num_layers)


def vars_of(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def test_whole_bags_pass(bags: dict[str, esan.Bag]) -> None:
    for bag in bags.values():
        for one in (bag, bag[[2, 0]], bag.to_literal(), bag.to_compact(3)):
            check_bag(one.graphs, one.selection, one.rows, one.num_layers)
