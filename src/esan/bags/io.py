"""Bag files: plain arrays and a JSON header in an .npz, never a pickle; stale or damaged files are refused."""

import hashlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from esan.atomic_write import write_file
from esan.bags.build.build_rows import build_rows
from esan.bags.rows import Rows
from esan.bags.validate import check_bag
from esan.graphs import Graphs, Source, read
from esan.graphs.extra_fields import ExtraFields, Field, ListField, TensorField
from esan.graphs.readers.graph_arrays import arrays_in
from esan.policies import Policy, Sampled, Selection, as_policy, policy_called
from esan.tensor_dataclass import TensorDataclass
from esan.version import __version__

_FORMAT = "esan bag 2"
#: The previous format, without a digest; its rows are compared with newly built ones.
_FORMAT_1 = "esan bag 1"
_AGAIN = "Check the path, or build the bag again and save it there."
_EXTRA = "extra/"
#: The key of extra fields that are lists, among the flags of the graphs; absent if there are none.
_LISTS = "lists"
_RECORDS: dict[str, type[TensorDataclass]] = {"graphs": Graphs, "selection": Selection, "rows": Rows}
#: The dtypes of extra fields that can be saved: those of numpy.
_SAVED_DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32,
    torch.float64,
)  # fmt: skip
_FLAGS = {"graphs": ("y_level",), "selection": ("keeps_edges", "marked"), "rows": ()}


class BagFields(Protocol):
    """What a file holds of an `esan.Bag`."""

    @property
    def graphs(self) -> Graphs: ...
    @property
    def selection(self) -> Selection: ...
    @property
    def rows(self) -> Rows: ...
    @property
    def num_layers(self) -> int | None: ...
    @property
    def policy(self) -> Policy | str | None: ...
    @property
    def strict(self) -> bool: ...
    @property
    def sampled_from(self) -> Self | None: ...
    @property
    def literal(self) -> bool: ...


def save_bag(bag: BagFields, path: Path) -> None:
    """Write a bag to a file, atomically: to a temporary file first, which then replaces the target."""
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
        "sample_of": None if bag.sampled_from is None else _name(bag.sampled_from.policy),
    }
    lists = _lists(bag.graphs)
    if lists:
        header["flags"]["graphs"][_LISTS] = lists
    arrays = _arrays(bag, "")
    if bag.sampled_from is not None:
        arrays |= {
            name: a for name, a in _arrays(bag.sampled_from, "whole/").items() if not name.startswith("whole/graphs/")
        }
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
            full = {name: _record(name, "whole/", header, arrays) for name in ("selection", "rows")}
            inner = known.policy if isinstance(known, Sampled) else _policy(header["sample_of"])
            bag = replace(bag, sampled_from=replace(bag, **full, policy=inner))
            check_bag(bag.graphs, full["selection"], full["rows"], layers)
        if arrays:
            raise ValueError(f"Expected the arrays of a bag and no others (got {', '.join(sorted(arrays))[:100]}).")
        if header["format"] == _FORMAT_1:
            _check_against_source(bag, header)
    except (ValueError, TypeError) as error:
        raise ValueError(_damaged(path, str(error).removesuffix("."), header)) from error
    return bag


def is_bag_file(path: Path) -> bool:
    """Whether a file begins as `save_bag` writes it, even if it is truncated."""
    try:
        with path.open("rb") as file:
            start = file.read(40)
    except OSError:
        return False
    # An archive whose first member, named after 30 bytes, is the header.
    return start.startswith(b"PK\3\4") and start[30:] == b"header.npy"


def _name(policy: Policy | str | None) -> str:
    return policy if isinstance(policy, str) else repr(policy)


def _arrays(bag: BagFields, prefix: str) -> dict[str, np.ndarray]:
    arrays = {}
    for record, kind in _RECORDS.items():
        tensors = {**getattr(bag, record).tensors(), **_extra_tensors(getattr(bag, record))}
        for name, tensor in tensors.items():
            arrays[f"{prefix}{record}/{kind.stored_names.get(name, name)}"] = tensor.detach().cpu().numpy()
    return arrays


