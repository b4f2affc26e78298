"""Bags of many graphs found on one device and kept on another: never much of them at a time where memory is dear."""

import torch

from esan.bags.bag import Bag
from esan.bags.build import compact
from esan.bags.build.chunks import chunks, graph_numbers, joined_selections
from esan.graphs import Graphs
from esan.policies import Policy, Selection


def bag_built_on(device: torch.device | str, graphs: Graphs, policy: Policy, num_layers: int) -> Bag:
    """The compact bag where the graphs are, as `Bag.of` gives it, but found on a device, some graphs at a time.

    Args:
        device: where it is found.
        graphs: the graphs; they stay where they are.
        policy: how subgraphs are selected; one that is random draws for all graphs at once.
        num_layers: the layers that the bag must be exact for.
    """
    place = torch.device(device)
    if policy.random:
        return Bag.of(graphs.to(place), policy, num_layers).to(graphs.device)
    selection = _selected(place, graphs, policy)
    return Bag(graphs, selection, compact.compact_rows(graphs, selection, num_layers, place), num_layers, policy)


def _selected(device: torch.device, graphs: Graphs, policy: Policy) -> Selection:
    # As many subgraphs as nodes or edges are assumed; how many there are is known later.
    assumed = torch.maximum(graphs.num_nodes, graphs.num_edges)
    some = chunks(graphs.num_nodes * assumed + graphs.num_arcs, compact.MOST_PAIRS)
    taken = (graphs.take(graph_numbers(graphs, chunk)).to(device) for chunk in some)
    return joined_selections([policy.checked(part).to(graphs.device) for part in taken], graphs, some)
