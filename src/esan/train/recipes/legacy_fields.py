"""Read recipes of earlier versions: old names of fields become current ones."""

from collections.abc import Mapping
from typing import Any

from esan.policies import Policy, Sampled, as_policy

#: What fields were called, and are called now.
RENAMED = {
    "layers": "num_layers",
    "width": "hidden_channels",
    "renew_norms": "recalibrate_norms",
    "renew_batch": "recalibrate_batch",
}


def from_earlier(values: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """The fields of a file under their names of today; a `fraction` beside a policy becomes the sampled policy.

    Args:
        values: the fields.
        policy: that of a recipe which names none.
    """
    found, fraction = _renamed(values), values.get("fraction", 1.0)
    policy = found.get("policy", policy)
    if fraction != 1:
        found["policy"] = Sampled(as_policy(policy), fraction)
    grid = values.get("grid")
    if isinstance(grid, Mapping):
        found["grid"] = _table(grid, policy)
    elif isinstance(grid, list | tuple):
        found["grid"] = [_table(table, policy) if isinstance(table, Mapping) else table for table in grid]
    return found


def _renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    both = [(old, new) for old, new in RENAMED.items() if old in values and new in values]
    if both:
        old, new = both[0]
        raise ValueError(f"Expected {new} alone (got {old} too, which it was called before). Leave {old} out.")
    return {RENAMED.get(name, name): value for name, value in values.items() if name != "fraction"}


def _table(table: Mapping[str, Any], policy: Policy | str) -> dict[str, Any]:
    """A table of a grid; fractions to try become sampled policies to try."""
    found, fractions = _renamed(table), table.get("fraction")
    if isinstance(fractions, list | tuple):
        policies = [as_policy(one) for one in found.get("policy", [policy])]
        found["policy"] = [p if share == 1 else Sampled(p, share) for p in policies for share in fractions]
    elif fractions is not None:
        found["fraction"] = fractions  # no list, which the grid refuses
    return found
