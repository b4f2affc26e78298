"""What train, search, campaign and reproduce share: seeds, folds, executors, and how results and failures are shown."""

from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from esan.checks import check_known, device_named, shown
from esan.cli.console import BUG, INPUT, console
from esan.cli.tables import figure, plain_table, with_unit
from esan.plural import counted
from esan.train.campaigns.executors import Executor, Failure, Processes, Serial
from esan.train.campaigns.ray_cluster import TIMEOUT, RayCluster
from esan.train.recipes.recipe import Recipe
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
        workers: of "processes", how many; None for one per processor.
        device: where jobs train: with "ray", each has a GPU if it is "cuda".
        address: of a Ray cluster; None to start one here.
        wait: seconds that the cluster at this address has to answer; None for the default.
    """
    check_known("--executor", name, EXECUTORS)
    for option, value in (("--address", address), ("--wait", wait)):
        if value is not None and name != "ray":
            raise ValueError(f"Expected --executor ray with {option} (got {name!r}). Leave {option} out.")
    if name == "processes":
        return Processes(workers)
    if workers is not None:
        raise ValueError(f"Expected --executor processes with --workers (got {name!r}). Leave --workers out.")
    if name == "serial":
        return Serial()
    gpus = 1 if str(device_named(device)).startswith("cuda") else 0
    return RayCluster(address, gpus=gpus, timeout=TIMEOUT if wait is None else wait)


def whole_numbers(text: str, name: str) -> list[int]:
    """Numbers from 0 on, as one writes them: "5" for the first five, "0..9" or "0,2,5" for these."""
    if _is_number(count := text.strip()) and int(count) == 0:
        raise ValueError(
            f"Expected --{name} of at least 1 (got {text}). For number 0 alone, write --{name.removesuffix('s')} 0."
        )
    numbers: list[int] = []
    for part in [f"0..{int(count) - 1}"] if _is_number(count) else text.split(","):
        first, dots, last = part.strip().partition("..")
        if not _is_number(first) or (dots and not _is_number(last)):
            raise ValueError(
                f"Expected --{name} as a count (5), a range (0..4) or a list (0,2,5) (got {shown(text)}). "
                "Write whole numbers from 0 on."
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


def chosen_numbers(many: str | None, one: int | None, name: str) -> list[int] | None:
    """The numbers of --seeds and --seed, or of --folds and --fold; None if neither is given."""
    single = name.removesuffix("s")
    if many is not None and one is not None:
        raise ValueError(f"Expected --{name} or --{single} (got both). Leave one out.")
    if one is not None and one < 0:
        raise ValueError(f"Expected --{single} of at least 0 (got {one}). Write a whole number from 0 on.")
    if many is None:
        return None if one is None else [one]
    return whole_numbers(many, name)


def chosen_folds(recipes: Sequence[Recipe], many: str | None, one: int | None) -> list[int] | None:
    """The numbers of --folds or --fold, if every recipe has these folds."""
    folds = chosen_numbers(many, one, "folds")
    for recipe in recipes if folds else ():
        count = recipe.folds if recipe.split == "folds" else 1
        if max(folds or ()) >= count:
            option = f"--fold {one}" if many is None else f"--folds {many}"
            there = f"0 to {count - 1}" if count > 1 else "only 0"
            raise ValueError(f"Expected folds that {recipe.name} has, {there} (got {option}). Choose among these.")
    return folds


def _is_number(text: str) -> bool:
    # As digits 0 to 9 and no longer than any number of use: superscripts are digits too, to Python.
    return text.isascii() and text.isdecimal() and len(text) <= 18


def campaign_settings(executor: Executor, device: str, quiet: bool) -> dict[str, Any]:
    """The arguments of a campaign that follow from the options: executor, device, bars and progress.

    Where nothing but bars shows progress, --quiet leaves them out; in other processes there are none.
    """

    def progress(done: int, total: int) -> None:
        console.print(Text(f"{done} of {counted(total, 'run')}"))

    return {
        "executor": executor,
        "device": str(device_named(device)),
        "bars": isinstance(executor, Serial) and not quiet,
        "progress": None if quiet else progress,
    }


def tell(failures: Mapping[str, Failure], done: int) -> None:
    """Name what failed and why, each reason once, and exit; nothing if nothing failed.

    The exit code is 2 where the input was refused and nothing ran, else 1.

    Args:
        failures: by the name of the run.
        done: how many runs have ended well.
    """
    if not failures:
        return
    reasons: dict[str, list[str]] = {}
    for name, failure in failures.items():
        reasons.setdefault(_reason(failure), []).append(name)
    errors = Console(stderr=True)
    for reason, names in reasons.items():
        few = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        errors.print(Text(f"{few}: {reason}"), style="red", soft_wrap=True)
    wrong = sum(_of_input(failure) for failure in failures.values())
    again = "Run the same command to try again."
    if wrong:
        some = "" if wrong == len(failures) else f" of {wrong} of them"
        again = f"Correct the input{some} as said above, then run the same command."
    console.print(Text(f"{counted(len(failures), 'run')} failed. {again}"), style="bold")
    raise typer.Exit(INPUT if wrong == len(failures) and not done else BUG)


def _of_input(failure: Failure) -> bool:
    """Whether this package refused the input, which it will refuse again; a process that died leaves no trace."""
    return bool(failure.trace) and _reason(failure).startswith("Expected")


def _reason(failure: Failure) -> str:
    # A missing package is reported like any refused input.
    return failure.reason.removeprefix("ImportError: ")


def told_numbers(records: Sequence[Record]) -> list[Table | Text]:
    """What the records of each recipe come to, as a table, and below it what its numbers are."""
    by_recipe: dict[str, list[Record]] = {}
    for record in records:
        by_recipe.setdefault(record.recipe.name, []).append(record)
    table = plain_table(["recipe", "metric"], ["mean ± std", "runs"])
    rules: dict[str, list[str]] = {}
    for name, some in by_recipe.items():
        found = summary(some)
        value = figure(found.value, found.metric, name) or "not measured"
        table.add_row(Text(name), f"{found.part} {with_unit(found.metric)}", value, str(found.runs))
        rules.setdefault(found.rule, []).append(name)
    if len(rules) == 1:
        return [table, *(Text(f"mean ± std: {rule}") for rule in rules)]
    return [table, *(Text(f"{', '.join(names)}: {rule}") for rule, names in rules.items())]
