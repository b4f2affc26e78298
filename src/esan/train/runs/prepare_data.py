"""`prepare`: from a recipe to its dataset, splits and bag; bags are cached on disk."""

import re
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from esan import data
from esan.bags import Bag
from esan.bags.build.build_rows import stores_samples_only
from esan.checks import shown
from esan.data import Dataset, Split, cache_folder
from esan.data.sets.catalogue import known_name
from esan.graphs.readers.files import exists
from esan.nn import SubgraphGNN
from esan.plural import counted
from esan.policies import Policy, Sampled
from esan.train.baselines import with_walks
from esan.train.engines.subgraph_sampling import graphs_only_bag, training_bag
from esan.train.model_spec import WITH_EDGES, ModelSpec
from esan.train.recipes.recipe import Recipe
from esan.train.recipes.recipe_fields import columns_of
from esan.train.runs.provenance import data_sha256
from esan.train.seen_categories import SeenCategories, seen_categories

#: The fractions of a random or scaffold split: train, valid, test.
FRACTIONS = (0.8, 0.1, 0.1)


@dataclass(frozen=True, eq=False)
class PreparedData:
    """What all jobs of a recipe share.

    Attributes:
        dataset: the graphs and their task, with walk counts where the recipe has them.
        fingerprint: of the dataset as it was loaded.
        sha256: of the same and the split it comes with, for records.
        model_spec: what networks are built from.
        bag: of all graphs, on the CPU.
        splits: one split per fold.
        device: where networks are trained.
    """

    dataset: Dataset
    fingerprint: str
    sha256: str
    model_spec: ModelSpec
    bag: Bag
    splits: list[Split]
    device: torch.device
    _seen: dict[int, SeenCategories] = field(default_factory=dict)

    def split(self, fold: int) -> Split:
        """The split of a fold; ValueError unless it has targets to train on and to validate with."""
        split = data.check_split(self.dataset, self.splits[fold])
        if not split.valid.numel():
            raise ValueError(
                f"Expected graphs for validation in fold {fold} of {self.dataset.name} (got none). Use another split."
            )
        _check_targets(self.dataset, split)
        return split

    def seen(self, fold: int) -> SeenCategories:
        """The categories of the training graphs of a fold, counted once for all seeds."""
        if fold not in self._seen:
            self._seen[fold] = seen_categories(self.model_spec, self.dataset.graphs, self.splits[fold].train)
        return self._seen[fold]


def prepare(
    recipe: Recipe,
    *,
    dataset: Dataset | None = None,
    root: str | Path | None = None,
    cache: str | Path | None = None,
    device: torch.device | str = "cpu",
) -> PreparedData:
    """Load the data (unless it is given), split it, and load or build its bag.

    Args:
        recipe: what is to be trained.
        dataset: the data, instead of what the recipe names.
        root: the folder of the data, see `esan.data.load`.
        cache: the folder of cached bags.
        device: where networks are trained; a GPU also builds the bag, in chunks, which are stored on the CPU.
    """
    dataset = load_recipe_data(recipe, root, cache) if dataset is None else dataset
    _warn_unused_edges(recipe, dataset)
    _warn_constant(recipe, dataset)
    splits = splits_for(recipe, dataset)
    model_spec, fingerprint = ModelSpec.of(recipe, dataset), dataset.fingerprint
    sha256 = data_sha256(fingerprint, dataset.given)
    dataset = with_walks(dataset, recipe.walk_features) if recipe.walk_features else dataset
    layers, device = bag_layers(model_spec), torch.device(device)
    if device.type == "cuda":
        # A GPU builds a bag in less time than a disk takes to read it.
        bag = training_bag(dataset.graphs, recipe.policy, layers, device)
    else:
        bag = cached_bag(dataset, recipe.policy, layers, cache=cache)
    return PreparedData(dataset, fingerprint, sha256, model_spec, bag, splits, device)


def _warn_unused_edges(recipe: Recipe, dataset: Dataset) -> None:
    if dataset.edge_channels is not None and recipe.edge_features and recipe.conv not in WITH_EDGES:
        warnings.warn(
            f"{dataset.name} has edge features, which the convolution {recipe.conv} does not read. Set conv=auto to "
            "use them, or edge_features=false to train without.",
            stacklevel=3,
        )


def _warn_constant(recipe: Recipe, dataset: Dataset) -> None:
    """Say which features are not used since they are the same everywhere, unless they are left out anyway."""
    read = {"x": ("node", recipe.node_features), "edge_attr": ("edge", recipe.edge_features)}
    for name, unused in dataset.unused.items():
        what, is_read = read[name]
        if unused.row is not None and not unused.asked and is_read:
            row = shown(unused.row[0] if unused.columns == 1 else list(unused.row))
            warnings.warn(
                f"{name} of {dataset.name} is {row} on every {what}: it says nothing and is not used, and predictions "
                f"are made for graphs with this {name} or none. Delete it, or set {what}_features=false.",
                stacklevel=3,
            )


def bag_layers(model_spec: ModelSpec) -> int:
    """The number of layers that a bag for this network must be exact for."""
    with torch.random.fork_rng(devices=[]):
        model: SubgraphGNN = model_spec.build()
    return model.num_layers + model.encoder.lookahead


