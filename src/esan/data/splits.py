"""Splits of a dataset: the one it comes with, stratified folds, and random splits with a seed."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from esan.checks import real_number, seed_number, shown, whole_number
from esan.data.dataset import Dataset, Split

Fractions = tuple[float, float, float]


def given(dataset: Dataset) -> Split:
    """The split that comes with the data."""
    if dataset.given is None:
        raise ValueError(
            f"Expected a dataset that comes with a split (got {dataset.name}, which has none). "
            "Use stratified_folds, random or scaffold."
        )
    return dataset.given


def stratified_folds(y: Dataset | Tensor | Sequence[int], folds: int = 10, seed: int = 0) -> list[Split]:
    """Cross-validation as the field reports it: each graph validates in one fold, classes in proportion.

    The folds are those of scikit-learn's `StratifiedKFold(folds, shuffle=True, random_state=seed)`. `test` is empty.

    Args:
        y: the class of each graph, or a dataset of a classification.
        folds: the number of folds.
        seed: the random seed of the shuffle.
    """
    # Not at the top: scikit-learn is slow to import, and rarely needed.
    from sklearn.model_selection import StratifiedKFold

    folds, seed = whole_number("the number of folds", folds, 2, "Pass e.g. folds=10.", 2**31), seed_number(seed)
    labels = _classes(y)
    found, members = labels.unique(return_counts=True)
    if int(members.min()) < folds:
        rare = int(members.argmin())
        who = y.called(int(found[rare])) if isinstance(y, Dataset) else int(found[rare])
        raise ValueError(
            f"Expected at least {folds} graphs of every class, one per fold (got {int(members[rare])} of class {who}). "
            "Take fewer folds, merge that class with another, or leave it out."
        )
    parts = StratifiedKFold(folds, shuffle=True, random_state=seed).split(np.zeros(labels.numel()), labels.numpy())
    return [Split(torch.from_numpy(train), torch.from_numpy(valid)) for train, valid in parts]


def random(count: Dataset | int, fractions: Fractions = (0.8, 0.1, 0.1), seed: int = 0) -> Split:
    """A random split, the same for the same seed on every machine; ids in each part are sorted.

    Args:
        count: how many graphs, or a dataset: then a class that no training graph has is an error.
        fractions: of training, validation and test graphs; they add up to 1.
        seed: the random seed.
    """
    dataset = count if isinstance(count, Dataset) else None
    graphs = len(count) if isinstance(count, Dataset) else count
    remedy = "Pass how many there are." if dataset is None else f"Add graphs to {dataset.name}."
    number = whole_number("the number of graphs", graphs, 2, remedy, 2**31)
    shares, seed = checked_fractions(fractions), seed_number(seed)
    ends = [round(shares[0] * number), round((shares[0] + shares[1]) * number)]
    order = torch.from_numpy(np.random.default_rng(seed).permutation(number))
    parts = [order[start:end].sort().values for start, end in zip([0, *ends], [*ends, number], strict=True)]
    split = Split(*parts)
    for name, part, share in zip(("training", "validation", "test"), parts, shares, strict=True):
        if share > 0 and not part.numel():
            where = "" if dataset is None else f" in {dataset.name}"
            raise ValueError(
                f"Expected enough graphs for each part of a random split (got {number:,}{where}, of which "
                f"{100 * share:g} % leave none for {name}). Add graphs, or split them another way."
            )
    if dataset is not None:
        check_split(dataset, split)
    return split


def checked_fractions(fractions: Fractions) -> list[float]:
    """The fractions of training, validation and test, if they add up to 1; else an error."""
    if not isinstance(fractions, tuple | list):
        raise TypeError(f"Expected three fractions (got {shown(fractions)}). Pass e.g. (0.8, 0.1, 0.1).")
    values = [real_number("a fraction", f, "Pass three, e.g. (0.8, 0.1, 0.1).") for f in fractions]
    if len(values) != 3 or not min(values) >= 0 or values[0] == 0 or not abs(sum(values) - 1) <= 1e-6:
        raise ValueError(
            f"Expected fractions for training, validation and test that add up to 1 (got {tuple(fractions)}). "
            "Pass e.g. (0.8, 0.1, 0.1)."
        )
    return values


def check_split(dataset: Dataset, split: Split) -> Split:
    """The split itself, if its ids exist, no graph is in two parts, and every class has training graphs."""
    if not isinstance(split, Split):
        raise TypeError(f"Expected a Split (got {shown(split)}). Pass esan.data.Split(train, valid, test).")
    ids = torch.cat([split.train, split.valid, split.test])
    if not split.train.numel():
        raise ValueError("Expected at least one training graph (got none). Move some into train.")
    if int(ids.min()) < 0 or int(ids.max()) >= len(dataset):
        bad = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
        raise ValueError(
            f"Expected graph ids from 0 to {len(dataset) - 1} in a split of {dataset.name} (got {bad}). "
            "Is the split one of other data?"
        )
    found, times = ids.unique(return_counts=True)
    if int(times.max()) > 1:
        raise ValueError(
            f"Expected each graph in one part of the split (got graph {int(found[times.argmax()])} twice). "
            "Remove it from one of them."
        )
    if dataset.task.kind == "classification" and dataset.graphs.y is not None:
        known = torch.bincount(dataset.y[split.train], minlength=dataset.task.out_channels)
        if not bool((known > 0).all()):
            missing = dataset.called(int(known.argmin()))
            raise ValueError(
                f"Expected every class among the training graphs (got none of class {missing}). "
                "Take stratified_folds, another seed, or a larger fraction for training."
            )
    return split


def _classes(y: Dataset | Tensor | Sequence[int]) -> Tensor:
    if isinstance(y, Dataset) and y.task.kind != "classification":
        raise ValueError(
            f"Expected classes to stratify by (got the task {y.task.kind} in {y.name}). Use random, or pass classes."
        )
    try:
        labels = y.y if isinstance(y, Dataset) else torch.as_tensor(y)
        labels = labels.cpu()
    except (TypeError, ValueError, RuntimeError, NotImplementedError, OverflowError):
        raise TypeError(f"Expected one class number per graph (got {shown(y)}). Pass whole numbers.") from None
    if labels.dim() != 1 or labels.is_floating_point() or not labels.numel():
        raise ValueError(
            f"Expected one class number per graph (got {labels.dtype} of shape {tuple(labels.shape)}). Pass whole "
            "numbers."
        )
    return labels
