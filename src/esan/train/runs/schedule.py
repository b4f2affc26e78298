"""Learning rates: constant, halved every so many epochs, or halved when validation no longer improves."""

from typing import Any

from esan.train.recipes.recipe import Recipe

#: A loss is better if it is below this part of the best, as torch's `ReduceLROnPlateau` has it.
_BETTER = 1 - 1e-4


class Schedule:
    """The learning rate of the next epoch, from the recipe and the validation losses so far.

    Args:
        recipe: its `lr`, `schedule`, `factor`, `period`, `patience` and `min_lr`.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.lr = recipe.lr
        self.best = float("inf")
        self.waited = 0

    def after(self, epoch: int, valid_loss: float) -> None:
        """Take note of an epoch, the first of which is 1."""
        if self.recipe.schedule == "step":
            self.lr = self.recipe.lr * self.recipe.factor ** (epoch // self.recipe.period)
        elif self.recipe.schedule == "plateau":
            better = valid_loss < self.best * _BETTER
            self.best = valid_loss if better else self.best
            self.waited = 0 if better else self.waited + 1
            if self.waited > self.recipe.patience:
                self.lr, self.waited = self.lr * self.recipe.factor, 0

    @property
    def stopped(self) -> bool:
        """Whether the learning rate has become too small to go on."""
        return self.recipe.schedule == "plateau" and self.lr < self.recipe.min_lr

    def state_dict(self) -> dict[str, Any]:
        return {"lr": self.lr, "best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.lr, self.best, self.waited = state["lr"], state["best"], state["waited"]
