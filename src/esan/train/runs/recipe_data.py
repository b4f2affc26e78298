"""`RecipeData`: the data of recipes, each read once; finished runs that were trained on other data are refused."""

from pathlib import Path

from esan.data import Dataset
from esan.graphs.readers.files import exists
from esan.train.model_spec import ModelSpec
from esan.train.recipes.recipe import Recipe
from esan.train.runs.checkpoints import CheckpointHeader, header_of
from esan.train.runs.job import Job
from esan.train.runs.prepare_data import is_dataset_name, load_recipe_data, read_options
from esan.train.runs.provenance import data_sha256
from esan.train.runs.records import Record
from esan.train.runs.run_files import WEIGHT_FILES


class RecipeData:
    """The data of any number of recipes; recipes with the same data share it.

    Args:
        dataset: the data of all recipes, instead of what they name.
        root: the folder of the data, see `esan.data.load`.
        cache: the folder of downloads.
    """

    def __init__(
        self, dataset: Dataset | None = None, root: str | Path | None = None, cache: str | Path | None = None
    ) -> None:
        self.given, self.root, self.cache = dataset, root, cache
        self._read: dict[str, Dataset] = {}
        self._digests: dict[str, tuple[str, str]] = {}
        self._compared: set[Recipe] = set()

    def dataset(self, recipe: Recipe) -> Dataset:
        """The data of a recipe."""
        if self.given is not None:
            return self.given
        key = _key(recipe)
        if key not in self._read:
            self._read[key] = load_recipe_data(recipe, self.root, self.cache)
        return self._read[key]

    def check(self, job: Job, record: Record, runs: str | Path) -> None:
        """ValueError if a finished run was trained on other data than the job has.

        The data must be at hand: given, read before, or a file or folder of the user's that exists. Named data sets are
        checked at every load, and are neither read nor downloaded for a finished run alone. Records that do not say
        what they were trained on, as those of version 0.1, pass.

        Args:
            job: what is asked for.
            record: of the finished run.
            runs: the folder of all runs.
        """
        if record.data_sha256 is None or not self._is_at_hand(job.recipe):
            return
        dataset, folder = self.dataset(job.recipe), job.folder(runs)
        fingerprint, sha256 = self._digest(job.recipe, dataset)
        if sha256 != record.data_sha256:
            raise _other_data(folder, f"SHA-256 {sha256[:12]}…, not {record.data_sha256[:12]}…")
        # The digest is of class numbers: what the classes are called, and which features are used, is in the weights.
        # Of one run per recipe, since opening weights takes longer than reading a record.
        finished = None if job.recipe in self._compared else header_of(folder / WEIGHT_FILES["best"])
        if finished is None:
            return
        self._compared.add(job.recipe)
        asked = CheckpointHeader(ModelSpec.of(job.recipe, dataset), job.fold, job.seed, fingerprint, sha256)
        if differences := finished.differences(asked):
            raise _other_data(folder, "; ".join(differences[:4]))

    def _is_at_hand(self, recipe: Recipe) -> bool:
        if self.given is not None or _key(recipe) in self._read:
            return True
        return not is_dataset_name(recipe.data) and all(exists(path) for path in (recipe.data, recipe.labels) if path)

    def _digest(self, recipe: Recipe, dataset: Dataset) -> tuple[str, str]:
        """The fingerprint and the SHA-256 of the data, computed once however many runs there are."""
        key = "" if self.given is not None else _key(recipe)
        if key not in self._digests:
            fingerprint = dataset.fingerprint
            self._digests[key] = fingerprint, data_sha256(fingerprint, dataset.given)
        return self._digests[key]


def _key(recipe: Recipe) -> str:
    return repr((recipe.data, sorted(read_options(recipe).items())))


def _other_data(folder: Path, difference: str) -> ValueError:
    return ValueError(
        f"Expected the data that the finished run in {folder} was trained on (got other data: {difference}). Choose "
        "another folder for the runs, or remove that one to train on these data."
    )
