"""Loggers: called after every epoch of a training: progress bars in a terminal, TensorBoard, Weights & Biases."""

from importlib import import_module
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from esan.checks import text_value, truth_value, whole_number
from esan.train.runs.records import DISPLAY_SCALE, Epoch, Record
from esan.train.runs.run import Run


class Logger(Protocol):
    """Called during a training, which it does not change."""

    def on_start(self, runs: list[Run]) -> None:
        """Before the first epoch."""

    def on_epoch(self, run: Run, epoch: Epoch) -> None:
        """After an epoch of a run."""

    def on_finish(self, run: Run, record: Record) -> None:
        """After the last epoch of a run."""

    def close(self) -> None:
        """At the end of all runs, also after an error."""


class ProgressBars:
    """One bar per run, with loss, metrics and time left, whole on 80 columns; more than `most` runs share one.

    Runs of one recipe are named by it once, above their bars, which are called <fold>-<seed>.

    Args:
        console: where they are drawn; None for the error output.
        most: the most bars.
        test: whether the test metric is shown.
    """

    def __init__(self, console: Console | None = None, most: int = 12, test: bool = True) -> None:
        self.most = whole_number("most", most, 0, "Leave it out for 12.")
        self.test = truth_value("test", test, "Leave it out to show it.")
        self.progress = Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(overflow="fold")),
            BarColumn(bar_width=10),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[numbers]}", table_column=Column(no_wrap=True)),
            TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True)),
            console=console or Console(stderr=True),
        )
        self.tasks: dict[int, TaskID] = {}

    def on_start(self, runs: list[Run]) -> None:
        if words := _resumed(runs):
            self.progress.console.print(Text(words), soft_wrap=True)
        one = len({run.job.recipe.name for run in runs}) == 1
        if one:
            metric = runs[0].task.metric
            what = f"{runs[0].job.recipe.name}, {metric}{'' if metric == 'mae' else ', per cent'}"
            self.progress.console.print(Text(what), soft_wrap=True)
        if 0 < len(runs) <= self.most:
            for run in runs:
                name = f"{run.job.fold}-{run.job.seed}" if one else run.job.name
                bar = self.progress.add_task(name, total=run.job.recipe.epochs, completed=run.epoch, numbers="")
                self.tasks[id(run)] = bar
        elif runs:
            total = sum(run.job.recipe.epochs for run in runs)
            bar = self.progress.add_task(
                f"{len(runs)} runs", total=total, completed=sum(run.epoch for run in runs), numbers=""
            )
            self.tasks = {id(run): bar for run in runs}
        self.progress.start()

    def on_epoch(self, run: Run, epoch: Epoch) -> None:
        self.progress.update(
            self.tasks[id(run)],
            advance=1,
            numbers=in_words(epoch if self.test else epoch._replace(test=None), run.task.metric),
        )

    def on_finish(self, run: Run, record: Record) -> None:
        # Epochs that an early stop saved do not count as left.
        saved = run.job.recipe.epochs - record.epochs
        task = self.progress.tasks[self.progress.task_ids.index(self.tasks[id(run)])]
        self.progress.update(self.tasks[id(run)], total=(task.total or 0) - saved)

    def close(self) -> None:
        self.progress.stop()


def _resumed(runs: list[Run]) -> str:
    """Which runs continue from a checkpoint, and with which epoch; empty if none does."""
    again = [f"{run.job.name} at epoch {run.epoch + 1}" for run in runs if run.epoch and not run.is_done]
    few = ", ".join(again[:3]) + (f" and {len(again) - 3} more" if len(again) > 3 else "")
    return f"Continued from the last checkpoint: {few}." if again else ""


def in_words(epoch: Epoch, metric: str) -> str:
    """The numbers of an epoch in a few words: few digits each, so that they fit beside a bar."""
    scale = DISPLAY_SCALE[metric]
    numbers = {"loss": _short(epoch.loss, 1.0)} | {
        name: _short(value, scale) for name, value in (("valid", epoch.valid), ("test", epoch.test))
    }
    return " ".join(f"{name} {value}" for name, value in numbers.items() if value)


def _short(value: float | None, scale: float) -> str:
    if value is None:
        return ""
    if scale != 1:
        return f"{value * scale:.2f}"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.4g}"


class TensorBoard:
    """Curves for TensorBoard, in the folder `tensorboard` of each run; needs the extra `log`."""

    def __init__(self) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ValueError("Expected tensorboard (got none installed). Run: pip install 'esan[log]'.") from error
        self._make = SummaryWriter
        self.writers: dict[int, Any] = {}

    def on_start(self, runs: list[Run]) -> None:
        for run in runs:
            if run.folder is not None:
                # A resumed run writes the epochs after its checkpoint again.
                self.writers[id(run)] = self._make(run.folder / "tensorboard", purge_step=run.epoch + 1)

    def on_epoch(self, run: Run, epoch: Epoch) -> None:
        writer = self.writers.get(id(run))
        for name, value in epoch._asdict().items():
            if writer is not None and value is not None and name != "epoch":
                writer.add_scalar(name, value, epoch.epoch)

    def on_finish(self, run: Run, record: Record) -> None:  # noqa: ARG002
        if (writer := self.writers.pop(id(run), None)) is not None:
            writer.close()

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()


class WandB:
    """Curves for Weights & Biases, one run per job; needs the extra `wandb`.

    Args:
        project: where they go.
    """

    def __init__(self, project: str = "esan") -> None:
        try:
            wandb = import_module("wandb")
        except ImportError as error:
            raise ValueError("Expected wandb (got none installed). Run: pip install 'esan[wandb]'.") from error
        if not text_value("project", project, 'Pass e.g. WandB("esan").').strip():
            raise ValueError(f"Expected the name of a project of W&B (got {project!r}). Pass e.g. esan.")
        self._wandb, self.project = wandb, project
        self.runs: dict[int, Any] = {}

    def on_start(self, runs: list[Run]) -> None:
        for run in runs:
            config = run.job.recipe.to_dict() | {"fold": run.job.fold, "seed": run.job.seed}
            self.runs[id(run)] = self._wandb.init(
                project=self.project, name=run.job.name, config=config, reinit="create_new"
            )

    def on_epoch(self, run: Run, epoch: Epoch) -> None:
        values = {name: value for name, value in epoch._asdict().items() if value is not None}
        self.runs[id(run)].log(values, step=epoch.epoch)

    def on_finish(self, run: Run, record: Record) -> None:
        wandb_run = self.runs.pop(id(run))
        for name, value in record.best._asdict().items():
            wandb_run.summary[f"best {name}"] = value
        wandb_run.finish()

    def close(self) -> None:
        for wandb_run in self.runs.values():
            wandb_run.finish()
