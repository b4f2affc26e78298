"""The fields of a recipe: what each may hold, how values are read from text, and the errors where one is wrong."""

import csv
import difflib
import io
import math
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from esan.checks import MOST_LAYERS, SEEDS, check_known, real_number, shown
from esan.policies import Policy, as_policy, policy_name
from esan.train.recipes.legacy_fields import RENAMED

#: What the fields that choose among names may hold.
CHOICES: dict[str, tuple[str, ...]] = {
    "model": ("ds", "dss", "gnn"),
    "conv": ("auto", "gin", "gine", "gine-ogb", "graphconv", "gcn", "ppgn"),
    "jk": ("cat", "cat-input", "last"),
    "readout": ("sum", "mean", "max"),
    "set_encoder": ("deepsets", "invariant-deepsets", "mean", "max"),
    "bag_pool": ("mean", "sum", "max", "others"),
    "adjacency": ("original", "max", "sum"),
    "norm": ("batch_norm", "layer_norm", "none"),
    "head": ("mlp", "linear", "narrowing"),
    "embeddings": ("normal", "xavier"),
    "schedule": ("step", "plateau", "constant"),
    "task": ("", "classification", "regression", "labels"),
    "split": ("auto", "given", "folds", "scaffold", "random"),
    "select": ("mean-valid", "best-valid", "best-loss", "last"),
}
#: The least that the fields which are whole numbers may be.
LEAST: dict[str, int] = dict.fromkeys(
    ("num_layers", "hidden_channels", "set_channels", "set_layers", "votes", "batch_size", "epochs", "period", "seeds"),
    1,
) | {"folds": 2}

#: The most that they may be, where more is no number that anyone means: a layer of width w has w² weights, an epoch
#: has a line in every curve, and a seed a folder.
MOST: dict[str, int] = {
    "num_layers": MOST_LAYERS,
    "set_layers": MOST_LAYERS,
    "hidden_channels": 2**16,
    "set_channels": 2**16,
    "votes": 10_000,
    "walk_features": 10_000,
    "degrees": 2**16,
    "batch_size": 2**31,
    "recalibrate_batch": 2**31,
    "epochs": 10_000_000,
    "period": 10_000_000,
    "patience": 10_000_000,
    "stop_after": 10_000_000,
    "folds": 1_000_000,
    "seeds": 1_000_000,
    "split_seed": SEEDS - 1,
}


def parsed(text: str) -> Any:
    """A value as one types it in a shell: TOML, or a word without quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    except (ValueError, RecursionError):  # a number of thousands of digits, or brackets in brackets
        raise ValueError(f"Expected a value (got {text[:40]!r}…, which TOML cannot hold). Shorten it.") from None


def short(value: Any) -> str:
    """A value as a part of a name."""
    text = f"{value:g}" if isinstance(value, float) else str(plain(value))
    return re.sub(r"[^\w+^%.@()-]", "", text)


def plain(value: Any) -> Any:
    """A value as files hold it: a policy by its name, all else as it is."""
    return policy_name(value) if isinstance(value, Policy) else value


def joined(columns: Iterable[str]) -> str:
    """The names of columns as one text, with commas between; a name that has a comma is quoted, as in a CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(columns)
    return text.getvalue()


def columns_of(text: str) -> list[str]:
    """The names of columns that such a text holds; blanks around them do not count."""
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]


def refuse_unknown(names: Collection[str], defaults: Mapping[str, Any]) -> None:
    """An error for names that are no fields: with the nearest ones, or all fields where nothing is near."""
    strange = sorted(map(str, set(names) - set(defaults)))
    if strange:
        close = [
            RENAMED.get(name) or next(iter(difflib.get_close_matches(name, defaults, 1)), None) for name in strange
        ]
        near = [match for match in close if match is not None]
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        known = f" Known: {', '.join(defaults)}." if None in close else ""
        raise ValueError(f"Expected fields of a recipe (got {', '.join(strange)}).{hint}{known}")


def checked(name: str, value: Any, default: Any) -> Any:
    """The value in the type of its field, or an error that names the field."""
    if name == "policy":
        policy = as_policy(value)
        policy_name(policy)  # refuses what a file cannot hold
        return policy
    wanted = str if name == "data" else type(default)
    if name == "targets" and isinstance(value, list | tuple) and all(isinstance(column, str) for column in value):
        value = joined(value)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = real_number(name, value, f"The default is {default!r}.")
    if type(value) is not wanted:
        words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}[wanted]
        if name == "data":
            raise TypeError(f'Expected data to be text (got {shown(value)}). Name a set, e.g. "zinc", or a path.')
        raise TypeError(f"Expected {name} to be {words} (got {shown(value)}). The default is {default!r}.")
    if name in CHOICES:
        check_known(name, value, CHOICES[name])
    if isinstance(value, int) and not isinstance(value, bool) and value < (least := LEAST.get(name, 0)):
        raise ValueError(f"Expected {name} of at least {least} (got {shown(value)}). The default is {default!r}.")
    if isinstance(value, int) and name in MOST and value > MOST[name]:
        raise ValueError(f"Expected {name} of at most {MOST[name]:,} (got {shown(value)}). The default is {default!r}.")
    if isinstance(value, str) and "\0" in value:
        raise ValueError(f"Expected text without null characters as {name} (got {shown(value)}). Leave them out.")
    if isinstance(value, float):
        _check_range(name, value, default)
    return value


def _check_range(name: str, value: float, default: float) -> None:
    """Learning rates are above 0, parts of something are in [0, 1) or (0, 1]."""
    if name in ("lr", "min_lr"):
        good, words = 0 < value < math.inf, "above 0"
    elif name == "factor":
        good, words = 0 < value <= 1, "in (0, 1]"
    else:
        good, words = 0 <= value < 1, "in [0, 1)"
    if not good:
        raise ValueError(f"Expected {name} {words} (got {value}). The default is {default!r}.")


def checked_grid(grid: Any, defaults: Mapping[str, Any]) -> tuple[dict[str, tuple[Any, ...]], ...]:
    tables = [grid] if isinstance(grid, Mapping) else list(grid) if isinstance(grid, list | tuple) else None
    if tables is None or not all(isinstance(table, Mapping) for table in tables):
        raise TypeError(
            f"Expected tables of values as a grid (got {shown(grid)}). Write e.g. lr = [0.01, 0.001] in [[grid]]."
        )
    refuse_unknown({name for table in tables for name in table}, defaults)
    if not all(isinstance(values, list | tuple) and values for table in tables for values in table.values()):
        raise TypeError(
            f"Expected a list of values for every field of a grid (got {shown(grid)}). Write lr = [0.01, 0.001]."
        )
    return tuple(
        {name: tuple(checked(name, v, defaults[name]) for v in values) for name, values in t.items()} for t in tables
    )
