"""Bags of datasets on disk: built once; one that is stale or broken is built again."""

import re
import warnings
from dataclasses import replace
from pathlib import Path

from esan.bags import Bag
from esan.bags.build.large import never_whole
from esan.data import Dataset, cache_folder
from esan.policies import Policy, Sampled
from esan.train.engines.resample import fresh_bag


def cached_bag(dataset: Dataset, policy: Policy, num_layers: int, *, cache: str | Path | None = None) -> Bag:
    """The compact bag of a dataset, read from the cache if it is there and was built from this very data.

    Args:
        dataset: the graphs.
        policy: how subgraphs are selected; of a `Sampled` one, the whole bag is kept, and samples are drawn from it,
            unless it is too large to hold (`esan.train.fresh`).
        num_layers: the layers that the bag must be exact for.
        cache: the folder of the cache, else $ESAN_CACHE, else .cache/esan in the user's home.
    """
    if isinstance(policy, Sampled):
        if never_whole(policy, dataset.graphs):
            return fresh_bag(dataset.graphs, policy, num_layers)
        whole = cached_bag(dataset, policy.policy, num_layers, cache=cache)
        return replace(whole, policy=policy, whole=whole)
    path = bag_file(dataset, policy, num_layers, cache)
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
        warnings.warn(f"The bag is not kept for the next run: {path} cannot be written ({error}).", stacklevel=2)
    return bag


def bag_file(dataset: Dataset, policy: Policy, num_layers: int, cache: str | Path | None = None) -> Path:
    """Where the cache has the bag: the name says what it was built from."""
    what = re.sub(r"\W+", "_", f"{policy!r}").strip("_")
    name = re.sub(r"\W+", "_", dataset.name)
    return cache_folder(cache) / "bags" / f"{name}-{what}-{num_layers}-{dataset.fingerprint[:12]}.npz"
