"""`Fitted`: a trained network with all that predictions need; kept in one file, without a pickle of code."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from esan import data
from esan.data import Dataset, Task
from esan.graphs import Source, load_graphs, read
from esan.nn import SubgraphGNN
from esan.train.baselines import with_walks
from esan.train.blueprint import Blueprint
from esan.train.checkpoints import Belongs, load_checkpoint, save_checkpoint
from esan.train.engine import EagerEngine
from esan.train.fresh import bag_of
from esan.train.machine import device_named
from esan.train.metrics import METRICS
from esan.train.objective import Objective
from esan.train.predictions import Predictions
from esan.train.prepare import layers_of
from esan.train.records import Record
from esan.train.votes import voted

#: The files of a run that hold weights, by what they are called on the command line.
WEIGHTS = {"best": "best.pt", "last": "checkpoint.pt"}


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained network.

    Attributes:
        model: the network, in eval mode.
        belongs: the recipe, what it knows of the data, the data's fingerprint, fold and seed.
        objective: how its answers are scaled.
        record: of its training; None if it was not kept.
    """

    model: SubgraphGNN
    belongs: Belongs
    objective: Objective
    record: Record | None = None

    @staticmethod
    def of(belongs: Belongs, state: dict[str, Any], record: Record | None = None) -> "Fitted":
        """From weights, "model", and "shift" and "scale" of its answers if they are scaled."""
        with torch.random.fork_rng(devices=[]):
            model = belongs.blueprint.build()
        model.load_state_dict(state["model"])
        objective = Objective(belongs.blueprint.task.kind, state.get("shift"), state.get("scale"))
        return Fitted(model.eval(), belongs, objective, record)

    def predict(
        self, source: Source | Dataset | str | Path, *, smiles: str | None = None, skip_unreadable: bool = False
    ) -> Predictions:
        """Predictions for graphs; targets that they come with are not looked at.

        Args:
            source: graphs as `esan.data.own` takes them: PyG data, networkx, a path; or a dataset.
            smiles: the column of SMILES in a table; None for that of the training data.
            skip_unreadable: whether rows of a table that cannot be read are left out with a warning.
        """
        votes = self.votes(read_graphs(source, self.belongs.blueprint, smiles, skip_unreadable))
        return Predictions.of(votes, self.task.kind, self.belongs.blueprint.classes)

    def score(self, source: Source | Dataset | str | Path, **asked: Any) -> float:
        """The metric of the task on graphs with targets: accuracy, ROC-AUC (parts of 1), or mean absolute error.

        Args:
            source: as for `predict`, with targets.
            asked: what else `esan.data.own` takes, e.g. `labels=...` or `targets=[...]`.
        """
        blueprint = self.belongs.blueprint
        dataset = source if isinstance(source, Dataset) else _with_targets(source, blueprint, asked)
        y = dataset.y if self.task.kind != "classification" else _renumbered(dataset, blueprint.classes)
        outcome = voted(self.votes(replace(dataset, graphs=replace(dataset.graphs, y=None))), self.task.kind)
        return METRICS[self.task.metric](outcome.prediction, y)

    def votes(self, dataset: Dataset) -> Tensor:
        """What the network gives for each sample of each graph, `[votes, G, C]`, on the CPU; one for whole bags."""
        recipe, blueprint = self.belongs.blueprint.recipe, self.belongs.blueprint
        if recipe.walk_features:
            dataset = with_walks(dataset, recipe.walk_features)
        # The same samples in every call, so that a prediction can be repeated.
        generator = torch.Generator().manual_seed(self.belongs.seed)
        bag = bag_of(dataset.graphs, recipe.selected, layers_of(blueprint)).to(self.device)
        engine = EagerEngine(self.model, bag, self.objective, recipe.lr, recipe.batch_size, generator)
        ids = torch.arange(len(dataset))
        times = recipe.votes if recipe.fraction < 1 else 1
        return torch.stack([engine.predict(ids) for _ in range(times)]).cpu()

    @property
    def task(self) -> Task:
        return self.belongs.blueprint.task

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def to(self, device: torch.device | str) -> "Fitted":
        """The same network, computing there."""
        return replace(self, model=self.model.to(device_named(device)))

    def save(self, path: str | Path) -> None:
        """Write it to one file, whole or not at all."""
        scaled = {"shift": self.objective.shift, "scale": self.objective.scale}
        there = {name: tensor.cpu() for name, tensor in scaled.items() if tensor is not None}
        weights = {name: tensor.cpu() for name, tensor in self.model.state_dict().items()}
        save_checkpoint(Path(path), self.belongs, {"model": weights} | there)

    @staticmethod
    def load(path: str | Path, weights: str = "best") -> "Fitted":
        """Read what `save` wrote, or the folder of a run.

        Args:
            path: the file or folder.
            weights: of a run, "best" for the epoch of best validation, "last" for the last one.
        """
        path = Path(path)
        if weights not in WEIGHTS:
            raise ValueError(f"Expected weights to be one of {', '.join(WEIGHTS)} (got {weights!r}).")
        folder = _run_folder(path) if path.is_dir() else None
        belongs, state = load_checkpoint(path if folder is None else folder / WEIGHTS[weights])
        record = folder / "record.json" if folder is not None else None
        return Fitted.of(belongs, state, Record.load(record) if record is not None and record.is_file() else None)

    def __repr__(self) -> str:
        recipe = self.belongs.blueprint.recipe
        best = "" if self.record is None else f", best valid {self.task.metric} {self.record.best.valid}"
        return f"Fitted({recipe.model}-{recipe.conv}, policy={recipe.policy!r}, {self.task.kind}{best})"