def _digest(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 of the header, without its own digest, and of the digests of the arrays."""

    def of_array(name: str) -> str:
        array = arrays[name]
        digest = hashlib.sha256(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()

    text = json.dumps({name: v for name, v in header.items() if name != "sha256"}, sort_keys=True)
    # hashlib releases the GIL.
    with ThreadPoolExecutor() as threads:
        return hashlib.sha256("\n".join([text, *threads.map(of_array, sorted(arrays))]).encode()).hexdigest()


# -- extra fields: tensors as arrays "graphs/extra/<part>/<name>", lists of plain values in the header -------------


def _extra_tensors(record: TensorDataclass) -> dict[str, Tensor]:
    fields = record.extra.fields if isinstance(record, Graphs) else {}
    tensors: dict[str, Tensor] = {}
    for name, field in fields.items():
        if isinstance(field, TensorField):
            parts = {"local": field.local, "counts": field.counts, "dim": torch.tensor(field.dim), "step": field.step}
            tensors |= {f"{_EXTRA}{part}/{name}": value for part, value in parts.items() if value is not None}
            if field.local.dtype not in _SAVED_DTYPES:
                raise _not_savable(name, str(field.local.dtype))
    return tensors


def _lists(graphs: Graphs) -> dict[str, Any]:
    """The extra fields that are lists, for the header."""
    lists = {name: field.value for name, field in graphs.extra.fields.items() if isinstance(field, ListField)}
    for name, values in lists.items():
        try:
            same = json.loads(json.dumps(values)) == values
        except (TypeError, ValueError):
            same = False
        if not same:
            raise _not_savable(name, type(values[0]).__name__)
    return lists


def _not_savable(name: str, got: str) -> ValueError:
    return ValueError(
        f"Expected extra fields of tensors, numbers and text in a bag to be saved (got {got} in {name}). "
        f"Delete {name} from the data before the bag is built."
    )


def _extra(tensors: dict[str, Tensor], lists: dict[str, list[Any]]) -> ExtraFields:
    """The extra fields of a file; their arrays are removed from `tensors`. `check_bag` checks the values."""
    by_name: dict[str, dict[str, Any]] = {}
    for key in [key for key in tensors if key.startswith(_EXTRA)]:
        part, _, name = key.removeprefix(_EXTRA).partition("/")
        by_name.setdefault(name, {})[part] = tensors.pop(key)
    fields: dict[str, Field] = {name: ListField(values) for name, values in lists.items()}
    for name, parts in by_name.items():
        dim = parts.get("dim")
        if name in fields or dim is None or dim.numel() != 1:
            raise ValueError(f"Expected the extra field {name} once, with its dimension (got others).")
        fields[name] = TensorField(**parts | {"dim": int(dim)})
    return ExtraFields(fields)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a file, whose digest is checked."""
    if not path.exists():
        raise FileNotFoundError(
            f"Expected a bag file at {path} (got nothing there). Write it with bag.save({str(path)!r})."
        )
    try:
        arrays = arrays_in(path, texts=("header",))
    except ValueError as error:
        # The reason inside the brackets of that error, without repeating the path.
        why = str(error).partition("(got ")[2].rpartition(")")[0].removeprefix(f"{path}: ")
        raise ValueError(_damaged(path, why)) from error
    if "header" not in arrays:
        raise ValueError(_damaged(path, "arrays without the header of a bag"))
    try:
        header = json.loads(str(arrays.pop("header")))
    except (ValueError, RecursionError) as error:
        raise ValueError(_damaged(path, "a header that is no JSON")) from error
    if not isinstance(header, dict) or header.get("format") not in (_FORMAT, _FORMAT_1):
        wrote = f", written by esan {header['esan']!s:.20}" if isinstance(header, dict) and "esan" in header else ""
        raise ValueError(
            f"Expected a file of the format {_FORMAT!r} at {path} (got {str(header)[:60]!r}{wrote}). "
            "Build the bag again."
        )
    if not _is_header(header):
        raise ValueError(_damaged(path, "a header that lacks a field or has a strange one", header))
    if header["format"] == _FORMAT and header["sha256"] != _digest(header, arrays):
        raise ValueError(_damaged(path, "contents that are not those of its SHA-256", header))
    return header, arrays


def _is_header(header: dict[str, Any]) -> bool:
    """Whether all fields are present, with values of the right types."""
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


def _check_against_source(bag: BagFields, header: dict[str, Any]) -> None:
    """Check a file without a digest: its graphs by their fingerprint, its rows by building them again."""
    if bag.graphs.fingerprint != header["fingerprint"]:
        raise ValueError("Expected the graphs of its fingerprint (got others).")
    for one in (bag, bag.sampled_from):
        if one is not None:
            rebuilt = build_rows(one.graphs, one.selection, one.num_layers, one.literal or None)
            if rebuilt.fingerprint != one.rows.fingerprint:
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


def _damaged(path: Path, why: str, header: dict[str, Any] | None = None) -> str:
    wrote = ""
    if header is not None:
        version = header.get("esan")
        wrote = f", of the format {header['format']!r}" + (f" of esan {version!s:.20}" if version else "")
    return f"Expected a whole bag file at {path} (got one that is cut short or not of esan{wrote}: {why}). {_AGAIN}"


def _record(name: str, prefix: str, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """A record of the arrays named after it, which are removed from `arrays`."""
    start, kind = f"{prefix}{name}/", _RECORDS[name]
    attributes = {stored: attribute for attribute, stored in kind.stored_names.items()}
    tensors = {}
    for key in [key for key in arrays if key.startswith(start)]:
        stored = key.removeprefix(start)
        if stored in kind.stored_names:
            raise ValueError(f"Expected the arrays of a bag and no others (got {key}).")
        tensors[attributes.get(stored, stored)] = torch.from_numpy(arrays.pop(key))
    flags = dict(header["flags"][name])
    if name == "graphs":
        flags["extra"] = _extra(tensors, flags.pop(_LISTS, {}))
    # A missing field, or an unknown one, is a TypeError.
    return kind(**tensors, **flags)


def _policy(text: str) -> Policy | str | None:
    return None if text == "None" else policy_called(text)
