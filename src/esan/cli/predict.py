"""`esan predict RUN DATA`: the predictions of a trained network, as a CSV file."""

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from esan import data
from esan.cli.plainly import console, plainly
from esan.data import Dataset
from esan.train.predictions import Predictions
from esan.train.predictor import Predictor
from esan.train.reading import called, is_table, lines_of, read_graphs
from esan.train.runs.prepare import find_data, is_dataset_name, read_options, splits_for


@plainly
def run(
    trained: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a file of Predictor.save.")],
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

    For the data that the run was trained on, columns say what was to be predicted and to which part each graph
    belonged. Of a table, a column has the line of the file.
    """
    fitted = Predictor.load(trained, weights).to(device)
    model_spec = fitted.header.model_spec
    named = is_dataset_name(source) and not Path(source).exists()
    whole = data.load(source, root, cache=cache) if named else _trained_on(source, fitted)
    graphs = read_graphs(whole, model_spec) if whole is not None else read_graphs(source, model_spec, smiles, skip)
    more: dict[str, list[Any]] = {}
    if not named and is_table(Path(source)):
        left_out = {row.line for row in graphs.skipped}
        more["line"] = [line for line in lines_of(Path(source)) if line not in left_out]
    if whole is not None:
        more |= _known(whole, fitted)
    if graphs.smiles is not None:
        more["smiles"] = list(graphs.smiles)
    predictions = Predictions.of(fitted.predict_samples(graphs), fitted.task.kind, model_spec.classes)
    predictions.to_csv(out, more)
    console.print(Text(f"{len(predictions):,} predictions of {model_spec.recipe.name}: {out}"))


def _trained_on(source: str, fitted: Predictor) -> Dataset | None:
    """The data with its targets, if it is what the network was trained on."""
    try:
        with warnings.catch_warnings(record=True) as told:
            whole = find_data(source, **read_options(fitted.header.model_spec.recipe))
    except (ValueError, TypeError, OSError):
        # No targets such as the recipe names: graphs that await predictions. What else is wrong is told by who reads
        # them next.
        return None
    if whole.fingerprint != fitted.header.data:
        return None
    for warning in told:
        warnings.warn(warning.message, stacklevel=2)
    return whole


def _known(dataset: Dataset, fitted: Predictor) -> dict[str, list[Any]]:
    """Targets, and the part of the split of each graph where the network was trained on this very data."""
    more: dict[str, list[Any]] = {}
    if dataset.graphs.y is not None and dataset.y.dim() == 1:
        more["target"] = called(dataset).tolist()
    elif dataset.graphs.y is not None:
        many = dataset.y.size(1) > 1
        more |= {f"target {i}" if many else "target": column.tolist() for i, column in enumerate(dataset.y.T)}
    if dataset.fingerprint == fitted.header.data:
        split = splits_for(fitted.header.model_spec.recipe, dataset)[fitted.header.fold]
        part = [""] * len(dataset)
        for name in ("train", "valid", "test"):
            for graph in getattr(split, name).tolist():
                part[graph] = name
        more["part"] = list(part)
    return more
