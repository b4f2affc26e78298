"""The options that commands share: each has one name, one meaning and one default in all of them."""

from pathlib import Path
from typing import Annotated

import typer

Seeds = Annotated[
    str | None, typer.Option("--seeds", metavar="5|0..4|0,2", help="How many seeds (5), or which (0..4, or 0,2).")
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="One seed by its number.")]
Folds = Annotated[
    str | None,
    typer.Option("--folds", metavar="5|0..4|0,2", help="How many folds (5), or which (0..4, or 0,2); default: all."),
]
Fold = Annotated[int | None, typer.Option("--fold", metavar="N", help="One fold by its number, from 0.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Change a field of the recipe; repeat for more."),
]
Device = Annotated[
    str,
    typer.Option("--device", metavar="NAME", help="auto (a GPU if there is one), cpu, cuda or cuda:1."),
]
Root = Annotated[
    Path | None, typer.Option("--data", metavar="FOLDER", help="Where data sets are stored (default: $ESAN_DATA).")
]
Cache = Annotated[
    Path | None, typer.Option("--cache", metavar="FOLDER", help="Downloads and cached bags (default: $ESAN_CACHE).")
]
Runs = Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Where runs are stored.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show results only, no progress.")]
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help='ND, ED, NM, SE, "EGO(2)" or "EGO+(2)"; a ^ at the end adds the whole graph (default: ED).',
    ),
]
Smiles = Annotated[
    str | None, typer.Option("--smiles", metavar="COLUMN", help='The SMILES column of a CSV file (default: "smiles").')
]
Targets = Annotated[
    str | None,
    typer.Option("--targets", metavar="COLUMN", help="The target column of a CSV file (default: the only other one)."),
]
SkipUnreadable = Annotated[
    bool, typer.Option("--skip-unreadable", help="Leave out the rows of a CSV file that cannot be read.")
]
Executor = Annotated[
    str, typer.Option("--executor", metavar="NAME", help="Where to run: serial (here), processes or ray.")
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", help="For processes: how many (default: one per processor)."),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address", help="For ray: the address of a running cluster, or auto (default: start one on this machine)."
    ),
]
Wait = Annotated[
    float | None,
    typer.Option("--wait", metavar="SECONDS", help="For ray: how long to wait for the cluster (default: 20)."),
]
Together = Annotated[
    int | None,
    typer.Option(
        "--together",
        metavar="N",
        help="How many runs of a recipe train as one ensemble (default: all on a GPU, 1 on a CPU).",
    ),
]

#: The default of --runs.
RUNS = Path("runs")
#: What a source of graphs may be, for the help of every command that takes one.
SOURCES = "A data set by name (mutag), a CSV file of molecules, a .g6, .npz or .pt file, or a TU folder"
ONE_GRAPH = 'a name ("rook", "csl(12,3)"), graph6 text, a file of one graph, one graph of a data set ("mutag[0]")'
