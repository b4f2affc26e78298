"""Do the running statistics of norms do justice to the weights? A metric of checkpoints under other statistics.

    python benchmarks/norms.py rdt-b/dss-gin-ego+-5% --runs runs [--over 32 256] [--device cuda] [--out norms.csv]

Every checkpoint of the recipe under RUNS predicts its validation graphs, from one sample where it samples, the same in
all columns: with the running statistics that it has, with those of the batch that is predicted, and with statistics
that are recalibrated on the training graphs, as the mean of batches of so many. Weights are the same in all of these.
"recorded" is the metric in the record of the training. Data are read from $ESAN_DATA.
"""

import argparse
import csv
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import torch

from esan.train import EagerEngine, named, protocol
from esan.train.runs.metrics import METRICS
from esan.train.runs.prepare_data import prepare
from esan.train.runs.run import Run


def metric_under(run: Run, sizes: list[int]) -> Iterator[float]:
    """The metric on validation graphs with running statistics, those of batches, and recalibrated over each size."""
    engine, train = run.engine, run.split.train[torch.randperm(run.split.train.numel())]
    assert isinstance(engine, EagerEngine)
    ids, weights = run.split.valid[torch.randperm(run.split.valid.numel())], engine.weights()
    drawn, size = engine.generator.get_state(), run.job.recipe.batch_size

    def metric(of_batches: bool = False) -> float:
        engine.generator.set_state(drawn)
        answers = []
        for some in ids.split(size):
            if of_batches:
                engine.recalibrate(some, size)
            answers.append(engine.predict(some).cpu())
        return float(METRICS[run.task.metric](torch.cat(answers), run.prepared.dataset.y[ids]))

    yield metric()
    yield metric(of_batches=True)
    for over in sizes:
        engine.model.load_state_dict(weights)
        engine.recalibrate(train, over)
        yield metric()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--over", type=int, nargs="*", default=[32, 256])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    recipe = named(arguments.recipe)
    prepared = prepare(recipe, device=arguments.device)
    runs = [Run(job, prepared, job.folder(arguments.runs), EagerEngine) for job in protocol(recipe)]
    runs = [run for run in runs if run.resume()]
    if not runs:
        parser.error(f"Expected checkpoints of {recipe.name} under {arguments.runs} (got none). Train it first.")
    columns = ("fold", "seed", "epoch", "recorded", "running", "batch", *(f"over {size}" for size in arguments.over))
    with arguments.out.open("w", newline="") if arguments.out else nullcontext(sys.stdout) as out:
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow(columns)
        for run in runs:
            torch.manual_seed(0)
            found = [f"{value:.4f}" for value in metric_under(run, arguments.over)]
            lines.writerow([run.job.fold, run.job.seed, run.epoch, run.curve[-1].valid, *found])
            out.flush()


if __name__ == "__main__":
    main()
