"""`Job`: one training: a recipe on one fold with one seed; `protocol`: all jobs of a recipe."""

from dataclasses import dataclass
from pathlib import Path

from esan.checks import seed_number, shown, whole_number
from esan.train.recipes.recipe import Recipe
from esan.train.recipes.recipe_fields import MOST


@dataclass(frozen=True)
class Job:
    """One training.

    Args:
        recipe: what is trained.
        fold: which of the recipe's folds; 0 where there is only one split.
        seed: of the weights, the order of the graphs, and samples.
    """

    recipe: Recipe
    fold: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.recipe, Recipe):
            raise TypeError(f"Expected a Recipe (got {shown(self.recipe)}). Pass e.g. Recipe(data='zinc').")
        seed_number(self.seed)
        folds = self.recipe.folds if self.recipe.split == "folds" else 1
        if whole_number("fold", self.fold, 0, "Number folds from 0.") >= folds:
            raise ValueError(
                f"Expected a fold below {folds} for {self.recipe.name} (got {shown(self.fold)}). Number folds from 0."
            )

    def folder(self, runs: str | Path) -> Path:
        """The run directory: RUNS/<recipe name>/<fold>-<seed>."""
        return Path(runs) / self.recipe.name / f"{self.fold}-{self.seed}"

    @property
    def name(self) -> str:
        return f"{self.recipe.name}/{self.fold}-{self.seed}"


def protocol(recipe: Recipe, seeds: int | None = None) -> tuple[Job, ...]:
    """The jobs of the whole protocol: every fold with every seed; `seeds` for fewer or more seeds than the recipe's."""
    folds = range(recipe.folds if recipe.split == "folds" else 1)
    count = recipe.seeds if seeds is None else whole_number("seeds", seeds, 1, "Pass how many.", MOST["seeds"])
    return tuple(Job(recipe, fold, seed) for seed in range(count) for fold in folds)
