"""Checks that a data set has the published counts, feature kinds and targets."""

import torch
from torch import Tensor

from esan.data.dataset import Dataset
from esan.graphs import Categories, Channels, OneHot
from esan.plural import counted


class FeaturesError(ValueError):
    """Features that are not those asked for.

    Args:
        message: the whole error.
        difference: what was expected, with what was found in brackets.
    """

    def __init__(self, message: str, difference: str = "") -> None:
        super().__init__(message)
        self.difference = difference


def check_dataset(dataset: Dataset, **expected: int) -> Dataset:
    """The dataset itself, if its counts, features and targets are as expected; else an error.

    Args:
        dataset: what was read.
        expected: `graphs`, `nodes` and `edges` of the published set.
    """
    graphs, where = dataset.graphs, f"{dataset.name} at {dataset.source}" if dataset.source else dataset.name
    counts = {"graphs": len(graphs), "nodes": int(graphs.num_nodes.sum()), "edges": int(graphs.num_edges.sum())}
    for what, wanted in expected.items():
        if counts[what] != wanted:
            raise ValueError(
                f"Expected {wanted:,} {what} (got {counts[what]:,} in {where}). "
                "It is cut short or another set of that name; fetch it again."
            )
    check_features(graphs.x, dataset.in_channels, "x", where)
    check_features(graphs.edge_attr, dataset.edge_channels, "edge_attr", where)
    _check_targets(dataset, where)
    return dataset


def check_features(value: Tensor | None, channels: Channels, name: str, where: str, advice: str = "") -> None:
    """FeaturesError if `value` does not match `channels`; the other arguments are for its message."""
    if not channels:
        return
    if value is None:
        what = f"with {counted(channels, 'column')}" if isinstance(channels, int) else f"of {channels!r}"
        difference = f"{name} {what} (got none in {where})"
        raise FeaturesError(f"Expected {difference}. {advice or 'Is a file of the set missing?'}", difference)
    rows, right = value.reshape(value.size(0), -1), "Is it the right set?"
    sizes = (
        channels.sizes if isinstance(channels, Categories) else (channels.size,) if isinstance(channels, OneHot) else ()
    )
    width = channels if isinstance(channels, int) else len(sizes)
    if rows.size(1) != width:
        difference = f"{name} with {counted(width, 'column')} (got {rows.size(1)} in {where})"
        raise FeaturesError(f"Expected {difference}. {advice or right}", difference)
    if not sizes or not rows.numel():
        return
    low, high = rows.amin(0), rows.amax(0)
    if bool((low < 0).any()) or bool((high >= torch.tensor(sizes)).any()):
        got = f"got {low.tolist()} to {high.tolist()} in {where}"
        difference = f"{name} of {channels!r}, from 0 to below {sizes} ({got})"
        raise FeaturesError(f"Expected {difference}. {advice or right}", difference)


def _check_targets(dataset: Dataset, where: str) -> None:
    y, task = dataset.graphs.y, dataset.task
    if y is None:
        raise ValueError(f"Expected a target of every graph (got none in {where}). Is a file of the set missing?")
    if task.kind == "classification":
        found = torch.unique(y).tolist()
        if found != list(range(task.out_channels)):
            raise ValueError(
                f"Expected the classes 0 to {task.out_channels - 1}, each with members (got {found[:12]} in {where}). "
                "Is it the right set?"
            )
        return
    if y.shape != (len(dataset), task.out_channels):
        raise ValueError(
            f"Expected {task.out_channels} targets per graph (got shape {tuple(y.shape)} in {where}). "
            "Is it the right set?"
        )
    there = y if task.kind == "regression" else y[~torch.isnan(y)]
    if task.kind == "labels" and not bool(((there == 0) | (there == 1)).all()):
        bad = there[(there != 0) & (there != 1)]
        raise ValueError(f"Expected labels of 0 or 1 (got {float(bad[0]):g} in {where}). Is it the right set?")
    if not bool(torch.isfinite(there).all()):
        graph = int((~torch.isfinite(y)).any(1).nonzero()[0])
        raise ValueError(
            f"Expected finite targets (got {y[graph].tolist()} for graph {graph} of {where}). Leave that graph out."
        )
