"""Bags on disk: plain arrays and one line of JSON in a .npz file, never a pickle; stale files are refused."""

import json
import os
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from esan.bags.rows import Rows
from esan.graphs import Graphs, Source, read
from esan.graphs.extra import Extra, Field, ListField, TensorField
from esan.policies import Policy, Sampled, Selection, as_policy, policy_called
from esan.record import TensorRecord

if TYPE_CHECKING:
    from esan.bags.bag import Bag

_FORMAT = "esan bag 1"
_AGAIN = "Check the path, or build the bag again and save it there."
_EXTRA = "extra/"
_RECORDS: dict[str, type[TensorRecord]] = {"graphs": Graphs, "selection": Selection, "rows": Rows}


def save_bag(bag: "Bag", path: Path) -> None:
    """Written beside the target first and then put in its place, so a file is always whole."""
    header = {
        "format": _FORMAT,
        "policy": _name(bag.policy),
        "num_layers": bag.num_layers,
        "strict": bag.strict,
        "fingerprint": bag.graphs.fingerprint,
        "flags": {
            "graphs": {"y_level": bag.graphs.y_level, **_lists(bag.graphs)},
            "selection": {"keeps_edges": bag.selection.keeps_edges, "marked": bag.selection.marked},
            "rows": {},
        },
        "sample_of": None if bag.whole is None else _name(bag.whole.policy),
    }
    arrays = _arrays(bag, "")
    if bag.whole is not None:
        arrays |= {name: a for name, a in _arrays(bag.whole, "whole/").items() if not name.startswith("whole/graphs/")}
    if path.is_dir():
        raise IsADirectoryError(f"Expected a file to write the bag to (got the folder {path}). Add a file name to it.")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, header=np.array(json.dumps(header)), **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def load_bag(path: Path, *, source: Source | None, policy: Policy | str | None, num_layers: int | None) -> "Bag":
    from esan.bags.bag import Bag

    policy = None if policy is None else as_policy(policy)
    header, arrays = _read(path)
    _refuse_stale(path, header, source, policy, num_layers)
    flags = header["flags"]
    records = {name: _record(name, "", flags, arrays, path) for name in _RECORDS}
    known = policy if policy is not None else _policy(header["policy"])
    bag = Bag(**records, num_layers=header["num_layers"], policy=known, strict=header["strict"])
    if header["sample_of"] is None:
        return bag
    parts = {name: _record(name, "whole/", flags, arrays, path) for name in ("selection", "rows")}
    sampled_from = known.policy if isinstance(known, Sampled) else _policy(header["sample_of"])
    return replace(bag, whole=replace(bag, **parts, policy=sampled_from))


def is_bag_file(path: Path) -> bool:
    """Whether a file begins as `save_bag` writes it, whole or cut short."""
    try:
        with path.open("rb") as file:
            start = file.read(40)
    except OSError:
        return False
    # An archive whose first member, named behind 30 bytes, is the header.
    return start.startswith(b"PK\3\4") and start[30:] == b"header.npy"


def _name(policy: Policy | str | None) -> str:
    return policy if isinstance(policy, str) else repr(policy)


def _arrays(bag: "Bag", prefix: str) -> dict[str, np.ndarray]:
    return {
        f"{prefix}{record}/{name}": tensor.detach().cpu().numpy()
        for record in _RECORDS
        for name, tensor in {**getattr(bag, record).tensors(), **_extra_tensors(getattr(bag, record))}.items()
    }


# -- extra fields: tensors as arrays "graphs/extra/<part>/<name>", lists of plain values in the header -------------


def _extra_tensors(record: TensorRecord) -> dict[str, Tensor]:
    fields = record.extra.fields if isinstance(record, Graphs) else {}
    found: dict[str, Tensor] = {}
    for name, field in fields.items():
        if isinstance(field, TensorField):
            parts = {"local": field.local, "counts": field.counts, "dim": torch.tensor(field.dim), "step": field.step}
            found |= {f"{_EXTRA}{part}/{name}": value for part, value in parts.items() if value is not None}
    return found


