"""`esan predict RUN DATA`: the predictions of a trained network, as a CSV file."""

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from esan import data
from esan.checks import device_named
from esan.cli import options
from esan.cli.console import console, plainly
from esan.data import Dataset
from esan.data.csv_files import is_csv
from esan.train.prediction_inputs import lines_of, read_graphs
from esan.train.predictions import Predictions, target_columns
from esan.train.predictor import Predictor
from esan.train.runs.prepare_data import find_data, is_dataset_name, read_options, splits_for


@plainly
def run(
    trained: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a run, or a file that Predictor.save wrote.")
    ],
    source: Annotated[str, typer.Argument(metavar="DATA", help=f"{options.SOURCES}.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The CSV file to write.")] = Path(
        "predictions.csv"
    ),
    weights: Annotated[
        str,
        typer.Option("--weights", metavar="NAME", help="Weights of a run: best (on validation) or last."),
    ] = "best",
    smiles: options.Smiles = None,
    skip: options.SkipUnreadable = False,
    root: options.Root = None,
    cache: options.Cache = None,
    device: options.Device = "auto",
) -> None:
    """Predict for every graph of DATA, and write a CSV file with one row per graph.

    For the data that the run was trained on, the file also has the targets and the part of the split (train, valid or
    test). For a CSV file it has the line of each molecule, and for sampled bags the spread of the votes.
    """
    fitted = Predictor.load(trained, weights).to(device_named(device))
    model_spec = fitted.header.model_spec
    named = is_dataset_name(source) and not Path(source).exists()
    whole = data.load(source, root, cache=cache) if named else _trained_on(source, fitted)
    graphs = read_graphs(whole, model_spec) if whole is not None else read_graphs(source, model_spec, smiles, skip)
    more: dict[str, list[Any]] = {}
    if not named and is_csv(Path(source)):
        left_out = {row.line for row in graphs.skipped}
        more["line"] = [line for line in lines_of(Path(source)) if line not in left_out]
    if whole is not None:
        more |= _known(whole, fitted)
    if graphs.smiles is not None:
        more["smiles"] = list(graphs.smiles)
    votes = fitted.predict_samples(graphs)
    predictions = Predictions.of(votes, fitted.task.kind, model_spec.classes, model_spec.targets)
    predictions.to_csv(out, more)
    console.print(Text(f"{len(predictions):,} predictions of {model_spec.recipe.name}: {out}"))


def _trained_on(source: str, fitted: Predictor) -> Dataset | None:
    """The data with its targets, if it is what the network was trained on."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            whole = find_data(source, **read_options(fitted.header.model_spec.recipe))
    except (ValueError, TypeError, OSError):
        # No targets such as the recipe names: graphs that await predictions. Other mistakes are reported by who reads
        # them next.
        return None
    if whole.fingerprint != fitted.header.data:
        return None
    for warning in caught:
        warnings.warn(warning.message, stacklevel=2)
    return whole


def _known(dataset: Dataset, fitted: Predictor) -> dict[str, list[Any]]:
    """Targets, and the part of the split of each graph where the network was trained on this very data."""
    more: dict[str, list[Any]] = {}
    if dataset.graphs.y is not None:
        more |= target_columns(dataset)
    if dataset.fingerprint == fitted.header.data:
        split = splits_for(fitted.header.model_spec.recipe, dataset)[fitted.header.fold]
        part = [""] * len(dataset)
        for name in ("train", "valid", "test"):
            for graph in getattr(split, name).tolist():
                part[graph] = name
        more["part"] = list(part)
    return more