def read_graphs(
    source: Source | Dataset | str | Path,
    blueprint: Blueprint,
    smiles: str | None = None,
    skip_unreadable: bool = False,
) -> Dataset:
    """Graphs with the features that a network was built for, without targets; arguments as those of `predict`."""
    # Edge features that the network does not use may be there or not.
    told: dict[str, Any] = {"in_channels": blueprint.in_channels, "edge_channels": blueprint.edge_channels}
    if isinstance(source, Dataset):
        return data.own(replace(source.graphs, y=None), task=blueprint.task, name=source.name, **told)
    if not isinstance(source, str | Path):
        return data.own(replace(read(source), y=None), task=blueprint.task, **told)
    path = Path(source)
    if path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv")):
        told |= {"smiles": smiles or blueprint.recipe.smiles or None, "skip_unreadable": skip_unreadable}
        return data.own(path, task=blueprint.task, targets=[], name=path.stem, **told)
    if path.is_dir():
        # As numbers, whatever they are: the labels of a folder are not looked at.
        found = data.own(path, task=Task("regression", 1), name=path.stem, **told)
        return replace(found, task=blueprint.task, graphs=replace(found.graphs, y=None))
    return read_graphs(load_graphs(path), blueprint)


def _with_targets(source: Source | str | Path, blueprint: Blueprint, asked: dict[str, Any]) -> Dataset:
    told: dict[str, Any] = {"in_channels": blueprint.in_channels, "edge_channels": blueprint.edge_channels}
    return data.own(source, task=blueprint.task.kind, **told | asked)


def _renumbered(dataset: Dataset, classes: tuple[int, ...] | None) -> Tensor:
    """The classes of a dataset in the numbers that the network has for them."""
    if dataset.classes == classes:
        return dataset.y
    called = torch.tensor(dataset.classes or range(dataset.task.out_channels))[dataset.y]
    known = {label: number for number, label in enumerate(classes or ())} if classes else None
    labels = called.tolist()
    if known is not None and (strange := sorted(set(labels) - set(known))):
        raise ValueError(
            f"Expected the classes {', '.join(map(str, known))} (got {strange[0]}). Leave those graphs out: "
            "the network was not trained on that class."
        )
    return called if known is None else torch.tensor([known[label] for label in labels])


def _run_folder(path: Path) -> Path:
    """The folder of one run: this one, or the only one below it."""
    if any((path / name).is_file() for name in WEIGHTS.values()):
        return path
    found = sorted({file.parent for name in WEIGHTS.values() for file in path.rglob(name)})
    if len(found) != 1:
        some = f": {', '.join(str(f.relative_to(path)) for f in found[:5])}" if found else ""
        raise ValueError(
            f"Expected the folder of one run at {path} (got {len(found)}{some}). Name one, <recipe>/<fold>-<seed>."
        )
    return found[0]
