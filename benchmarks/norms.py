"""Do the running statistics of norms do justice to the weights? A metric of checkpoints under other statistics.

    python benchmarks/norms.py rdt-b/dss-gin-ego+-5% --runs runs [--over 32 256] [--device cuda] [--out norms.csv]

Every checkpoint of the recipe under RUNS predicts its validation graphs, from one sample where it samples: with the
running statistics that it has, with those of the batches that are predicted (mixed, as large as those of training), and
with statistics that are taken anew from the training graphs, as the mean of batches of so many graphs. Weights are the
same in all of these. Data are read from $ESAN_DATA.
"""

import argparse
import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from esan.train import named
from esan.train.engine import EagerEngine
from esan.train.job import Job, protocol
from esan.train.metrics import METRICS
from esan.train.prepare import Prepared, prepare
from esan.train.renewal import Renewal
from esan.train.run import Run


def resumed(job: Job, prepared: Prepared, runs: Path) -> Run | None:
    """The job as its checkpoint has it, if there is one."""
    run = Run(job, prepared, job.folder(runs), lambda *given, augment=None: EagerEngine(*given, augment))
    return run if run.resume() else None


def given(run: Run, ids: Tensor) -> Tensor:
    """What the network gives for these graphs, in the mode that it is in."""
    model, loader = run.engine.model, run.engine.loader
    parts = ids.to(loader.bag.device).split(run.job.recipe.batch_size)
    with torch.no_grad():
        return torch.cat([model(loader.batch(some)) for some in parts])


def renew(run: Run, size: int) -> None:
    """Statistics of batches of so many training graphs in place of those that there are."""
    renewal, train = Renewal(run.engine.model), run.split.train.to(run.engine.loader.bag.device)
    with renewal.over_batches():
        for some in train[torch.randperm(train.numel()).to(train.device)].split(size):
            batch = run.engine.loader.batch(some)
            renewal.add(lambda batch=batch: run.engine.model(batch), len(batch))


def metric_under(run: Run, sizes: list[int]) -> Iterator[float]:
    """The metric on validation graphs with running statistics, those of batches, and those renewed over each size."""
    model, ids = run.engine.model, run.split.valid[torch.randperm(run.split.valid.numel())]

    def metric() -> float:
        answer = run.objective.answer(given(run, ids)).cpu()
        return float(METRICS[run.task.metric](answer, run.prepared.dataset.y[ids]))

    weights = run.engine.weights()
    model.eval()
    yield metric()
    model.train()
    yield metric()
    model.load_state_dict(weights)
    for size in sizes:
        renew(run, size)
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
    columns = ("fold", "seed", "epoch", "told", "running", "batch", *(f"over {size}" for size in arguments.over))
    with arguments.out.open("w", newline="") if arguments.out else sys.stdout as out:
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow(columns)
        for job in protocol(recipe):
            if (run := resumed(job, prepared, arguments.runs)) is None:
                continue
            torch.manual_seed(0)
            found = [f"{value:.4f}" for value in metric_under(run, arguments.over)]
            lines.writerow([job.fold, job.seed, run.epoch, run.curve[-1].valid, *found])
            out.flush()


if __name__ == "__main__":
    main()
