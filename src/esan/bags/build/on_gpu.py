"""`bag_built_on`: select subgraphs and build their compact bag on a GPU, chunk by chunk, for the host."""

import torch
from torch import Tensor

from esan.bags.bag import Bag
from esan.bags.build import compact
from esan.bags.build.chunks import Chunk, chunks, count_before, graph_numbers
from esan.graphs import Graphs
from esan.policies import Policy, Selection


def bag_built_on(device: torch.device | str, graphs: Graphs, policy: Policy, num_layers: int) -> Bag:
    """The compact bag that `Bag.of` gives, stored where the graphs are, but built on `device` in chunks of graphs.

    Args:
        device: where it is built.
        graphs: the graphs; they stay where they are.
        policy: how subgraphs are selected; a random policy draws for all graphs at once.
        num_layers: how many layers the bag must be exact for.
    """
    device = torch.device(device)
    if policy.random:
        return Bag.of(graphs.to(device), policy, num_layers).to(graphs.device)
    selection = _select(device, graphs, policy)
    return Bag(graphs, selection, compact.compact_rows(graphs, selection, num_layers, device), num_layers, policy)


def _select(device: torch.device, graphs: Graphs, policy: Policy) -> Selection:
    # An estimate: as many subgraphs as nodes or edges. The real number is known later.
    num_subgraphs = torch.maximum(graphs.num_nodes, graphs.num_edges)
    some = chunks(graphs.num_nodes * num_subgraphs + graphs.num_directed_edges, compact.CHUNK_PAIRS)
    taken = (graphs.take(graph_numbers(graphs, chunk)).to(device) for chunk in some)
    return _concatenate_selections([policy.checked(part).to(graphs.device) for part in taken], graphs, some)


def _concatenate_selections(parts: list[Selection], graphs: Graphs, some: list[Chunk]) -> Selection:
    """The selection of all graphs, from those of consecutive chunks."""
    kinds = {(part.keeps_edges, part.marked) for part in parts}
    if len(kinds) > 1:
        raise ValueError(
            "Expected a policy that treats each graph by itself (got selections that keep edges, or mark nodes, for "
            "some graphs and not for others). Let `select` not depend on the other graphs."
        )
    num_subgraphs = torch.cat([part.num_subgraphs for part in parts])
    subgraphs, edges, nodes = (count_before(n, some) for n in (num_subgraphs, graphs.num_edges, graphs.num_nodes))

    def joined(name: str, shifts: list[int]) -> Tensor:
        return torch.cat([getattr(part, name) + shift for part, shift in zip(parts, shifts, strict=True)])

    return Selection(
        num_subgraphs=num_subgraphs,
        keeps_edges=parts[0].keeps_edges,
        entry_subgraph=joined("entry_subgraph", subgraphs),
        entry_edge=joined("entry_edge", edges),
        marked=parts[0].marked,
        mark_subgraph=joined("mark_subgraph", subgraphs),
        mark_node=joined("mark_node", nodes),
    )
