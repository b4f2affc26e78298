"""`esan compile`: compile the CPU kernels now, instead of when each is first used."""

import torch
from rich.progress import track

import esan
from esan.cli.console import console, plainly
from esan.ops.numba.compiling import compile_all, loops
from esan.plural import counted


@plainly
def run() -> None:
    """Compile the CPU kernels now; otherwise each is compiled when it is first used.

    The compiled kernels are cached, so this is needed once per machine. It needs numba (pip install 'esan[fast]').
    """
    some = loops()
    for _ in track(compile_all(some), "Kernels", len(some), console=console):
        pass
    train_once()
    console.print(f"Compiled and cached: {counted(len(some), 'kernel')}.")


def train_once() -> None:
    """Train and predict on some graphs: what finds rows is compiled for the types that it is given."""
    graphs = [esan.graphs.cycle(5)] * 20
    for policy in (esan.EgoNets(1, marked=True), esan.EdgeDeletion()):
        for architecture in (esan.ds_gnn, esan.dss_gnn):
            model = architecture(None, 8, 2, 1, marked=policy.marked)
            bag = esan.Bag.of(graphs, policy, 2)
            model(bag).sum().backward()
            with torch.no_grad():
                model.eval()(bag[:4])
