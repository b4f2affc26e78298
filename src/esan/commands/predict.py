"""`esan predict RUN DATA`: the predictions of a trained network, as a CSV file."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from esan import data
from esan.commands.plainly import console, plainly
from esan.data import Dataset
from esan.train.fitted import Fitted, read_graphs
from esan.train.predictions import Predictions
from esan.train.prepare import split_as


@plainly
def run(
    trained: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a file of Fitted.save.")],
    source: Annotated[str, typer.Argument(metavar="DATA", help="A name (zinc), or a file or folder of graphs.")],
    out: Annotated[Path, typer.Option(help="The CSV file to write.")] = Path("predictions.csv"),
    weights: Annotated[str, typer.Option(help="Of a run: best (validation) or last.")] = "best",
    smiles: Annotated[str | None, typer.Option(help="The column of SMILES in a table.")] = None,
    skip: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out rows of a table that cannot be read.")
    ] = False,
    root: Annotated[Path | None, typer.Option("--data", help="The folder of the data; else $ESAN_DATA.")] = None,
    cache: Annotated[Path | None, typer.Option(help="The folder of downloads; else $ESAN_CACHE.")] = None,
    device: Annotated[str, typer.Option(help="Where to compute: cpu, cuda.")] = "cpu",
) -> None:
    """Predict for every graph of DATA, with the spread of the votes where bags are sampled.

    For the data that the run was trained on, a column says to which part each graph belonged.
    """
    fitted = Fitted.load(trained, weights).to(device)
    blueprint = fitted.belongs.blueprint
    more: dict[str, list[Any]] = {}
    if source.lower().replace("_", "-") in data.names() and not Path(source).exists():
        whole = data.load(source, root, cache=cache)
        graphs = read_graphs(whole, blueprint)
        more = _known(whole, fitted)
    else:
        graphs = read_graphs(source, blueprint, smiles, skip)
    if graphs.smiles is not None:
        more["smiles"] = list(graphs.smiles)
    predictions = Predictions.of(fitted.votes(graphs), fitted.task.kind, blueprint.classes)
    predictions.to_csv(out, more)
    console.print(Text(f"{len(predictions):,} predictions of {blueprint.recipe.name}: {out}"))


def _known(dataset: Dataset, fitted: Fitted) -> dict[str, list[Any]]:
    """Targets, and the part of the split of each graph where the network was trained on this very data."""
    more: dict[str, list[Any]] = {}
    if dataset.graphs.y is not None and dataset.y.dim() == 1:
        more["target"] = dataset.y.tolist()
    elif dataset.graphs.y is not None:
        many = dataset.y.size(1) > 1
        more |= {f"target {i}" if many else "target": column.tolist() for i, column in enumerate(dataset.y.T)}
    if dataset.fingerprint == fitted.belongs.data:
        split = split_as(fitted.belongs.blueprint.recipe, dataset)[fitted.belongs.fold]
        part = [""] * len(dataset)
        for name in ("train", "valid", "test"):
            for graph in getattr(split, name).tolist():
                part[graph] = name
        more["part"] = list(part)
    return more
