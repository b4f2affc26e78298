"""Checkpoints: the state of a training, with a header that names its job; that of another job is refused."""

import io
import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from esan.checks import whole_number
from esan.graphs.readers.archives import check_archive
from esan.train.model_spec import ModelSpec
from esan.train.recipes.recipe import Recipe
from esan.train.runs.records import Record
from esan.train.runs.run_files import write_tensors
from esan.train.seen_categories import SeenCategories, read_seen

_FORMAT = "esan checkpoint 1"
_FOLD_AND_SEED = re.compile(r"(\d+)-(\d+)")
#: Fields of a recipe that do not change one training.
_NOT_OF_ONE_TRAINING = ("name", "seeds", "grid")
#: What checkpoints of before do not say: it is compared only where both do.
_NOT_RECORDED_BEFORE = ("unused", "SHA-256 of the data and split")


@dataclass(frozen=True)
class CheckpointHeader:
    """Which training a checkpoint is of.

    Attributes:
        model_spec: the recipe, and what it must know of the data.
        fold: of the job.
        seed: of the job.
        data: the fingerprint of the dataset.
        sha256: of the dataset with the split that it comes with; None where it was not recorded.
        seen: the categories in each column of "x" and "edge_attr" that the training graphs have, where the network
            reads categories; None where it was not recorded.
    """

    model_spec: ModelSpec
    fold: int
    seed: int
    data: str
    sha256: str | None = None
    seen: SeenCategories | None = None

    def differences(self, other: "CheckpointHeader") -> list[str]:
        """In what the other one differs, in words: "lr 0.01, not 0.001"."""
        mine, its = self._flat(), other._flat()
        differs = [name for name, value in mine.items() if its[name] != value]
        differs = [name for name in differs if name not in _NOT_RECORDED_BEFORE or None not in (mine[name], its[name])]
        return [f"{name} {its[name]!r}, not {mine[name]!r}" for name in differs]

    def _flat(self) -> dict[str, Any]:
        plain = self.model_spec.to_dict()
        recipe = {k: v for k, v in plain.pop("recipe").items() if k not in _NOT_OF_ONE_TRAINING}
        return (
            recipe
            | plain
            | {"fold": self.fold, "seed": self.seed, "fingerprint of the data": self.data}
            | {"SHA-256 of the data and split": self.sha256}
        )


def save_checkpoint(path: Path, header: CheckpointHeader, state: dict[str, Any]) -> None:
    """Write tensors and plain values, whole or not at all."""
    plain = {
        "format": _FORMAT,
        "model_spec": header.model_spec.to_dict(),
        "fold": header.fold,
        "seed": header.seed,
        "data": header.data,
        "sha256": header.sha256,
        "seen": header.seen,
    }
    write_tensors(path, {"header": json.dumps(plain), **state})


def load_checkpoint(path: Path, wanted: CheckpointHeader | None = None) -> tuple[CheckpointHeader, dict[str, Any]]:
    """The header and state of a checkpoint, on the CPU; ValueError unless its header equals `wanted`, if given."""
    if not path.is_file():
        raise FileNotFoundError(f"Expected a checkpoint at {path} (got no file there). Train first, or check the path.")
    # Read first: an error of the disk is not one of the contents.
    contents = io.BytesIO(path.read_bytes())
    try:
        check_archive(path)
        state = torch.load(contents, map_location="cpu", weights_only=True)
        plain = json.loads(state.pop("header"))
        found = _header(plain)
        state |= _current_weights(found.model_spec, state)
    except Exception:  # torch raises errors of any kind for a damaged file
        what = "Check the path, or train again." if wanted is None else "Remove it to train from the start."
        raise ValueError(f"Expected a whole checkpoint of esan at {path} (got {_kind(contents)}). {what}") from None
    differences = [] if wanted is None else wanted.differences(found)
    if differences:
        raise ValueError(
            f"Expected a checkpoint of the same training at {path} (got one with {'; '.join(differences[:4])}). "
            "Choose another folder for the runs, or remove it to train from the start."
        )
    return found, state


def header_of(path: Path) -> CheckpointHeader | None:
    """The header of a checkpoint, without reading its weights; None where there is no whole checkpoint of today."""
    try:
        check_archive(path)
        plain = json.loads(torch.load(path, map_location="cpu", weights_only=True, mmap=True)["header"])
        return _header(plain)
    except Exception:  # as in load_checkpoint, which says what is wrong with it
        return None


def check_same_run(header: CheckpointHeader, folder: Path, record: Record | None, file: str) -> None:
    """ValueError where weights are not of the run that the folder's name, recipe.toml and record.json describe.

    Args:
        header: of the weights.
        folder: of the run.
        record: of the run, if it has one.
        file: the name of the weights, for the error.
    """
    expected: dict[str, object] = {}
    if (folder / "recipe.toml").is_file():
        expected |= Recipe.load(folder / "recipe.toml").to_dict()
    if record is not None:
        expected |= record.recipe.to_dict() | {"fold": record.fold, "seed": record.seed, "kind of task": record.task}
    if (named := _FOLD_AND_SEED.fullmatch(folder.resolve().name)) is not None:
        expected |= {"fold": int(named[1]), "seed": int(named[2])}
    found = header.model_spec.recipe.to_dict()
    found |= {"fold": header.fold, "seed": header.seed, "kind of task": header.model_spec.task.kind}
    differs = [
        f"{k} {found[k]!r}, not {v!r}" for k, v in expected.items() if k not in _NOT_OF_ONE_TRAINING and found[k] != v
    ]
    if differs:
        raise ValueError(
            f"Expected the weights of this very run in {folder / file} (got those of another one, with "
            f"{'; '.join(differs[:4])}). Put them into a folder of their own, and train this run again."
        )


def _header(plain: dict[str, Any]) -> CheckpointHeader:
    """From the plain values in a checkpoint."""
    if plain["format"] != _FORMAT:
        raise ValueError(plain["format"])
    # Version 0.1 wrote "blueprint".
    model_spec = ModelSpec.from_dict(plain["model_spec"] if "model_spec" in plain else plain["blueprint"])
    fold, seed = (whole_number(name, plain[name], 0, "Train again.") for name in ("fold", "seed"))
    sha256 = plain.get("sha256")
    if not isinstance(sha256, str | None):
        raise TypeError(sha256)
    return CheckpointHeader(model_spec, fold, seed, str(plain["data"]), sha256, read_seen(plain.get("seen")))


def _current_weights(model_spec: ModelSpec, state: dict[str, Any]) -> dict[str, Any]:
    """The weights in a state under their names of today; an error unless they fit the network in the header."""
    found: dict[str, Any] = {name: state[name] for name in ("model", "best_model") if name in state}
    if not found.get("best_model", True):  # no epoch was the best so far
        del found["best_model"]
    for name, weights in found.items():
        # On the meta device: a header that asks for a huge network takes no memory.
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            network = model_spec.build()
        network.load_state_dict(weights, assign=True)
        found[name] = dict(network.state_dict())
    return found


def _kind(contents: io.BytesIO) -> str:
    """What a file is that is no checkpoint, in few words; torch's own message is a page long."""
    size = len(contents.getbuffer())
    if not size:
        return "an empty file"
    if not contents.getvalue().startswith(b"PK"):
        return "a file of another kind"
    try:
        damaged = zipfile.ZipFile(contents).testzip() is not None
    except Exception:  # so does zipfile
        damaged = True
    return f"one that is damaged or cut off, {size:,} bytes" if damaged else "a file that something else wrote"
