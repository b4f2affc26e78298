"""A policy of your own: node deletion that also marks the deleted node. One class, one method."""

from dataclasses import dataclass

import torch

import esan
from esan.graphs import Graphs
from esan.testing import assert_policy_invariant, assert_same_execution


@dataclass(frozen=True)
class MarkedDeletion(esan.Policy):
    """One subgraph per node: the graph without that node's edges, and the node marked."""

    marked = True

    def select(self, graphs: Graphs) -> esan.Selection:
        node, edge = graphs.incidence  # every (node, edge at it), for all graphs at once
        every = torch.arange(graphs.node_graph.numel(), device=graphs.device)
        return esan.Selection.deleting(graphs, graphs.num_nodes, subgraph=node, edge=edge, marks=(every, every))


def main() -> None:
    policy = MarkedDeletion()
    graphs = [esan.graphs.csl(11, 2), esan.graphs.csl(11, 3), esan.graphs.star(4)]
    # The policy depends neither on the numbering of nodes nor on the other graphs.
    assert_policy_invariant(policy, graphs)
    # Models give the same answer and gradients on the compact and on the literal bag.
    model = esan.dss_gnn(in_channels=None, hidden_channels=16, num_layers=2, out_channels=1, marked=policy.marked)
    assert_same_execution(model.double(), graphs, policy)
    print(esan.Bag.of(graphs, policy, num_layers=2))


if __name__ == "__main__":
    main()
