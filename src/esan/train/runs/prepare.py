"""From a recipe to what a training needs: the dataset, its bag, and the splits."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from esan import data
from esan.bags import Bag
from esan.checks import shown
from esan.data import Dataset, Split
from esan.data.sets.catalogue import known_name
from esan.nn import SubgraphGNN
from esan.train.engines.resample import bag_of
from esan.train.model_spec import Blueprint
from esan.train.recipes.baselines import with_walks
from esan.train.recipes.fields import columns_of
from esan.train.recipes.recipe import Recipe
from esan.train.runs.cache import cached_bag

#: The parts of a random or scaffold split: train, valid, test.
FRACTIONS = (0.8, 0.1, 0.1)


@dataclass(frozen=True, eq=False)
class Prepared:
    """What the trainings of a recipe share.

    Attributes:
        dataset: the graphs and their task, with walk counts where the recipe has them.
        fingerprint: of the dataset as it was loaded.
        blueprint: what networks are built from.
        bag: of all graphs, on the host.
        splits: a split a fold.
        device: where networks are trained.
    """

    dataset: Dataset
    fingerprint: str
    blueprint: Blueprint
    bag: Bag
    splits: list[Split]
    device: torch.device

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
        device: where networks are trained; a GPU builds the bag too, some graphs at a time, and keeps nothing of it.
    """
    dataset = data_of(recipe, root, cache) if dataset is None else dataset
    splits = split_as(recipe, dataset)
    blueprint, fingerprint = Blueprint.of(recipe, dataset), dataset.fingerprint
    dataset = with_walks(dataset, recipe.walk_features) if recipe.walk_features else dataset
    layers, place = layers_of(blueprint), torch.device(device)
    if place.type == "cuda":
        # A GPU builds a bag in less time than a disk takes to give it.
        bag = bag_of(dataset.graphs, recipe.policy, layers, place)
    else:
        bag = cached_bag(dataset, recipe.policy, layers, cache=cache)
    return Prepared(dataset, fingerprint, blueprint, bag, splits, place)


def layers_of(blueprint: Blueprint) -> int:
    """The layers that a bag for this network must be exact for."""
    with torch.random.fork_rng(devices=[]):
        model: SubgraphGNN = blueprint.build()
    return model.num_layers + model.encoder.lookahead


def data_of(recipe: Recipe, root: str | Path | None = None, cache: str | Path | None = None) -> Dataset:
    """The data that a recipe names."""
    return find_data(recipe.data, root, cache, **reading(recipe))


def reading(recipe: Recipe) -> dict[str, Any]:
    """How a recipe has its data read, for `esan.data.own`."""
    asked = {name: getattr(recipe, name) for name in ("task", "smiles", "labels", "skip_unreadable", "skip_missing")}
    asked["targets"] = columns_of(recipe.targets)
    return {name: value for name, value in asked.items() if value}


def find_data(name: str, root: str | Path | None = None, cache: str | Path | None = None, **asked: Any) -> Dataset:
    """A set of the catalogue, or a user's own by its path; `asked` is for `esan.data.own`."""
    if is_name(name):
        if asked:
            raise ValueError(
                f"Expected nothing on how to read {name}, a set that esan knows (got {', '.join(sorted(asked))}). "
                "Leave it out, or give the path of your own data."
            )
        return data.load(name, root, cache=cache)
    try:
        there = Path(name).exists()
    except OSError:  # too long for the name of a file
        there = False
    if not there:
        raise ValueError(
            f"Expected the name of a set, or a file or folder of graphs (got {shown(name, 300)}, which is neither). "
            f"Paths are looked up in {Path.cwd()} and, of a recipe, beside its file. "
            f"Known sets: {', '.join(data.names())}."
        )
    return data.own(name, name=Path(name).stem, **asked)


def is_name(text: str) -> bool:
    """Whether a set of the catalogue is called so."""
    return known_name(text) is not None


def split_as(recipe: Recipe, dataset: Dataset) -> list[Split]:
    """The splits of the recipe's protocol, one a fold."""
    if recipe.split == "auto":
        return [dataset.given or hold_out(dataset, recipe.split_seed)]
    if recipe.split == "given" and dataset.given is None:
        raise ValueError(
            f"Expected a dataset that comes with a split (got {dataset.name}, which has none). "
            'Set split = "auto", "folds", "scaffold" or "random".'
        )
    if recipe.split == "folds":
        return data.stratified_folds(dataset, recipe.folds, recipe.split_seed)
    if recipe.split == "random":
        return [data.random(dataset, FRACTIONS, recipe.split_seed)]
    return [data.scaffold(dataset, FRACTIONS) if recipe.split == "scaffold" else data.given(dataset)]


def hold_out(dataset: Dataset, seed: int) -> Split:
    """A tenth of the graphs for validation: of each class at least one, if it has two; of labels, by any yes at all."""
    y = dataset.y
    groups = {"classification": lambda: y, "labels": lambda: (y == 1).any(1).long(), "regression": lambda: None}
    found = groups[dataset.task.kind]()
    group = torch.zeros(len(dataset), dtype=torch.long) if found is None else found
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed))
    valid = []
    for number in group.unique().tolist():
        members = order[group[order] == number]
        valid.append(members[: max(round(members.numel() / 10), min(1, members.numel() - 1))])
    held = torch.zeros(len(dataset), dtype=torch.bool)
    held[torch.cat(valid)] = True
    return Split((~held).nonzero()[:, 0], held.nonzero()[:, 0])


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