def load_recipe_data(recipe: Recipe, root: str | Path | None = None, cache: str | Path | None = None) -> Dataset:
    """The data that a recipe names."""
    return find_data(recipe.data, root, cache, **read_options(recipe))


def read_options(recipe: Recipe) -> dict[str, Any]:
    """The recipe's options for reading data, as arguments of `esan.data.own`."""
    options = {name: getattr(recipe, name) for name in ("task", "smiles", "labels", "skip_unreadable", "skip_missing")}
    options["targets"] = columns_of(recipe.targets)
    return {name: value for name, value in options.items() if value}


def find_data(name: str, root: str | Path | None = None, cache: str | Path | None = None, **options: Any) -> Dataset:
    """A dataset of the catalogue by name, or a user's own by path; `options` are for `esan.data.own`."""
    if is_dataset_name(name):
        if options:
            raise ValueError(
                f"Expected nothing on how to read {name}, a set that esan knows (got {', '.join(sorted(options))}). "
                "Leave it out, or give the path of your own data."
            )
        return data.load(name, root, cache=cache)
    there = exists(name)
    if not there and (Path(name).suffix or "/" in name):
        raise FileNotFoundError(
            f"Expected a file or folder of graphs (got {shown(name, 300)}, which is not there). Paths are looked up in "
            f"{Path.cwd()} and, for a recipe, beside its file."
        )
    if not there:
        raise ValueError(
            f"Expected the name of a set, or a file or folder of graphs (got {shown(name, 300)}, which is neither). "
            f"Paths are looked up in {Path.cwd()} and, for a recipe, beside its file. "
            f"Known sets: {', '.join(data.names())}."
        )
    return data.own(name, name=Path(name).stem, **options)


def is_dataset_name(text: str) -> bool:
    """Whether the catalogue has a dataset of this name."""
    return known_name(text) is not None


def splits_for(recipe: Recipe, dataset: Dataset) -> list[Split]:
    """The splits of the recipe's protocol, one per fold."""
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
    """A tenth of the graphs for validation and a tenth for the test, of each class in its share.

    Of a class, one graph at least validates if it has two, and one at least tests if it has three. Labels are divided
    by whether a graph has any label of 1.
    """
    y = dataset.y
    groups = {"classification": lambda: y, "labels": lambda: (y == 1).any(1).long(), "regression": lambda: None}
    found = groups[dataset.task.kind]()
    group = torch.zeros(len(dataset), dtype=torch.long) if found is None else found
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed))
    part = torch.zeros(len(dataset), dtype=torch.long)
    for number in group.unique().tolist():
        members = order[group[order] == number]
        tenth, spare = round(members.numel() / 10), members.numel() - 1
        valid = max(tenth, min(1, spare))
        test = max(tenth, min(1, spare - valid))
        part[members[:valid]], part[members[valid : valid + test]] = 1, 2
    if not bool((part == 1).any()):
        alike = {"classification": " of the same class", "labels": " with the same answer"}.get(dataset.task.kind, "")
        raise ValueError(
            f"Expected at least two graphs{alike}, one to train on and one to validate with (got "
            f"{counted(len(dataset), 'graph')} in {dataset.name}). Add graphs."
        )
    return Split(*((part == number).nonzero()[:, 0] for number in range(3)))


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


# -- cached bags -------------------------------------------------------------------------------------------------------


def cached_bag(dataset: Dataset, policy: Policy, num_layers: int, *, cache: str | Path | None = None) -> Bag:
    """The compact bag of a dataset, from the cache if it was built from the same data; a damaged one is built again.

    Args:
        dataset: the graphs.
        policy: selects the subgraphs; for a `Sampled` one the whole bag is cached, and samples are drawn from it,
            unless it is too large for memory (`esan.train.engines.subgraph_sampling`).
        num_layers: the number of layers that the bag must be exact for.
        cache: the folder of the cache, else $ESAN_CACHE, else .cache/esan in the user's home.
    """
    if isinstance(policy, Sampled):
        if stores_samples_only(policy, dataset.graphs):
            return graphs_only_bag(dataset.graphs, policy, num_layers)
        whole = cached_bag(dataset, policy.policy, num_layers, cache=cache)
        return replace(whole, policy=policy, sampled_from=whole)
    path = cache_file(dataset, policy, num_layers, cache)
    if path.is_file():
        try:
            return Bag.load(path, source=dataset.graphs, policy=policy, num_layers=num_layers)
        except ValueError as error:
            warnings.warn(f"The cached bag is built again: {error}", stacklevel=2)
    bag = Bag.of(dataset.graphs, policy, num_layers)
    try:
        bag.save(path)
    except OSError as error:
        # A cache that cannot be written costs time, not results.
        warnings.warn(f"The bag is not cached for the next run: {path} cannot be written ({error}).", stacklevel=2)
    return bag


def cache_file(dataset: Dataset, policy: Policy, num_layers: int, cache: str | Path | None = None) -> Path:
    """The path of a cached bag; its name says what the bag was built from."""
    what = re.sub(r"\W+", "_", f"{policy!r}").strip("_")
    name = re.sub(r"\W+", "_", dataset.name)
    return cache_folder(cache) / "bags" / f"{name}-{what}-{num_layers}-{dataset.fingerprint[:12]}.npz"
