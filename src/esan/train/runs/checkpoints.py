"""Checkpoints: the state of a training on disk, with what it belongs to; one of another training is refused."""

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from esan.checks import whole_number
from esan.graphs.readers.archives import check_archive
from esan.train.model_spec import Blueprint
from esan.train.runs.files import write_tensors

_FORMAT = "esan checkpoint 1"


@dataclass(frozen=True)
class Belongs:
    """What a checkpoint belongs to.

    Attributes:
        blueprint: the recipe, and what it knows of the data.
        fold: of the job.
        seed: of the job.
        data: the fingerprint of the dataset.
    """

    blueprint: Blueprint
    fold: int
    seed: int
    data: str

    def differences(self, other: "Belongs") -> list[str]:
        """In what the other one differs, in words: "lr 0.01, not 0.001"."""
        mine, its = self._flat(), other._flat()
        return [f"{name} {its[name]!r}, not {value!r}" for name, value in mine.items() if its[name] != value]

    def _flat(self) -> dict[str, Any]:
        plain = self.blueprint.to_dict()
        recipe = {k: v for k, v in plain.pop("recipe").items() if k not in ("grid", "seeds", "name")}
        return recipe | plain | {"fold": self.fold, "seed": self.seed, "fingerprint of the data": self.data}


def save_checkpoint(path: Path, belongs: Belongs, state: dict[str, Any]) -> None:
    """Write tensors and plain values, whole or not at all."""
    header = {
        "format": _FORMAT,
        "blueprint": belongs.blueprint.to_dict(),
        "fold": belongs.fold,
        "seed": belongs.seed,
        "data": belongs.data,
    }
    write_tensors(path, {"header": json.dumps(header), **state})


def load_checkpoint(path: Path, wanted: Belongs | None = None) -> tuple[Belongs, dict[str, Any]]:
    """What a checkpoint belongs to, and its state, on the CPU; it must belong to `wanted` if that is given."""
    if not path.is_file():
        raise FileNotFoundError(f"Expected a checkpoint at {path} (got no file there). Train first, or check the path.")
    # Read first: an error of the disk is not one of the contents.
    contents = io.BytesIO(path.read_bytes())
    try:
        check_archive(path)
        state = torch.load(contents, map_location="cpu", weights_only=True)
        header = json.loads(state.pop("header"))
        if header["format"] != _FORMAT:
            raise ValueError(header["format"])
        blueprint = Blueprint.from_dict(header["blueprint"])
        fold, seed = (whole_number(name, header[name], 0, "Train again.") for name in ("fold", "seed"))
        found = Belongs(blueprint, fold, seed, str(header["data"]))
        _check_weights(blueprint, state)
    except Exception:  # of a damaged file, torch raises anything at all
        what = "Check the path, or train again." if wanted is None else "Remove it to train from the start."
        raise ValueError(f"Expected a whole checkpoint of esan at {path} (got {_kind(contents)}). {what}") from None
    differences = [] if wanted is None else wanted.differences(found)
    if differences:
        raise ValueError(
            f"Expected a checkpoint of the same training at {path} (got one with {'; '.join(differences[:4])}). "
            "Choose another folder for the runs, or remove it to train from the start."
        )
    return found, state


def _check_weights(blueprint: Blueprint, state: dict[str, Any]) -> None:
    """ValueError unless the weights are those of the network that the header tells of, before that one is built."""
    if "model" not in state:
        return
    if not isinstance(state["model"], dict):
        raise ValueError("no weights")
    # On no device: sizes that no file of this size could fill take no memory.
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        wanted = {name: tensor.shape for name, tensor in blueprint.build().state_dict().items()}
    there = {name: getattr(tensor, "shape", None) for name, tensor in state["model"].items()}
    if wanted != there:
        raise ValueError("weights of another network")


def _kind(contents: io.BytesIO) -> str:
    """What a file is that is no checkpoint, in words of one's own: those of torch are pages, some of them in colour."""
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
