"""`Fitted`: a trained network with all that predictions need; kept in one file, without a pickle of code."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from esan.checks import check_known, device_here
from esan.data import Dataset, Task
from esan.graphs import Source
from esan.nn import SubgraphGNN
from esan.policies import policy_name
from esan.train.engines.engine import EagerEngine
from esan.train.engines.objective import Objective
from esan.train.engines.resample import bag_of
from esan.train.engines.votes import voted
from esan.train.predictions import Predictions
from esan.train.reading import read_graphs, targets_for, with_targets
from esan.train.recipes.baselines import with_walks
from esan.train.runs.checkpoints import Belongs, load_checkpoint, save_checkpoint
from esan.train.runs.directory import WEIGHTS, refuse_foreign, run_folder
from esan.train.runs.metrics import METRICS
from esan.train.runs.prepare import layers_of
from esan.train.runs.records import Record


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
        if "model" not in state:
            raise ValueError("Expected a checkpoint with the weights of a network (got one without). Train again.")
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
            source: graphs as `esan.data.own` takes them: PyG data, networkx, a path; a dataset; or the name of a set.
            smiles: the column of SMILES in a table; None for that of the training data.
            skip_unreadable: whether rows of a table that cannot be read are left out with a warning.
        """
        votes = self.votes(read_graphs(source, self.belongs.blueprint, smiles, skip_unreadable))
        return Predictions.of(votes, self.task.kind, self.belongs.blueprint.classes)

    def score(self, source: Source | Dataset | str | Path, **asked: Any) -> float:
        """The metric of the task on graphs with targets: accuracy, ROC-AUC (parts of 1), or mean absolute error.

        ROC-AUC is not a number where no label has both answers.

        Args:
            source: as for `predict`, with targets; of the classes, some may be missing.
            asked: what else `esan.data.own` takes, e.g. `labels=...` or `targets=[...]`.
        """
        dataset = with_targets(source, self.belongs.blueprint, asked)
        y = targets_for(dataset, self.belongs.blueprint)
        outcome = voted(self.votes(read_graphs(dataset, self.belongs.blueprint)), self.task.kind)
        return METRICS[self.task.metric](outcome.prediction, y)

    def votes(self, dataset: Dataset) -> Tensor:
        """What the network gives for each sample of each graph, `[votes, G, C]`, on the CPU; one for whole bags."""
        recipe, blueprint = self.belongs.blueprint.recipe, self.belongs.blueprint
        if recipe.walk_features:
            dataset = with_walks(dataset, recipe.walk_features)
        # The same samples in every call, so that a prediction can be repeated.
        generator = torch.Generator().manual_seed(self.belongs.seed)
        bag = bag_of(dataset.graphs, recipe.policy, layers_of(blueprint))
        engine = EagerEngine(self.model, bag, self.objective, recipe.lr, recipe.batch_size, generator)
        ids = torch.arange(len(dataset))
        return torch.stack([engine.predict(ids) for _ in range(recipe.num_votes)]).cpu()

    @property
    def task(self) -> Task:
        return self.belongs.blueprint.task

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def to(self, device: torch.device | str) -> "Fitted":
        """The same network, computing there."""
        return replace(self, model=self.model.to(device_here(device)))

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
        check_known("weights", weights, WEIGHTS)
        folder = run_folder(path) if path.is_dir() else None
        if folder is None:
            return Fitted.of(*load_checkpoint(path))
        if weights == "best" and not (folder / WEIGHTS["best"]).is_file():
            raise FileNotFoundError(
                f"Expected best.pt in {folder} (got checkpoint.pt alone: its training is not over). Train on with the "
                'same command, or take the weights as they are with weights="last" (--weights last).'
            )
        belongs, state = load_checkpoint(folder / WEIGHTS[weights])
        record = Record.load(folder / "record.json") if (folder / "record.json").is_file() else None
        refuse_foreign(belongs, folder, record, WEIGHTS[weights])
        return Fitted.of(belongs, state, record)

    def __repr__(self) -> str:
        blueprint = self.belongs.blueprint
        valid = None if self.record is None else self.record.best.valid
        best = "" if valid is None else f", best valid {self.task.metric} {valid:.4g}"
        network = f"{blueprint.recipe.model}-{blueprint.conv}, policy={policy_name(blueprint.recipe.policy)!r}"
        return f"Fitted({network}, {self.task.kind}{best})"
