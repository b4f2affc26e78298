"""Match new graphs to a trained network: check their features, map targets to its classes."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from esan import data
from esan.checks import shown
from esan.data import Dataset, Task
from esan.data.csv_files import _rows, is_csv, other_columns
from esan.data.dataset import Classes, UnusedFeatures
from esan.data.sets.verify import FeaturesError
from esan.graphs import Source, load_graphs, read
from esan.graphs.readers.files import exists
from esan.plural import counted
from esan.policies import Sampled, checked_source
from esan.train.model_spec import WITH_EDGES, ModelSpec
from esan.train.recipes.recipe_fields import columns_of
from esan.train.runs.prepare_data import is_dataset_name

#: The argument of `esan.data.own` that says what these features hold.
_ARGUMENTS = {"x": "in_channels", "edge_attr": "edge_channels"}


def read_graphs(
    source: Source | Dataset | str | Path,
    model_spec: ModelSpec,
    smiles: str | None = None,
    skip_unreadable: bool = False,
) -> Dataset:
    """Graphs with the features that a network was built for, without targets; arguments as of `Predictor.predict`."""
    with _features_of_training():
        found = _read_graphs(source, model_spec, smiles, skip_unreadable)
    # What the user asked to leave out of a dataset is not given.
    left_out = source.unused if isinstance(source, Dataset) else {}
    _refuse_unread(
        {name: one for name, one in left_out.items() if not one.asked} | dict(found.unused), model_spec, found
    )
    return found


def _read_graphs(
    source: Source | Dataset | str | Path, model_spec: ModelSpec, smiles: str | None, skip_unreadable: bool
) -> Dataset:
    source = _checked(source, model_spec)
    features = _features(model_spec)
    if isinstance(source, str) and is_dataset_name(source) and not Path(source).exists():
        source = data.load(source)
    if isinstance(source, Dataset):
        bare = data.own(replace(source.graphs, y=None), task=model_spec.task, name=source.name, **features)
        return replace(bare, smiles=source.smiles, skipped=source.skipped, source=source.source)
    if not isinstance(source, str | Path):
        return data.own(replace(read(source), y=None), task=model_spec.task, **features)
    path = Path(source)
    if is_csv(path):
        features |= {"smiles": smiles or model_spec.recipe.smiles or None, "skip_unreadable": skip_unreadable}
        return data.own(path, task=model_spec.task, targets=[], name=path.stem, **features)
    if path.is_dir():
        # As numbers, whatever they are: the labels of a folder are not looked at.
        found = data.own(path, task=Task("regression", 1), name=path.stem, **features)
        return replace(found, task=model_spec.task, graphs=replace(found.graphs, y=None))
    graphs = replace(read(_checked(load_graphs(path), model_spec)), y=None)
    return data.own(graphs, task=model_spec.task, name=path.name, **features)


def lines_of(path: Path) -> list[int]:
    """The line number of each row of a table."""
    return [row.line for row in _rows(path)[1]]


def with_targets(source: Source | Dataset | str | Path, model_spec: ModelSpec, asked: dict[str, Any]) -> Dataset:
    """Graphs with targets; of classes, those that the network was trained on, some of which may have no graphs here."""
    source = _checked(source, model_spec)
    if isinstance(source, str) and is_dataset_name(source) and not Path(source).exists():
        source = data.load(source)
    if isinstance(source, Dataset):
        return source
    if isinstance(asked.get("targets"), str):
        asked = asked | {"targets": columns_of(asked["targets"])}
    if isinstance(source, str | Path) and is_csv(Path(source)):
        # What was said of the training data holds here too, unless something else is said.
        known = {"smiles": model_spec.recipe.smiles, "targets": columns_of(model_spec.recipe.targets)}
        asked = {name: value for name, value in known.items() if value} | asked
        by_name = model_spec.targets is not None and not asked.keys() & {"targets", "labels"}
        if by_name and exists(Path(source)):
            columns = other_columns(Path(source), asked.get("smiles"))
            if set(model_spec.targets or ()) <= set(columns):
                asked = asked | {"targets": list(model_spec.targets or ())}
    known_classes = {"classes": _classes(model_spec)} if model_spec.task.kind == "classification" else {}
    with _features_of_training():
        found = data.own(source, **{"task": model_spec.task.kind} | known_classes | _features(model_spec) | asked)
    given = {name: one for name, one in found.unused.items() if _ARGUMENTS[name] not in asked}
    _refuse_unread(given, model_spec, found)
    return found


def targets_for(dataset: Dataset, model_spec: ModelSpec) -> Tensor:
    """The targets of a dataset as a network has them: classes in its numbers, columns in its order.

    Classes that it never saw are refused, and columns of which some have the names of its own and others not.
    """
    task = model_spec.task
    if task.kind == "classification" and dataset.task.kind == task.kind:
        known = {label: number for number, label in enumerate(_classes(model_spec))}
        labels = class_labels_of(dataset)
        strange = [label for label in labels if label not in known]
        if strange:
            raise ValueError(
                f"Expected the classes {', '.join(map(str, known))} (got {strange[0]}). Leave those graphs out: "
                "the network was not trained on that class."
            )
        return torch.tensor([known[label] for label in labels])
    if dataset.task.kind != task.kind or dataset.y.size(1) != task.out_channels:
        raise ValueError(
            f"Expected targets for {task.kind} of {task.out_channels} (got {dataset.task.kind} of "
            f"{dataset.task.out_channels}). Choose those that the network was trained on."
        )
    mine, theirs = model_spec.targets, dataset.targets
    if mine is None or theirs is None or set(mine).isdisjoint(theirs):
        return dataset.y
    if set(mine) != set(theirs):
        raise ValueError(
            f"Expected the targets {shown(list(mine))}, as in training (got {shown(list(theirs))}). Choose or rename "
            "the columns."
        )
    return dataset.y[:, [theirs.index(name) for name in mine]]


def class_labels_of(dataset: Dataset) -> list[int | str]:
    """The class of each graph, as the user calls it."""
    return [dataset.called(number) for number in dataset.y.tolist()]


def _classes(model_spec: ModelSpec) -> Classes:
    return model_spec.classes or tuple(range(model_spec.task.out_channels))


def _checked(source: Any, model_spec: ModelSpec) -> Any:
    """`source`, unless it carries the selection of a policy that the network was not trained with."""
    policy = model_spec.recipe.policy
    # Graphs that carry the selection of whole bags are as good as those of samples.
    names = (policy, policy.policy) if isinstance(policy, Sampled) else (policy,)
    remedy = "Leave it out of their transforms: the network was trained with the former."
    return checked_source(source, *map(repr, names), remedy=remedy)


@contextmanager
def _features_of_training() -> Iterator[None]:
    """Inside, features that differ from those of the training data are an error in these words."""
    try:
        yield
    except FeaturesError as error:
        kind = "node" if error.difference.startswith("x ") else "edge"
        raise ValueError(
            f"Expected the {kind} features that the network was trained with, {error.difference}. Give the graphs "
            "those of the training data, in the same order, or train on data such as these."
        ) from None


def _refuse_unread(given: Mapping[str, UnusedFeatures], model_spec: ModelSpec, dataset: Dataset) -> None:
    """ValueError for features that the network does not read, unless the training data had the same.

    Args:
        given: the features that the graphs came with and that were left out.
        model_spec: of the network.
        dataset: the graphs, for the message.
    """
    recipe = model_spec.recipe
    for name, unused in given.items():
        where = dataset.source if dataset.source and exists(dataset.source) else "the graphs"
        delete = f"Delete it (data.{name} = None) or pass {_ARGUMENTS[name]}=None to esan.data.own"
        if model_spec.unused is None:
            # Networks of version 0.1 do not say which features their training data had.
            is_read = recipe.node_features if name == "x" else recipe.edge_features and recipe.conv in WITH_EDGES
            if is_read:
                warnings.warn(
                    f"{name} of {where} is not used: the network does not read it, and does not say whether its "
                    f"training data had it. {delete}.",
                    stacklevel=4,
                )
        elif name not in model_spec.unused:
            raise ValueError(
                f"Expected graphs without {name}, as the network was trained (got {name} with "
                f"{counted(unused.columns, 'column')} in {where}). {delete}, or train on graphs that have it."
            )
        elif (row := model_spec.unused[name]) is not None and not _is_same(unused.row, row):
            raise ValueError(
                f"Expected {name} to be {shown(list(row))} everywhere, as in the training data, where it was not used "
                f"for that reason (got other values in {where}). {delete} to predict without it, or train on graphs "
                "where it differs."
            )


def _is_same(row: tuple[float, ...] | None, other: tuple[float, ...]) -> bool:
    """Whether two rows are equal as the numbers that a network would read."""
    return (
        row is not None
        and len(row) == len(other)
        and torch.equal(torch.tensor(row).float(), torch.tensor(other).float())
    )


def _features(model_spec: ModelSpec) -> dict[str, Any]:
    return {"in_channels": model_spec.in_channels, "edge_channels": model_spec.edge_channels}
