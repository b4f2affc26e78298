"""Bags of `Sampled` policies that are not built whole: only samples are stored then, each selected anew."""

import torch

from esan.graphs import Graphs
from esan.policies import Sampled

#: Above this many (node, subgraph) pairs of all graphs together, the bag of a `Sampled` policy is not built whole; it
#: may have a row for each, of some 85 bytes (RDT-B has 10⁹).
MOST_PAIRS = 50_000_000


def pairs_of(graphs: Graphs) -> int:
    """The pairs of bags that have as many subgraphs as nodes or edges; how many there are is known later."""
    return int((graphs.num_nodes * torch.maximum(graphs.num_nodes, graphs.num_edges)).sum())


def never_whole(policy: Sampled, graphs: Graphs) -> bool:
    """Whether samples are selected anew: the bags may have too many pairs, or what is sampled is random itself."""
    return pairs_of(graphs) > MOST_PAIRS or policy.policy.random
