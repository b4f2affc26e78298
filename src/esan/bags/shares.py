"""`Shares`: the parts that subgraphs and nodes have in means over a bag, computed once for all of its stages."""

from torch import Tensor

from esan.graphs import Graphs
from esan.ops.caching import cached
from esan.policies import Selection


class Shares:
    """How many subgraphs and nodes there are to take means over, and one over that, in double precision."""

    def __init__(self, graphs: Graphs, selection: Selection) -> None:
        self._graphs, self._selection = graphs, selection

    @cached
    def subgraphs(self) -> Tensor:
        """How many subgraphs the graph of each node has."""
        return self._selection.num_subgraphs[self._graphs.node_graph]

    @cached
    def of_subgraph(self) -> Tensor:
        """The part that each of them has in the mean over the bag, of each node."""
        return self.subgraphs.double().reciprocal()

    @cached
    def of_node(self) -> Tensor:
        """The part that a node has in the mean over the nodes, of each subgraph."""
        return self._graphs.num_nodes[self._selection.subgraph_graph].double().reciprocal()
