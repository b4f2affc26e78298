"""Policies that keep the whole graph: node marking (NM) and the identity."""

from dataclasses import dataclass

import torch
from torch import Tensor

from esan.graphs import Graphs
from esan.policies.policy import Policy
from esan.policies.selection import Selection


@dataclass(frozen=True)
class NodeMarking(Policy):
    """NM: one subgraph per node: the graph itself, with that node marked."""

    @property
    def marked(self) -> bool:  # type: ignore[override]
        return True

    def _num_subgraphs(self, graphs: Graphs) -> Tensor:
        return graphs.num_nodes

    def select(self, graphs: Graphs) -> Selection:
        nodes = torch.arange(graphs.node_graph.numel(), device=graphs.device)
        nothing = nodes[:0]
        return Selection.deleting(graphs, graphs.num_nodes, nothing, nothing, marks=(nodes, nodes))


@dataclass(frozen=True)
class Whole(Policy):
    """Identity: the bag {G}, which makes DS-GNN and DSS-GNN the plain base network."""

    def select(self, graphs: Graphs) -> Selection:
        nothing = graphs.num_nodes.new_empty(0)
        return Selection.deleting(graphs, torch.ones_like(graphs.num_nodes), nothing, nothing)
