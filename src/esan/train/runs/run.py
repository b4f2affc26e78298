"""`Run`: one job in progress: its engine, learning-rate schedule, best epoch and files."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from esan.train.baselines import drop_edge
from esan.train.engines.engine import Engine, MakeEngine
from esan.train.engines.objective import Objective, objective_for
from esan.train.predictions import save_predictions
from esan.train.runs.checkpoints import CheckpointHeader, load_checkpoint, save_checkpoint
from esan.train.runs.job import Job
from esan.train.runs.lr_schedule import LRSchedule
from esan.train.runs.metrics import METRICS, CombinedSamples, combine_samples
from esan.train.runs.prepare_data import PreparedData
from esan.train.runs.provenance import code_commit
from esan.train.runs.records import (
    HIGHER_IS_BETTER,
    Epoch,
    Point,
    Record,
    finite_or_none,
    hardware,
    now,
    peak_bytes,
    versions,
)
from esan.train.runs.run_files import PREDICTIONS, remove_partial_files, write_text

#: Predicted numbers that a checkpoint and the file of predictions hold at most.
_MOST_PREDICTIONS = 1_000_000


class Run:
    """A job in progress. An epoch is `train`, `predict` and `read`, in this order; the first two are asynchronous.

    Args:
        job: what is trained.
        prepared: its data.
        folder: the run directory; None to write nothing.
        make_engine: makes the engine.
    """

    def __init__(self, job: Job, prepared: PreparedData, folder: Path | None, make_engine: MakeEngine) -> None:
        self.job, self.prepared, self.folder = job, prepared, folder
        recipe, dataset = job.recipe, prepared.dataset
        self.task, self.split = dataset.task, prepared.split(job.fold)
        self.schedule = LRSchedule(recipe)
        model_spec = prepared.model_spec
        seen = prepared.seen(job.fold)
        self.header = CheckpointHeader(model_spec, job.fold, job.seed, prepared.fingerprint, prepared.sha256, seen)
        # On the CPU whatever the device, so that a seed means the same weights and order everywhere.
        self.order = torch.Generator().manual_seed(job.seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed)
            model = model_spec.build()
        self.parameters = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
        self.objective = objective_for(self.task.kind, dataset.y[self.split.train], recipe.scale_targets)
        self.engine: Engine = make_engine(
            model.to(prepared.device),
            prepared.bag,
            self.objective,
            recipe.lr,
            recipe.batch_size,
            torch.Generator().manual_seed(job.seed + 1_000_003),
            augment=drop_edge(recipe.drop_edge) if recipe.drop_edge else None,
        )
        self.curve: list[Epoch] = []
        self.best: Epoch | None = None
        self.best_loss = float("inf")
        self.best_model: dict[str, Tensor] = {}
        #: For validation and test graphs, at the best epoch.
        self.best_predictions: dict[str, Tensor] = {}
        self.seconds, self.started = 0.0, now()
        self.commit = code_commit()
        self._pending: dict[str, Tensor] = {}
        self._num_samples = recipe.num_votes
        #: The epoch of the checkpoint; 0 for none.
        self.saved_epoch = 0

    # -- an epoch ------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The number of finished epochs."""
        return len(self.curve)

    @property
    def is_saved(self) -> bool:
        """Whether the checkpoint is of the last finished epoch; a run that writes nothing has nothing to lose."""
        return self.folder is None or self.saved_epoch == self.epoch

    @property
    def is_done(self) -> bool:
        """Whether no epoch is left: all are done, the learning rate is too small, or there is no progress."""
        recipe = self.job.recipe
        waited = self.epoch - (self.best.epoch if self.best is not None else 0)
        return self.epoch >= recipe.epochs or self.schedule.is_finished or 0 < recipe.stop_after <= waited

    def train(self) -> None:
        """Start one epoch on the training graphs, in a new order."""
        order = torch.randperm(self.split.train.numel(), generator=self.order)
        self.engine.set_lr(self.schedule.lr)
        loss = self.engine.train_epoch(self.split.train[order], self.job.recipe.recalibrated_over)
        self._pending = {"loss": loss}

    def predict(self) -> None:
        """Start the predictions for validation and test graphs."""
        for part in ("valid", "test"):
            if (ids := getattr(self.split, part)).numel():
                self._pending[part] = self._predicted(ids)

    def read(self) -> Epoch:
        """Wait for the results of the epoch, and add them to the learning curve."""
        results = {name: tensor.cpu() for name, tensor in self._pending.items()}
        epoch, lr = self.epoch + 1, self.schedule.lr
        valid, test = self._metric(results, "valid"), self._metric(results, "test")
        line = Epoch(epoch, lr, finite_or_none(float(results["loss"])), valid, test)
        self.curve.append(line)
        valid_loss = self._valid_loss(results["valid"])
        if self._better(line, valid_loss):
            self.best, self.best_loss = line, valid_loss
            self.best_model = self.engine.weights()
            self.best_predictions = {part: results[part] for part in ("valid", "test") if part in results}
        self.schedule.step(epoch, valid_loss)
        return line

    def _predicted(self, ids: Tensor) -> Tensor:
        """The predictions for each sample of the bags, `[samples, G, C]`; one sample of whole bags."""
        return torch.stack([self.engine.predict(ids) for _ in range(self._num_samples)])

    def _metric(self, predictions: dict[str, Tensor], part: str) -> float | None:
        if part not in predictions:
            return None
        prediction = self._average(predictions[part]).prediction
        y = self.prepared.dataset.y[getattr(self.split, part)]
        return finite_or_none(METRICS[self.task.metric](prediction, y))

    def _average(self, samples: Tensor) -> CombinedSamples:
        return combine_samples(samples, self.task.kind)

    def _valid_loss(self, samples: Tensor) -> float:
        y = self.prepared.dataset.y[self.split.valid]
        # Predictions are in the units of the targets already.
        return float(torch.stack([Objective(self.task.kind).losses(sample, y).mean() for sample in samples]).mean())

    def _better(self, line: Epoch, valid_loss: float) -> bool:
        """Whether validation is the best so far; for equal metrics, the lower loss is better."""
        if self.job.recipe.select == "best-loss":
            return self.best is None or valid_loss < self.best_loss
        if line.valid is None or self.best is None or self.best.valid is None:
            return self.best is None or line.valid is not None
        sign = 1 if HIGHER_IS_BETTER[self.task.metric] else -1
        return (sign * line.valid, -valid_loss) > (sign * self.best.valid, -self.best_loss)

    # -- files ---------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint of the last finished epoch, from which the training continues."""
        if self.folder is None:
            return
        best = list(self.best) if self.best is not None else []
        own = {"order": self.order.get_state(), "schedule": self.schedule.state_dict()}
        curve = {"curve": [list(line) for line in self.curve], "best": best, "best_loss": self.best_loss}
        predictions = {"best_predictions": self._kept_predictions()}
        times = {"best_model": self.best_model, "seconds": self.seconds, "started": self.started}
        state = self.engine.state_dict() | self._scaled() | own | curve | times | predictions
        save_checkpoint(self.folder / "checkpoint.pt", self.header, state)
        write_text(self.folder / "curve.csv", self._csv())
        self.saved_epoch = self.epoch

    def resume(self) -> bool:
        """Continue from the checkpoint in the folder, if there is one."""
        path = None if self.folder is None else self.folder / "checkpoint.pt"
        if path is None or not path.is_file():
            return False
        _, state = load_checkpoint(path, self.header)
        self.engine.load_state_dict({name: state[name] for name in ("model", "optimiser", "generator")})
        self.order.set_state(state["order"])
        self.schedule.load_state_dict(state["schedule"])
        self.curve = [Epoch(*line) for line in state["curve"]]
        self.best, self.best_loss = Epoch(*state["best"]) if state["best"] else None, state["best_loss"]
        self.best_model = {n: t.to(self.prepared.device) for n, t in state["best_model"].items()}
        # Checkpoints of version 0.2 and before have none.
        self.best_predictions = state.get("best_predictions", {})
        self.seconds, self.started = state["seconds"], state["started"]
        self.saved_epoch = self.epoch
        return True

    def finish(self) -> Record:
        """The record of a finished training; written after all other files."""
        self.save()
        final, best = self.curve[-1], self.best or self.curve[-1]
        train = {"train": self._predicted(self.split.train).cpu()}
        valid = self._predicted(self.split.valid).cpu() if self._num_samples > 1 else None
        spread = None if valid is None else self._average(valid).spread
        device = self.prepared.device
        record = Record(
            recipe=replace(self.job.recipe, grid=()),
            fold=self.job.fold,
            seed=self.job.seed,
            task=self.task.kind,
            metric=self.task.metric,
            epochs=self.epoch,
            best=Point(best.epoch, None, best.valid, best.test),
            final=Point(final.epoch, self._metric(train, "train"), final.valid, final.test),
            curve=tuple(self.curve),
            parameters=self.parameters,
            spread=None if spread is None else float(spread.mean()),
            versions=versions(),
            hardware=hardware(device),
            seconds=round(self.seconds, 3),
            peak_bytes=peak_bytes(device),
            started=self.started,
            finished=now(),
            commit=self.commit,
            data_sha256=self.prepared.sha256,
        )
        if self.folder is not None:
            save_checkpoint(self.folder / "best.pt", self.header, {"model": self.best_model} | self._scaled())
            if predictions := self._kept_predictions():
                ids = {part: getattr(self.split, part) for part in predictions}
                save_predictions(self.folder / PREDICTIONS, predictions, ids, self.prepared.dataset)
            record.save(self.folder / "record.json")
            remove_partial_files(self.folder)
        return record

    def _kept_predictions(self) -> dict[str, Tensor]:
        """The predictions of the best epoch, or none where there are more than files of a run should hold."""
        values = sum(tensor.numel() for tensor in self.best_predictions.values())
        return self.best_predictions if values <= _MOST_PREDICTIONS else {}

    def _scaled(self) -> dict[str, Tensor]:
        """The scale of regression targets, if they are scaled."""
        scaled = {"shift": self.objective.shift, "scale": self.objective.scale}
        return {name: tensor for name, tensor in scaled.items() if tensor is not None}

    def _csv(self) -> str:
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(Epoch._fields)
        lines.writerows(["" if value is None else value for value in line] for line in self.curve)
        return text.getvalue()
