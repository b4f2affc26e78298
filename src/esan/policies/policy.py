"""`Policy`: the rule that selects the subgraphs of a graph; subclass it to add a policy."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from esan.graphs import Graphs, read
from esan.policies.pyg_data import SelectedData, graphs_of
from esan.policies.selection import Selection

#: The number of subgraphs of each graph → which of them are kept, one truth value per subgraph.
Keep = Callable[[Tensor], Tensor]


class Policy(ABC):
    r"""A subgraph selection policy :math:`\pi: G \mapsto S_G^\pi`, for a whole collection of graphs at once.

    A subclass implements `select` only. What it selects of a graph must not depend on the numbering of the nodes or on
    the other graphs: a large collection is processed in chunks of graphs. A policy is also a PyG transform:
    `policy(data)` is the same `data` with its selection attached, for an ordinary PyG `DataLoader`.
    """

    #: Whether the policy marks nodes with two identifying features; a model for it needs `marked=policy.marked`.
    marked: bool = False
    #: Whether `select` is random, so that each epoch needs a new bag.
    random: ClassVar[bool] = False

    @abstractmethod
    def select(self, graphs: Graphs) -> Selection:
        """What each subgraph of each graph changes."""

    def drawn(self, graphs: Graphs, generator: torch.Generator | None = None) -> Selection:
        """`select`, drawing random numbers from `generator`; a random policy implements this too."""
        if generator is not None and self.random:
            raise ValueError(
                f"Expected a random policy that can draw from a generator (got {self!r}, which has select alone). "
                "Define drawn(self, graphs, generator=None) in it, or leave generator out."
            )
        return self.select(graphs)

    def _num_subgraphs(self, graphs: Graphs) -> Tensor | None:  # noqa: ARG002
        """How many subgraphs `select` gives each graph, `[G]`; None if only the selection says."""
        return None

    def some(self, graphs: Graphs, keep: Keep, generator: torch.Generator | None = None) -> Selection:
        """Some of the subgraphs, renumbered; a policy that can find these alone may implement this too.

        Args:
            graphs: what is selected from.
            keep: from the number of subgraphs of each graph, one truth value per subgraph; at least one of each graph.
            generator: for the random numbers of the policy itself.
        """
        selection = self.drawn(graphs, generator)
        return selection.only(keep(selection.num_subgraphs))

    def known_subgraphs(self, graphs: Graphs) -> Tensor | None:
        """`_num_subgraphs`; None for a subclass that selects others and does not say how many."""
        for kind in type(self).__mro__:
            if "_num_subgraphs" in vars(kind):
                return self._num_subgraphs(graphs)
            if "select" in vars(kind):
                return None
        return None

    def checked(self, graphs: Graphs, generator: torch.Generator | None = None) -> Selection:
        """`drawn`, with an error that says what is wrong with a user's policy."""
        selection = self.drawn(graphs, generator)
        if not isinstance(selection, Selection):
            raise TypeError(
                f"Expected select of {self!r} to give a Selection (got {type(selection).__name__}). "
                "Return Selection.deleting(...) or Selection.keeping(...)."
            )
        if selection.marked and not self.marked:
            raise ValueError(f"Expected marked = True on {self!r}, which marks nodes (got False). Set it in its class.")
        return selection

    def __call__(self, data: Data) -> SelectedData | Batch:
        if not isinstance(data, Data):
            raise TypeError(
                f"Expected PyG data (got {type(data).__name__}). Bag.of(graphs, policy) takes networkx and lists."
            )
        if isinstance(data, Batch):
            return Batch.from_data_list([self(graph) for graph in graphs_of(data)])
        graphs = read(data)
        return SelectedData.of(data, graphs, self.checked(graphs), repr(self))

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({arguments})"
