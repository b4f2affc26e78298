"""`fit`: your graphs in, a trained network out, for who does not want to write a loop."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from esan import data
from esan.data import Dataset, Split
from esan.graphs import Source
from esan.policies import Policy, Sampled, policy_named
from esan.train.fitted import Fitted
from esan.train.job import Job
from esan.train.loop import run_jobs
from esan.train.prepare import data_of
from esan.train.recipe import Recipe
from esan.train.watch import Bars

#: What `fit` sets where nothing else is asked for, besides the defaults of a recipe.
DEFAULTS: dict[str, Any] = {
    "epochs": 200,
    "schedule": "plateau",
    "patience": 10,
    "stop_after": 40,
    "train_eps": True,
} | {
    # Of a few validation graphs the loss says more than how many are right.
    "select": "best-loss"
}


def fit(
    source: Source | Dataset | str | Path,
    policy: Policy | str = "EGO+(2)",
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    folder: str | Path | None = None,
    progress: bool = True,
    **settings: Any,
) -> Fitted:
    """A subgraph network trained on your graphs.

    Without further words: DSS-GNN on GIN (GINE where there are edge features), 4 layers of width 64, Adam with a
    learning rate that is halved when validation no longer improves, at most 200 epochs, stopped early; a tenth of the
    graphs validates (stratified by class), unless the data comes with a split; the weights are those of the least
    validation loss.

    Args:
        source: graphs as `esan.data.own` takes them (PyG data, networkx, a path), a dataset, or the name of a set.
        policy: how subgraphs are selected, by name or as an object; `Sampled` ones too.
        seed: draws weights, order and samples; the same seed on the same machine gives the same network.
        device: where to train.
        folder: where checkpoints, curve and record go, so that an interrupted call continues; None for nowhere.
        progress: whether to show a bar.
        settings: any field of `Recipe`: `epochs=50`, `model="ds"`, `lr=0.01`; `task`, and of a table `smiles` and
            `targets`, say how the source is read.
    """
    asked = {name: settings[name] for name in ("task", "smiles", "targets") if settings.get(name)}
    dataset = _dataset(source, asked)
    if dataset.given is None:
        dataset = replace(dataset, given=_hold_out(dataset, seed))
    chosen, fraction = _policy(policy)
    values: dict[str, Any] = DEFAULTS | {
        "conv": "gin" if dataset.edge_channels is None else "gine",
        "policy": chosen,
        "fraction": fraction,
        "scale_targets": dataset.task.kind == "regression",
    }
    recipe = Recipe.from_dict({"data": dataset.name, "name": "fit"} | values | settings)
    with TemporaryDirectory(prefix="esan-") as scratch:
        runs = Path(scratch if folder is None else folder)
        job = Job(recipe, seed=seed)
        watchers = [Bars()] if progress else []
        # Bags of a user's own data are not left behind in a cache that is shared.
        run_jobs([job], runs, dataset=dataset, cache=runs / "cache", device=device, watchers=watchers)
        return Fitted.load(job.folder(runs)).to(device)


def _dataset(source: Source | Dataset | str | Path, asked: dict[str, Any]) -> Dataset:
    if isinstance(source, Dataset):
        return source
    if isinstance(source, str | Path):
        return data_of(Recipe.from_dict({"data": str(source), "name": "fit"} | asked))
    return data.own(source, task=asked.get("task"))


def _policy(policy: Policy | str) -> tuple[str, float]:
    """The name of a policy, and the fraction of its bag that is sampled."""
    known = policy_named(policy) if isinstance(policy, str) else policy
    inner, fraction = (known.policy, known.fraction) if isinstance(known, Sampled) else (known, 1.0)
    try:
        readable = repr(policy_named(repr(inner))) == repr(inner)
    except ValueError:
        readable = False
    if not readable:
        raise ValueError(
            f"Expected a policy that esan can name in a file (got {inner!r}). With a policy of your own, build "
            "bags with Bag.of and train with Loader."
        )
    return repr(inner), fraction


def _hold_out(dataset: Dataset, seed: int) -> Split:
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
