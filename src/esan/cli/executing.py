"""What commands that run jobs have in common: which of them, the executor by its name, and how the outcome is told."""

from collections.abc import Mapping, Sequence

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from esan.checks import check_known, shown
from esan.cli.plainly import console
from esan.train.campaigns.executors import Executor, Failure, Processes, Serial
from esan.train.campaigns.ray_cluster import TIMEOUT, RayCluster
from esan.train.runs.records import Record
from esan.train.runs.summary import summary

#: Folds or seeds on a command line at most.
MOST_NUMBERS = 100_000
EXECUTORS = ("serial", "processes", "ray")


def executor_named(
    name: str, workers: int | None, device: str, address: str | None = None, wait: float | None = None
) -> Executor:
    """The executor of a command line.

    Args:
        name: from `EXECUTORS`.
        workers: of "processes", how many; None for one a processor.
        device: where jobs train: with "ray", a GPU each if it is "cuda".
        address: of a Ray cluster; None to start one here.
        wait: seconds that the cluster at this address has to answer; None for the default.
    """
    check_known("--executor", name, EXECUTORS)
    for option, value in (("--address", address), ("--wait", wait)):
        if value is not None and name != "ray":
            raise ValueError(f"Expected {option} with --executor ray alone (got {name!r}). Leave it out.")
    if name == "processes":
        return Processes(workers)
    if workers is not None:
        raise ValueError(f"Expected --workers with --executor processes alone (got {name!r}). Leave it out.")
    if name == "serial":
        return Serial()
    gpus = 1 if device.startswith("cuda") else 0
    return RayCluster(address, gpus=gpus, timeout=TIMEOUT if wait is None else wait)


def whole_numbers(text: str, name: str) -> list[int]:
    """Whole numbers as one writes them: "3", "0..9", "0,2,5"."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        if not _is_number(first) or (dots and not _is_number(last)):
            raise ValueError(
                f"Expected --{name} such as 3, 0..9 or 0,2,5 (got {shown(text)}). Write whole numbers from 0 on."
            )
        some = range(int(first), int(last if dots else first) + 1)
        if len(numbers) + len(some) > MOST_NUMBERS:
            raise ValueError(
                f"Expected at most {MOST_NUMBERS:,} numbers in --{name} (got {shown(text)}, which has more). Each is a "
                "run with a folder of its own: name fewer."
            )
        numbers += some
    if not numbers:
        raise ValueError(f"Expected at least one number in --{name} (got {shown(text)}). Write the smaller one first.")
    return list(dict.fromkeys(numbers))


def _is_number(text: str) -> bool:
    # As digits 0 to 9 and no longer than any number of use: superscripts are digits too, to Python.
    return text.isascii() and text.isdecimal() and len(text) <= 18


def tell(failures: Mapping[str, Failure]) -> None:
    """Name what failed and why, each reason once, and end with exit code 1; nothing if nothing did."""
    if not failures:
        return
    reasons: dict[str, list[str]] = {}
    for name, failure in failures.items():
        reasons.setdefault(failure.reason, []).append(name)
    errors = Console(stderr=True)
    for reason, names in reasons.items():
        few = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        errors.print(Text(f"{few}: {reason}"), style="red", soft_wrap=True)
    wrong = sum(_of_input(failure) for failure in failures.values())
    again = "The same command tries them again."
    if wrong:
        some = "" if wrong == len(failures) else f" of {wrong} of them"
        again = f"Correct the input{some}, as told above; then the same command runs what is missing."
    console.print(Text(f"{len(failures)} runs have no record. {again}"), style="bold")
    raise typer.Exit(1)


def _of_input(failure: Failure) -> bool:
    """Whether this package refused the input, which it will refuse again; a process that died leaves no trace."""
    return bool(failure.trace) and failure.reason.startswith("Expected")


def told_numbers(records: Sequence[Record]) -> list[Table | Text]:
    """What the records of each recipe come to, as a table, and below it what its numbers are."""
    by_recipe: dict[str, list[Record]] = {}
    for record in records:
        by_recipe.setdefault(record.recipe.name, []).append(record)
    table = Table("recipe", "metric", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for head in ("mean ± std", "runs"):
        table.add_column(head, justify="right")
    rules: dict[str, list[str]] = {}
    for name, some in by_recipe.items():
        found = summary(some)
        value = "not measured" if found.value is None else f"{found.value:.4f}"
        table.add_row(Text(name), f"{found.part} {found.metric}", value, str(found.runs))
        rules.setdefault(found.rule, []).append(name)
    if len(rules) == 1:
        return [table, *(Text(f"mean ± std: {rule}") for rule in rules)]
    return [table, *(Text(f"{', '.join(names)}: {rule}") for rule, names in rules.items())]
