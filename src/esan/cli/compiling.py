"""`esan compile`: what is compiled for a CPU, compiled now, so that nobody waits for it later."""

import torch
from rich.progress import track

import esan
from esan.cli.plainly import console, plainly
from esan.counted import counted
from esan.ops.numba.compiling import compile_all, loops


@plainly
def run() -> None:
    """Compile the loops for this processor; otherwise each is compiled, and kept, when it is first used."""
    some = loops()
    for _ in track(compile_all(some), "Loops", len(some), console=console):
        pass
    _take_steps()
    console.print(f"Compiled and kept: {counted(len(some), 'loop')}.")


def _take_steps() -> None:
    """Train, and predict for some graphs: what finds rows and colours is compiled for what it is given."""
    graphs = [esan.graphs.cycle(5)] * 20
    for policy in (esan.EgoNets(1, marked=True), esan.EdgeDeletion()):
        for architecture in (esan.ds_gnn, esan.dss_gnn):
            model = architecture(None, 8, 2, 1, marked=policy.marked)
            bag = esan.Bag.of(graphs, policy, 2)
            model(bag).sum().backward()
            with torch.no_grad():
                model.eval()(bag[:4])
