"""`LRSchedule`: the learning rate: constant, reduced every so many epochs, or reduced on a plateau of validation."""

from typing import Any

from esan.train.recipes.recipe import Recipe

#: A loss is better if it is below this fraction of the best, as in torch's `ReduceLROnPlateau`.
_BETTER = 1 - 1e-4


class LRSchedule:
    """The learning rate of the next epoch, from the recipe and the validation losses so far.

    Args:
        recipe: its `lr`, `schedule`, `factor`, `period`, `patience` and `min_lr`.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.lr = recipe.lr
        self.best = float("inf")
        self.waited = 0

    def step(self, epoch: int, valid_loss: float) -> None:
        """Update the learning rate after an epoch, the first of which is 1."""
        if self.recipe.schedule == "step":
            self.lr = self.recipe.lr * self.recipe.factor ** (epoch // self.recipe.period)
        elif self.recipe.schedule == "plateau":
            better = valid_loss < self.best * _BETTER
            self.best = valid_loss if better else self.best
            self.waited = 0 if better else self.waited + 1
            if self.waited > self.recipe.patience:
                self.lr, self.waited = self.lr * self.recipe.factor, 0

    @property
    def is_finished(self) -> bool:
        """Whether the learning rate is too small to continue."""
        return self.recipe.schedule == "plateau" and self.lr < self.recipe.min_lr

    def state_dict(self) -> dict[str, Any]:
        return {"lr": self.lr, "best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.lr, self.best, self.waited = state["lr"], state["best"], state["waited"]
