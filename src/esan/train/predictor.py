"""`Predictor`: a trained network with all that predictions need; saved as one file, without a pickle of code."""

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
from esan.train.baselines import with_walks
from esan.train.engines.engine import EagerEngine
from esan.train.engines.objective import Objective
from esan.train.engines.subgraph_sampling import training_bag
from esan.train.prediction_inputs import read_graphs, targets_for, with_targets
from esan.train.predictions import Predictions
from esan.train.runs.checkpoints import CheckpointHeader, check_same_run, load_checkpoint, save_checkpoint
from esan.train.runs.metrics import METRICS, combine_samples
from esan.train.runs.prepare_data import bag_layers
from esan.train.runs.records import Record
from esan.train.runs.run_files import WEIGHT_FILES, find_run_directory
from esan.train.seen_categories import warn_unseen


@dataclass(frozen=True, eq=False)
class Predictor:
    """A trained network.

    Attributes:
        model: the network, in eval mode.
        header: the recipe, what it knows of the data, the data's fingerprint, fold and seed.
        objective: how its answers are scaled.
        record: of its training; None if it was not saved.
    """

    model: SubgraphGNN
    header: CheckpointHeader
    objective: Objective
    record: Record | None = None

    @staticmethod
    def of(header: CheckpointHeader, state: dict[str, Any], record: Record | None = None) -> "Predictor":
        """From weights, "model", and "shift" and "scale" of its answers if they are scaled."""
        if "model" not in state:
            raise ValueError("Expected a checkpoint with the weights of a network (got one without). Train again.")
        with torch.random.fork_rng(devices=[]):
            model = header.model_spec.build()
        model.load_state_dict(state["model"])
        objective = Objective(header.model_spec.task.kind, state.get("shift"), state.get("scale"))
        return Predictor(model.eval(), header, objective, record)

    def predict(
        self, source: Source | Dataset | str | Path, *, smiles: str | None = None, skip_unreadable: bool = False
    ) -> Predictions:
        """Predictions for graphs; targets that they come with are not looked at.

        The graphs have the features of the training data; others are an error. Categories that no training graph had
        are named in a warning.

        Args:
            source: graphs as `esan.data.own` takes them: PyG data, networkx, a path; a dataset; or the name of a set.
            smiles: the column of SMILES in a table; None for that of the training data.
            skip_unreadable: whether rows of a table that cannot be read are left out with a warning.
        """
        samples = self.predict_samples(read_graphs(source, self.header.model_spec, smiles, skip_unreadable))
        model_spec = self.header.model_spec
        return Predictions.of(samples, self.task.kind, model_spec.classes, model_spec.targets)

    def score(self, source: Source | Dataset | str | Path, **asked: Any) -> float:
        """The metric of the task on graphs with targets: accuracy, ROC-AUC (parts of 1), or mean absolute error.

        ROC-AUC is not a number where no label has both answers.

        Args:
            source: as for `predict`, with targets; of the classes, some may be missing.
            asked: what else `esan.data.own` takes, e.g. `labels=...` or `targets=[...]`.
        """
        dataset = with_targets(source, self.header.model_spec, asked)
        y = targets_for(dataset, self.header.model_spec)
        outcome = combine_samples(self.predict_samples(read_graphs(dataset, self.header.model_spec)), self.task.kind)
        return METRICS[self.task.metric](outcome.prediction, y)

    def predict_samples(self, dataset: Dataset) -> Tensor:
        """What the network gives for each sample of each graph, `[samples, G, C]`, on the CPU; one for whole bags."""
        recipe, model_spec = self.header.model_spec.recipe, self.header.model_spec
        warn_unseen(model_spec, self.header.seen, dataset.graphs, stacklevel=3)
        if recipe.walk_features:
            dataset = with_walks(dataset, recipe.walk_features)
        # The same samples in every call, so that a prediction can be repeated.
        generator = torch.Generator().manual_seed(self.header.seed)
        bag = training_bag(dataset.graphs, recipe.policy, bag_layers(model_spec))
        engine = EagerEngine(self.model, bag, self.objective, recipe.lr, recipe.batch_size, generator)
        ids = torch.arange(len(dataset))
        return torch.stack([engine.predict(ids) for _ in range(recipe.num_votes)]).cpu()

    @property
    def task(self) -> Task:
        return self.header.model_spec.task

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def to(self, device: torch.device | str) -> "Predictor":
        """The same network, computing there."""
        return replace(self, model=self.model.to(device_here(device)))

    def save(self, path: str | Path) -> None:
        """Write it to one file, whole or not at all."""
        scaled = {"shift": self.objective.shift, "scale": self.objective.scale}
        there = {name: tensor.cpu() for name, tensor in scaled.items() if tensor is not None}
        weights = {name: tensor.cpu() for name, tensor in self.model.state_dict().items()}
        save_checkpoint(Path(path), self.header, {"model": weights} | there)

    @staticmethod
    def load(path: str | Path, weights: str = "best") -> "Predictor":
        """Read what `save` wrote, or the folder of a run.

        Args:
            path: the file or folder.
            weights: of a run, "best" for the epoch of best validation, "last" for the last one.
        """
        path = Path(path)
        check_known("weights", weights, WEIGHT_FILES)
        folder = find_run_directory(path) if path.is_dir() else None
        if folder is None:
            return Predictor.of(*load_checkpoint(path))
        if weights == "best" and not (folder / WEIGHT_FILES["best"]).is_file():
            raise FileNotFoundError(
                f"Expected best.pt in {folder} (got checkpoint.pt alone: its training is not over). Train on with the "
                'same command, or take the weights as they are with weights="last" (--weights last).'
            )
        header, state = load_checkpoint(folder / WEIGHT_FILES[weights])
        record = Record.load(folder / "record.json") if (folder / "record.json").is_file() else None
        check_same_run(header, folder, record, WEIGHT_FILES[weights])
        return Predictor.of(header, state, record)

    def __repr__(self) -> str:
        model_spec = self.header.model_spec
        recipe = model_spec.recipe
        valid = None if self.record is None else self.record.best.valid
        best = "" if valid is None else f", best valid {self.task.metric} {valid:.4g}"
        kind = self.task.kind
        if model_spec.classes is not None and len(model_spec.classes) <= 10:
            kind += f" of {', '.join(map(str, model_spec.classes))}"
        return f"Predictor({recipe.model}-{model_spec.conv}, policy={policy_name(recipe.policy)!r}, {kind}{best})"
