"""Where the time of training steps goes: ms a step, and the kernels that take most of it.

    python benchmarks/profile_steps.py ogbg-moltox21/ds-gin-ego [--networks 3] [--steps 48] [--device cuda] [--alone]

Networks differ in seed, or in fold where the recipe has folds, and train together where the device lets them, unless
`--alone` is given. Each line is an epoch of so many steps of random graphs; the first builds, compiles and captures.
Data are read from $ESAN_DATA.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

from esan.train import named
from esan.train.engines.engine import EagerEngine
from esan.train.engines.engine_factory import EngineFactory
from esan.train.runs.job import Job
from esan.train.runs.prepare_data import prepare
from esan.train.runs.run import Run
from report import machine

SHOWN = 24


def epoch_of(runs: list[Run], steps: int) -> Callable[[], float]:
    """What trains all networks for so many steps, and gives the ms that one took."""
    cuda = runs[0].prepared.device.type == "cuda"

    def epoch() -> float:
        since = time.perf_counter()
        for run in runs:
            train, recipe = run.split.train, run.job.recipe
            order = torch.randperm(train.numel(), generator=run.order)
            run.engine.train_epoch(train[order[: steps * recipe.batch_size]])
        for run in runs:
            run.engine.flush()
        if cuda:
            torch.cuda.synchronize()
        return (time.perf_counter() - since) / steps * 1e3

    return epoch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--networks", type=int, default=1)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--alone", action="store_true", help="batch after batch, as torch runs it")
    arguments = parser.parse_args()
    if min(arguments.networks, arguments.steps) < 1:
        parser.error(f"Expected --networks and --steps from 1 on (got {arguments.networks} and {arguments.steps}).")
    recipe, steps = named(arguments.recipe), arguments.steps  # as many as an epoch has, at most
    prepared = prepare(recipe, device=arguments.device)
    folds = recipe.split == "folds"
    jobs = [Job(recipe, fold=k if folds else 0, seed=0 if folds else k) for k in range(arguments.networks)]
    make = EagerEngine if arguments.alone else EngineFactory()
    runs = [Run(job, prepared, None, make) for job in jobs]
    steps = min(steps, *(-(-run.split.train.numel() // recipe.batch_size) for run in runs))
    epoch = epoch_of(runs, steps)
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    print(f"{recipe.name}, networks {arguments.networks}, epochs of {steps} steps")
    for _ in range(arguments.epochs):
        print(f"{epoch():9.2f} ms a step", flush=True)
    cuda = arguments.device.startswith("cuda")
    with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as found:
        taken = epoch()
    own = "self_device_time_total" if cuda else "self_cpu_time_total"
    # What takes no time of the device are calls of its runtime.
    events = [event for event in found.key_averages() if getattr(event, own) > 0]
    kernels = [(getattr(event, own) / 1e3 / steps, event.count / steps, event.key) for event in events]
    busy, launched = sum(kernel[0] for kernel in kernels), sum(kernel[1] for kernel in kernels)
    print(f"{taken:9.2f} ms a step profiled, {busy:.2f} ms of them kernels, {launched:.0f} launches a step")
    for spent, count, name in sorted(kernels, reverse=True)[:SHOWN]:
        print(f"{spent:9.3f} ms a step, {count:6.1f} of {name[:100]}")
    if cuda:
        print(f"{torch.cuda.max_memory_allocated() / 2**30:9.2f} GiB at most")


if __name__ == "__main__":
    main()
