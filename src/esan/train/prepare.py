"""From a recipe to what a training needs: the dataset, its bag on the device, and the splits."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from esan import data
from esan.bags import Bag
from esan.data import Dataset, Split
from esan.nn import SubgraphGNN
from esan.train.baselines import with_walks
from esan.train.blueprint import Blueprint
from esan.train.cache import cached_bag
from esan.train.fresh import bag_of
from esan.train.recipe import Recipe

#: The parts of a random or scaffold split: train, valid, test.
FRACTIONS = (0.8, 0.1, 0.1)


@dataclass(frozen=True, eq=False)
class Prepared:
    """What the trainings of a recipe share.

    Attributes:
        dataset: the graphs and their task, with walk counts where the recipe has them.
        fingerprint: of the dataset as it was loaded.
        blueprint: what networks are built from.
        bag: of all graphs, on the device.
        splits: a split a fold.
    """

    dataset: Dataset
    fingerprint: str
    blueprint: Blueprint
    bag: Bag
    splits: list[Split]

    def split(self, fold: int) -> Split:
        """The split of a fold, checked: there is something to learn and something to choose by."""
        split = data.check_split(self.dataset, self.splits[fold])
        if not split.valid.numel():
            raise ValueError(
                f"Expected graphs for validation in fold {fold} of {self.dataset.name} (got none). Use another split."
            )
        _check_targets(self.dataset, split)
        return split


def prepare(
    recipe: Recipe,
    *,
    dataset: Dataset | None = None,
    root: str | Path | None = None,
    cache: str | Path | None = None,
    device: torch.device | str = "cpu",
) -> Prepared:
    """Load the data (unless it is given), split it, and fetch or build its bag.

    Args:
        recipe: what is to be trained.
        dataset: the data, in place of what the recipe names.
        root: the folder of the data, see `esan.data.load`.
        cache: the folder of cached bags.
        device: where the bag goes.
    """
    dataset = data_of(recipe, root, cache) if dataset is None else dataset
    splits = split_as(recipe, dataset)
    blueprint, fingerprint = Blueprint.of(recipe, dataset), dataset.fingerprint
    dataset = with_walks(dataset, recipe.walk_features) if recipe.walk_features else dataset
    layers = layers_of(blueprint)
    if torch.device(device).type == "cuda":
        # A GPU builds a bag in less time than a disk takes to give it.
        bag = bag_of(dataset.graphs.to(device), recipe.selected, layers)
    else:
        bag = cached_bag(dataset, recipe.selected, layers, cache=cache).to(device)
    return Prepared(dataset, fingerprint, blueprint, bag, splits)


def layers_of(blueprint: Blueprint) -> int:
    """The layers that a bag for this network must be exact for."""
    with torch.random.fork_rng(devices=[]):
        model: SubgraphGNN = blueprint.build()
    return model.num_layers + model.encoder.lookahead


def data_of(recipe: Recipe, root: str | Path | None = None, cache: str | Path | None = None) -> Dataset:
    """The data that a recipe names."""
    targets = [name.strip() for name in recipe.targets.split(",")] if recipe.targets else None
    asked = {"task": recipe.task, "smiles": recipe.smiles, "targets": targets}
    return find_data(recipe.data, root, cache, **{name: value for name, value in asked.items() if value})


def find_data(name: str, root: str | Path | None = None, cache: str | Path | None = None, **asked: Any) -> Dataset:
    """A set of the catalogue, or a user's own by its path; `asked` is for `esan.data.own`."""
    if name.lower().replace("_", "-") in data.names():
        return data.load(name, root, cache=cache)
    if not Path(name).exists():
        raise ValueError(
            f"Expected the name of a set, or a file or folder of graphs (got {name!r}, which is neither). "
            f"Known sets: {', '.join(data.names())}."
        )
    return data.own(name, name=Path(name).stem, **asked)


def split_as(recipe: Recipe, dataset: Dataset) -> list[Split]:
    """The splits of the recipe's protocol, one a fold."""
    if recipe.split == "folds":
        return data.stratified_folds(dataset, recipe.folds, recipe.split_seed)
    if recipe.split == "random":
        return [data.random(dataset, FRACTIONS, recipe.split_seed)]
    return [data.scaffold(dataset, FRACTIONS) if recipe.split == "scaffold" else data.given(dataset)]


def _check_targets(dataset: Dataset, split: Split) -> None:
    y = dataset.y[split.valid]
    if dataset.task.kind == "labels":
        known = [column[torch.isfinite(column)] for column in y.T]
        if not any(column.unique().numel() == 2 for column in known):
            raise ValueError(
                f"Expected a label with both answers among the validation graphs of {dataset.name} (got none). "
                "Use another split: without one there is no ROC-AUC to choose by."
            )
    elif not bool(torch.isfinite(y).any()):
        raise ValueError(f"Expected targets for the validation graphs of {dataset.name} (got none). Use another split.")
