"""Plain values → TOML: texts, numbers, truth values, lists of them, and lists of tables."""

import json
from collections.abc import Mapping
from typing import Any


def to_toml(values: Mapping[str, Any]) -> str:
    """`key = value` lines, then every non-empty list of tables as `[[key]]`; `tomllib` reads the same values back."""
    tables = {key: value for key, value in values.items() if _is_tables(value)}
    lines = [f"{key} = {_literal(value)}" for key, value in values.items() if key not in tables]
    for key, items in tables.items():
        for item in items:
            lines += ["", f"[[{key}]]", *(f"{name} = {_literal(value)}" for name, value in item.items())]
    return "\n".join(lines) + "\n"


def _is_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(item, Mapping) for item in value)


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        # TOML's basic strings have the escapes of JSON.
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    raise TypeError(
        f"Expected a text, a number, a truth value or a list (got {value!r}). TOML has no other values here."
    )