def _lists(graphs: Graphs) -> dict[str, Any]:
    """The extra fields that are lists, for the header; nothing where there are none."""
    lists = {name: field.value for name, field in graphs.extra.fields.items() if isinstance(field, ListField)}
    for name, values in lists.items():
        try:
            same = json.loads(json.dumps(values)) == values
        except (TypeError, ValueError):
            same = False
        if not same:
            raise ValueError(
                f"Expected extra fields of tensors, numbers and text in a bag to be saved (got "
                f"{type(values[0]).__name__} in {name}). Delete {name} from the data before the bag is built."
            )
    return {"lists": lists} if lists else {}


def _extra(tensors: dict[str, Tensor], lists: dict[str, list[Any]]) -> Extra:
    """The extra fields of a file; their arrays are taken out of `tensors`."""
    held: dict[str, dict[str, Any]] = {}
    for key in [key for key in tensors if key.startswith(_EXTRA)]:
        part, _, name = key.removeprefix(_EXTRA).partition("/")
        held.setdefault(name, {})[part] = tensors.pop(key)
    fields: dict[str, Field] = {name: ListField(values) for name, values in lists.items()}
    for name, parts in held.items():
        fields[name] = TensorField(**parts | {"dim": int(parts["dim"])})
    return Extra(fields)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if not path.exists():
        raise FileNotFoundError(
            f"Expected a bag file at {path} (got nothing there). Write it with bag.save({str(path)!r})."
        )
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
            header = json.loads(str(arrays.pop("header")))
            before = file.zip.infolist()[0].header_offset
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError, OSError, AttributeError, TypeError) as error:
        raise ValueError(_not_whole(path, error)) from error
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise ValueError(
            f"Expected a file of the format {_FORMAT!r} at {path} (got {str(header)[:60]!r}). Build the bag again."
        )
    # zipfile finds an archive among other bytes, and of two archives the last.
    if before or not _ends_with_archive(path):
        raise ValueError(f"Expected a bag file at {path} (got one with other bytes before or behind it). {_AGAIN}")
    return header, arrays


def _ends_with_archive(path: Path) -> bool:
    """Whether the last 22 bytes are the record that ends an archive, as numpy writes it."""
    with path.open("rb") as file:
        file.seek(-22, os.SEEK_END)
        return file.read(4) == b"PK\5\6"


def _refuse_stale(
    path: Path, header: dict[str, Any], source: Source | None, policy: Policy | None, num_layers: int | None
) -> None:
    if policy is not None and repr(policy) != header["policy"]:
        raise ValueError(f"Expected a bag of {policy!r} at {path} (got one of {header['policy']}). {_AGAIN}")
    if num_layers is not None and header["num_layers"] is not None and header["num_layers"] < num_layers:
        raise ValueError(
            f"Expected a bag built for {num_layers} layers or more at {path} (got {header['num_layers']}). {_AGAIN}"
        )
    if source is not None and (wanted := read(source).fingerprint) != header["fingerprint"]:
        raise ValueError(
            f"Expected a bag of these graphs at {path} (got one of other data, with the fingerprint "
            f"{header['fingerprint'][:12]}, not {wanted[:12]}). {_AGAIN}"
        )


def _not_whole(path: Path, error: Exception) -> str:
    why = str(error)
    if isinstance(error, KeyError):
        why = "arrays without the header of a bag"
    elif "pickle" in why:
        # numpy advises to unpickle what it does not know.
        why = "no archive of arrays"
    return f"Expected a whole bag file at {path} (got one that is cut short or not of esan: {why}). {_AGAIN}"


def _record(name: str, prefix: str, flags: dict[str, Any], arrays: dict[str, np.ndarray], path: Path) -> Any:
    start = f"{prefix}{name}/"
    tensors = {k.removeprefix(start): torch.from_numpy(v) for k, v in arrays.items() if k.startswith(start)}
    given = dict(flags[name])
    try:
        if name == "graphs":
            given["extra"] = _extra(tensors, given.pop("lists", {}))
        return _RECORDS[name](**tensors, **given)
    except (TypeError, KeyError) as error:  # a field that is missing, or one too many
        raise ValueError(_not_whole(path, error)) from error


def _policy(text: str) -> Policy | str | None:
    return None if text == "None" else policy_called(text)
