"""Bags on disk: plain arrays and one line of JSON in an .npz, never a pickle; stale or damaged files are refused."""

import hashlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from esan.atomic import write_file
from esan.bags.build.stored import stored_rows
from esan.bags.check import check_bag
from esan.bags.parts import BagParts
from esan.bags.rows import Rows
from esan.graphs import Graphs, Source, read
from esan.graphs.extra import Extra, Field, ListField, TensorField
from esan.graphs.readers.arrays import arrays_in
from esan.policies import Policy, Sampled, Selection, as_policy, policy_called
from esan.record import TensorRecord
from esan.version import __version__

_FORMAT = "esan bag 2"
#: Of the version before, which wrote no digest; its rows are compared with rows built anew.
_BEFORE = "esan bag 1"
_AGAIN = "Check the path, or build the bag again and save it there."
_EXTRA = "extra/"
#: Of the flags of the graphs, where there are any: extra fields that are lists.
_LISTS = "lists"
_RECORDS: dict[str, type[TensorRecord]] = {"graphs": Graphs, "selection": Selection, "rows": Rows}
#: What a tensor of an extra field may hold to be written: what numpy knows.
_WRITTEN = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32,
    torch.float64,
)  # fmt: skip
_FLAGS = {"graphs": ("y_level",), "selection": ("keeps_edges", "marked"), "rows": ()}


def save_bag(bag: BagParts, path: Path) -> None:
    """Written beside the target first and then put in its place, so a file is always whole."""
    header: dict[str, Any] = {
        "format": _FORMAT,
        "esan": __version__,
        "policy": _name(bag.policy),
        "num_layers": bag.num_layers,
        "strict": bag.strict,
        "fingerprint": bag.graphs.fingerprint,
        "flags": {
            record: {name: getattr(getattr(bag, record), name) for name in names} for record, names in _FLAGS.items()
        },
        "sample_of": None if bag.whole is None else _name(bag.whole.policy),
    }
    lists = _lists(bag.graphs)
    if lists:
        header["flags"]["graphs"][_LISTS] = lists
    arrays = _arrays(bag, "")
    if bag.whole is not None:
        arrays |= {name: a for name, a in _arrays(bag.whole, "whole/").items() if not name.startswith("whole/graphs/")}
    header["sha256"] = _digest(header, arrays)
    if path.is_dir():
        raise IsADirectoryError(f"Expected a file to write the bag to (got the folder {path}). Add a file name to it.")
    write_file(path, lambda file: np.savez(file, header=np.array(json.dumps(header)), **arrays))  # type: ignore[arg-type]


def load_bag(
    make: Callable[..., Any], path: Path, *, source: Source | None, policy: Policy | str | None, num_layers: int | None
) -> Any:
    """A bag from its file; `make` is `Bag`."""
    policy = None if policy is None else as_policy(policy)
    header, arrays = _read(path)
    _refuse_stale(path, header, source, policy, num_layers)
    layers = header["num_layers"]
    try:
        records = {name: _record(name, "", header, arrays) for name in _RECORDS}
        known = policy if policy is not None else _policy(header["policy"])
        bag = make(**records, num_layers=layers, policy=known, strict=header["strict"])
        check_bag(bag.graphs, bag.selection, bag.rows, layers)
        if header["sample_of"] is not None:
            parts = {name: _record(name, "whole/", header, arrays) for name in ("selection", "rows")}
            sampled_from = known.policy if isinstance(known, Sampled) else _policy(header["sample_of"])
            bag = replace(bag, whole=replace(bag, **parts, policy=sampled_from))
            check_bag(bag.graphs, parts["selection"], parts["rows"], layers)
        if arrays:
            raise ValueError(f"Expected the arrays of a bag and no others (got {', '.join(sorted(arrays))[:100]}).")
        if header["format"] == _BEFORE:
            _check_against_source(bag, header)
    except (ValueError, TypeError) as error:
        raise ValueError(_not_whole(path, str(error).removesuffix("."), header)) from error
    return bag


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


def _arrays(bag: BagParts, prefix: str) -> dict[str, np.ndarray]:
    return {
        f"{prefix}{record}/{name}": tensor.detach().cpu().numpy()
        for record in _RECORDS
        for name, tensor in {**getattr(bag, record).tensors(), **_extra_tensors(getattr(bag, record))}.items()
    }


