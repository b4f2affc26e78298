"""Rows that stand for no pair, where all pairs are alike: norms divide by next to nothing, and nothing blows up."""

import torch

import esan
import strategies
from esan.bags.padded.bag import PaddedBag
from esan.bags.padded.padder import Padder
from esan.nn import SubgraphGNN
from esan.nn.execution.stack_parameters import stack
from esan.testing.compare import check_close

GRAPHS = [esan.graphs.complete(5)] * 4


def network(architecture: str, conv: str, num_layers: int) -> SubgraphGNN:
    """One whose parameters are all drawn; in double precision."""
    model = strategies.ARCHITECTURES[architecture](None, 8, num_layers, 2, conv=conv).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def check_in_single_precision(architecture: str, conv: str, device: torch.device) -> None:
    """Networks on the compact bag of complete graphs, alone and stacked, against their literal bag in double."""
    models, policy = [network(architecture, conv, 3) for _ in range(2)], esan.EgoNets(1)
    literal = esan.Bag.of(GRAPHS, policy, literal=True)
    expected = torch.stack([model(literal) for model in models]).detach()
    bag = esan.Bag.of(GRAPHS, policy, 3)
    alone = [model.float().to(device) for model in models]
    ids = torch.arange(len(GRAPHS)).expand(1, len(models), -1)
    padder = Padder(bag, len(GRAPHS))
    shape = padder.counts.shape(ids[0].numpy()).grown(1.5)
    chunk = padder.lay_out(ids, shape, len(models))
    fields = {key: field.to(device) for key, field in chunk.views(chunk.ints[0].long(), chunk.floats[0]).items()}
    padded = PaddedBag.of_fields(fields, shape, bag.to(device), len(models))
    stacked = stack(alone)(padded).view(len(models), -1, 2)[:, : len(GRAPHS)]
    # Each norm multiplies rounding by some hundred, in the literal bag too.
    for given in (torch.stack([model(bag.to(device)) for model in alone]), stacked):
        check_close(given.detach().double().cpu(), expected, "predictions", tolerance=2e-2)
