"""The folder of a run: where its weights lie, and whether they are its own."""

import re
from pathlib import Path

from esan.train.recipes.recipe import Recipe
from esan.train.runs.checkpoints import Belongs
from esan.train.runs.records import Record

#: The files of a run that hold weights, by what they are called on the command line.
WEIGHTS = {"best": "best.pt", "last": "checkpoint.pt"}
_FOLD_AND_SEED = re.compile(r"(\d+)-(\d+)")
#: Fields that say nothing about one training.
_ASIDE = ("name", "seeds", "grid")


def run_folder(path: Path) -> Path:
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


def refuse_foreign(belongs: Belongs, folder: Path, record: Record | None, file: str) -> None:
    """An error where weights are not those that the folder tells of: its name, recipe.toml and record.json.

    Args:
        belongs: what the weights belong to.
        folder: of the run.
        record: of the run, if it has one.
        file: the name of the weights, for the error.
    """
    told: dict[str, object] = {}
    if (folder / "recipe.toml").is_file():
        told |= Recipe.load(folder / "recipe.toml").to_dict()
    if record is not None:
        told |= record.recipe.to_dict() | {"fold": record.fold, "seed": record.seed, "kind of task": record.task}
    if (named := _FOLD_AND_SEED.fullmatch(folder.resolve().name)) is not None:
        told |= {"fold": int(named[1]), "seed": int(named[2])}
    found = belongs.blueprint.recipe.to_dict()
    found |= {"fold": belongs.fold, "seed": belongs.seed, "kind of task": belongs.blueprint.task.kind}
    differs = [f"{k} {found[k]!r}, not {v!r}" for k, v in told.items() if k not in _ASIDE and found[k] != v]
    if differs:
        raise ValueError(
            f"Expected the weights of this very run in {folder / file} (got those of another one, with "
            f"{'; '.join(differs[:4])}). Put them into a folder of their own, and train this run again."
        )