def _digest(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 of all that a file holds but itself: of the header, and of the digests of the arrays."""

    def of_array(name: str) -> str:
        array = arrays[name]
        digest = hashlib.sha256(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()

    told = json.dumps({name: v for name, v in header.items() if name != "sha256"}, sort_keys=True)
    # hashlib lets other threads run while it works.
    with ThreadPoolExecutor() as threads:
        return hashlib.sha256("\n".join([told, *threads.map(of_array, sorted(arrays))]).encode()).hexdigest()


# -- extra fields: tensors as arrays "graphs/extra/<part>/<name>", lists of plain values in the header -------------


def _extra_tensors(record: TensorRecord) -> dict[str, Tensor]:
    fields = record.extra.fields if isinstance(record, Graphs) else {}
    found: dict[str, Tensor] = {}
    for name, field in fields.items():
        if isinstance(field, TensorField):
            parts = {"local": field.local, "counts": field.counts, "dim": torch.tensor(field.dim), "step": field.step}
            found |= {f"{_EXTRA}{part}/{name}": value for part, value in parts.items() if value is not None}
            if field.local.dtype not in _WRITTEN:
                raise _unwritten(name, str(field.local.dtype))
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
            raise _unwritten(name, type(values[0]).__name__)
    return lists


def _unwritten(name: str, got: str) -> ValueError:
    return ValueError(
        f"Expected extra fields of tensors, numbers and text in a bag to be saved (got {got} in {name}). "
        f"Delete {name} from the data before the bag is built."
    )


def _extra(tensors: dict[str, Tensor], lists: dict[str, list[Any]]) -> Extra:
    """The extra fields of a file; their arrays are taken out of `tensors`. What they hold is checked by `check_bag`."""
    held: dict[str, dict[str, Any]] = {}
    for key in [key for key in tensors if key.startswith(_EXTRA)]:
        part, _, name = key.removeprefix(_EXTRA).partition("/")
        held.setdefault(name, {})[part] = tensors.pop(key)
    fields: dict[str, Field] = {name: ListField(values) for name, values in lists.items()}
    for name, parts in held.items():
        dim = parts.get("dim")
        if name in fields or dim is None or dim.numel() != 1:
            raise ValueError(f"Expected the extra field {name} once, with its dimension (got others).")
        fields[name] = TensorField(**parts | {"dim": int(dim)})
    return Extra(fields)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a file whose contents are those that were written."""
    if not path.exists():
        raise FileNotFoundError(
            f"Expected a bag file at {path} (got nothing there). Write it with bag.save({str(path)!r})."
        )
    try:
        arrays = arrays_in(path, texts=("header",))
    except ValueError as error:
        # Why, in the brackets of that error, without the path once more.
        why = str(error).partition("(got ")[2].rpartition(")")[0].removeprefix(f"{path}: ")
        raise ValueError(_not_whole(path, why)) from error
    if "header" not in arrays:
        raise ValueError(_not_whole(path, "arrays without the header of a bag"))
    try:
        header = json.loads(str(arrays.pop("header")))
    except (ValueError, RecursionError) as error:
        raise ValueError(_not_whole(path, "a header that is no JSON")) from error
    if not isinstance(header, dict) or header.get("format") not in (_FORMAT, _BEFORE):
        wrote = f", written by esan {header['esan']!s:.20}" if isinstance(header, dict) and "esan" in header else ""
        raise ValueError(
            f"Expected a file of the format {_FORMAT!r} at {path} (got {str(header)[:60]!r}{wrote}). "
            "Build the bag again."
        )
    if not _is_header(header):
        raise ValueError(_not_whole(path, "a header that lacks a field or has a strange one", header))
    if header["format"] == _FORMAT and header["sha256"] != _digest(header, arrays):
        raise ValueError(_not_whole(path, "contents that are not those of its SHA-256", header))
    return header, arrays


def _is_header(header: dict[str, Any]) -> bool:
    """Whether every field is there and of its kind."""
    layers, flags = header.get("num_layers", 0), header.get("flags")
    known = {record: {*names} for record, names in _FLAGS.items()}
    if isinstance(flags, dict) and isinstance(flags.get("graphs"), dict) and _LISTS in flags["graphs"]:
        known["graphs"].add(_LISTS)
        lists = flags["graphs"][_LISTS]
        if not isinstance(lists, dict) or not all(isinstance(values, list) for values in lists.values()):
            return False
    texts = ["policy", "fingerprint", *(["sha256"] if header["format"] == _FORMAT else [])]
    return (
        all(isinstance(header.get(name), str) for name in texts)
        and (layers is None or (type(layers) is int and 1 <= layers < 2**31))
        and isinstance(header.get("strict"), bool)
        and (header.get("sample_of", 0) is None or isinstance(header.get("sample_of"), str))
        and isinstance(flags, dict)
        and all(isinstance(flags.get(record), dict) and set(flags[record]) == known[record] for record in known)
    )


def _check_against_source(bag: BagParts, header: dict[str, Any]) -> None:
    """A file without a digest: its graphs by their fingerprint, its rows by building them anew."""
    if bag.graphs.fingerprint != header["fingerprint"]:
        raise ValueError("Expected the graphs of its fingerprint (got others).")
    for one in (bag, bag.whole):
        if one is not None:
            anew = stored_rows(one.graphs, one.selection, one.num_layers, one.literal or None)
            if anew.fingerprint != one.rows.fingerprint:
                raise ValueError("Expected the rows of its selection (got others).")


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


def _not_whole(path: Path, why: str, header: dict[str, Any] | None = None) -> str:
    wrote = ""
    if header is not None:
        version = header.get("esan")
        wrote = f", of the format {header['format']!r}" + (f" of esan {version!s:.20}" if version else "")
    return f"Expected a whole bag file at {path} (got one that is cut short or not of esan{wrote}: {why}). {_AGAIN}"


def _record(name: str, prefix: str, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """A record of the arrays named after it, which are taken out of `arrays`."""
    start = f"{prefix}{name}/"
    tensors = {k.removeprefix(start): torch.from_numpy(arrays.pop(k)) for k in [*arrays] if k.startswith(start)}
    flags = dict(header["flags"][name])
    if name == "graphs":
        flags["extra"] = _extra(tensors, flags.pop(_LISTS, {}))
    # A field that is missing, or one too many, is a TypeError.
    return _RECORDS[name](**tensors, **flags)


def _policy(text: str) -> Policy | str | None:
    return None if text == "None" else policy_called(text)
