"""`fit`: your graphs in, a trained network out, without a training loop."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from esan import data
from esan.checks import device_here, device_named, seed_number, truth_value
from esan.data import Dataset
from esan.data.custom import Labels
from esan.graphs import Source
from esan.policies import Policy, as_policy, checked_source
from esan.train.predictor import Predictor
from esan.train.recipes.recipe import FIELDS, Recipe
from esan.train.recipes.recipe_fields import refuse_unknown
from esan.train.runs.job import Job
from esan.train.runs.loggers import ProgressBars
from esan.train.runs.prepare_data import find_data, read_options
from esan.train.runs.training_loop import run_jobs


def fit(
    source: Source | Dataset | str | Path,
    policy: Policy | str = "EGO+(2)",
    *,
    seed: int = 0,
    device: torch.device | str = "auto",
    folder: str | Path | None = None,
    progress: bool = True,
    labels: Labels | None = None,
    **settings: Any,
) -> Predictor:
    """A subgraph network trained on your graphs.

    The defaults are those of `Recipe`: DSS-GNN on GIN (GINE where there are edge features), 4 layers of width 64,
    targets of regression scaled, Adam with a learning rate that is halved when validation no longer improves, at most
    200 epochs, stopped early. A tenth of the graphs validates and a tenth tests (stratified by class), unless the data
    comes with a split. The weights are those of the least validation loss.

    Args:
        source: graphs as `esan.data.own` takes them (PyG data, networkx, a path), a dataset, or the name of a set.
        policy: how subgraphs are selected, by name or as an object of esan, `Sampled` ones too; ego-nets of two hops
            with the root marked if nothing is said.
        seed: draws weights, order and samples; the same seed on the same machine gives the same network.
        device: where to train; "auto" for a GPU if there is one.
        folder: where checkpoints, curve, record and bags (`cache`) go, so that an interrupted call continues, and one
            that was finished is read; other data or settings than there are an error. None for nowhere.
        progress: whether to show a bar.
        labels: the targets, one row per graph: numbers, or words for classes; or a text file of them. By default those
            that the graphs have.
        settings: any field of `Recipe`: `epochs=50`, `model="ds"`, `lr=0.01`; `task`, and of a table `smiles`,
            `targets`, `skip_unreadable` and `skip_missing`, say how the source is read.
    """
    policy, seed = as_policy(policy), seed_number(seed)
    truth_value("progress", progress, "Pass progress=False for no bar.")
    device = device_here(device_named(device))
    source = checked_source(source, repr(policy))
    refuse_unknown(settings, FIELDS)
    values: dict[str, Any] = {"policy": policy, "split_seed": seed} | settings
    if isinstance(labels, str | Path):
        values["labels"] = str(labels)
    # Before data is read: a word that is wrong costs no waiting.
    recipe = Recipe(**{"data": "own", "name": "fit"} | values)
    dataset = _dataset(source, read_options(recipe) | ({} if labels is None else {"labels": labels}))
    recipe = replace(recipe, data=settings.get("data", dataset.name))
    with TemporaryDirectory(prefix="esan-") as scratch:
        runs = Path(scratch if folder is None else folder)
        job = Job(recipe, seed=seed)
        loggers = [ProgressBars()] if progress else []
        # Bags of a user's own data are not left behind in a cache that is shared.
        run_jobs([job], runs, dataset=dataset, cache=runs / "cache", device=device, loggers=loggers)
        return Predictor.load(job.folder(runs)).to(device)


def _dataset(source: Source | Dataset | str | Path, asked: dict[str, Any]) -> Dataset:
    if isinstance(source, Dataset):
        strange = sorted(name for name in asked if (name, asked[name]) != ("task", source.task.kind))
        if strange:
            raise ValueError(
                f"Expected nothing on how to read a Dataset, which is read already (got {', '.join(strange)}). "
                "Say it to esan.data.own or esan.data.load."
            )
        return source
    return find_data(str(source), **asked) if isinstance(source, str | Path) else data.own(source, **asked)
