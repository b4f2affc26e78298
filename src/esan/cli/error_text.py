"""Errors of the library in the words of a command line: `num_layers=4` becomes `--num-layers 4`."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from typer.models import OptionInfo

#: Quoted text stays as it is: it is what the user typed.
_QUOTED = re.compile(r"""('(?:[^'\\]|\\.)*'(?!\w)|"[^"]*")""")
_VALUE = r"""(?P<value>True|False|\[[^\]]*\]|"[^"]*"|'[^']*'|[\w.+-]+)"""
#: Fields of a recipe that say how data is read: a command without an option for one may change it with --set.
_FIELDS = ("task", "smiles", "targets", "labels", "skip_unreadable", "skip_missing")


#: `data` is the folder of data sets on a command line, and the data itself in Python; labels are a kind of task too.
_AMBIGUOUS = ("data", "labels")


@dataclass(frozen=True)
class OptionNames:
    """The options of a command.

    Attributes:
        names: the Python name of each → the option, e.g. `num_layers` → `--num-layers`.
        negated: the options that say no, e.g. `node_labels` → `--no-node-labels`.
        flags: the Python names of options without a value.
    """

    names: dict[str, str]
    negated: dict[str, str]
    flags: frozenset[str]

    @staticmethod
    def of(command: Callable[..., Any]) -> "OptionNames":
        names: dict[str, str] = {}
        negated: dict[str, str] = {}
        flags = set()
        for parameter in inspect.signature(command).parameters.values():
            for option in _declared(parameter.annotation):
                name = option.removeprefix("--").replace("-", "_")
                names[name] = option
                if name.startswith("no_"):
                    negated[name.removeprefix("no_")] = option
                if get_args(parameter.annotation)[0] is bool:
                    flags.add(name)
        return OptionNames(names, negated, frozenset(flags))

    def worded(self, text: str) -> str:
        """The text with arguments of Python calls as options; what is quoted, and what is no option, stays."""
        if not text.startswith(("Expected", "Left out", "Column")) and "Expected " not in text:
            return text
        known = sorted(
            set(self.names) | set(self.negated) | (set(_FIELDS) if "set" in self.names else set()),
            key=len,
            reverse=True,
        )
        known = [name for name in known if name != "data"]
        if not known:
            return text
        arguments = re.compile(rf"(?<![\w-])(?P<name>{'|'.join(known)})={_VALUE}")
        subjects = "|".join(name for name in self.names if name not in _AMBIGUOUS)
        subject = re.compile(rf"Expected (?P<name>{subjects}) (?=of at|of \d|to be|above|in \[|in \()")
        words = arguments.sub(self._argument, text)
        parts = _QUOTED.split(words)
        parts[::2] = [subject.sub(lambda found: f"Expected {self.names[found['name']]} ", part) for part in parts[::2]]
        return "".join(parts)

    def _argument(self, found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        plain = _plain(value)
        if value == "False" and name in self.negated:
            return self.negated[name]
        if name not in self.names:
            return f"--set {name}={'true' if value == 'True' else plain}"
        if name in self.flags or value in ("True", "False"):
            return self.names[name] if value != "False" else f"no {self.names[name]}"
        return f"{self.names[name]} {plain}"


def _plain(value: str) -> str:
    """A Python value as one types it: `["a", "b"]` as a,b and "c" as c."""
    if value.startswith("["):
        return ",".join(part.strip().strip("'\"") for part in value[1:-1].split(",") if part.strip())
    return value.strip("'\"")


def _declared(annotation: Any) -> list[str]:
    """The long names that an annotation declares; of `Annotated`, typer keeps the first one as the default."""
    options = [extra for extra in getattr(annotation, "__metadata__", ()) if isinstance(extra, OptionInfo)]
    names = [name for extra in options for name in (extra.default, *(extra.param_decls or ()))]
    return [name for name in names if isinstance(name, str) and name.startswith("--")]
