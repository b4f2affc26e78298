"""`InferredTaskNotice`: says in one line that whole numbers in the user's own table were taken for classes."""

import json
from pathlib import Path

from rich.console import Console
from rich.text import Text

from esan.data import Dataset
from esan.data.csv_files import is_csv, other_columns
from esan.train.recipes.recipe import Recipe
from esan.train.recipes.recipe_fields import columns_of
from esan.train.runs.prepare_data import is_dataset_name
from esan.train.runs.records import Epoch, Record
from esan.train.runs.run import Run


class InferredTaskNotice:
    """Prints the line before the first epoch.

    Args:
        console: where it is printed.
    """

    def __init__(self, console: Console) -> None:
        self.console = console

    def on_start(self, runs: list[Run]) -> None:
        words = inferred_classes(runs[0].job.recipe, runs[0].prepared.dataset) if runs else ""
        if words:
            self.console.print(Text(words), soft_wrap=True)

    def on_epoch(self, run: Run, epoch: Epoch) -> None:
        """Nothing is said later."""

    def on_finish(self, run: Run, record: Record) -> None:
        """Nothing is said later."""

    def close(self) -> None:
        """Nothing is open."""


def inferred_classes(recipe: Recipe, dataset: Dataset) -> str:
    """That whole numbers of a text file were taken for classes, and how to train on numbers; empty for all else."""
    inferred = not recipe.task and dataset.task.kind == "classification" and not is_dataset_name(recipe.data)
    if not inferred or any(isinstance(label, str) for label in dataset.classes or ()):
        return ""
    if recipe.labels:
        where = f"The labels in {recipe.labels}"
    elif is_csv(Path(recipe.data)):
        (column,) = columns_of(recipe.targets) or other_columns(Path(recipe.data), recipe.smiles or None)
        where = f"The targets in column {json.dumps(column, ensure_ascii=False)}"
    else:
        return ""
    return (
        f"{where} are {dataset.task.out_channels} different whole numbers, so this is a classification. To predict "
        "numbers, add --set task=regression."
    )
