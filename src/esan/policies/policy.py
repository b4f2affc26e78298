"""`Policy`: the rule that turns a graph into a bag of subgraphs; the one class a user writes to add a rule."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from esan.graphs import Graphs, read
from esan.policies.selected import SelectedData, graphs_of
from esan.policies.selection import Selection

#: How many subgraphs each graph has → which of them are kept, a truth value a subgraph.
Keep = Callable[[Tensor], Tensor]


class Policy(ABC):
    r"""A subgraph selection policy :math:`\pi: G \mapsto S_G^\pi`, for a whole collection of graphs at once.

    Write `select` and nothing else; what it selects of a graph must not depend on the numbering of the nodes, nor on
    the other graphs: a large collection is selected from some graphs at a time. A policy is also a PyG transform:
    `policy(data)` is the same `data` with its selection attached, for an ordinary PyG `DataLoader`.
    """

    #: Whether the policy gives nodes the two identifying features; a model for it needs `marked=policy.marked`.
    marked: bool = False
    #: Whether `select` draws at random, so that each epoch wants a bag of its own.
    random: ClassVar[bool] = False

    @abstractmethod
    def select(self, graphs: Graphs) -> Selection:
        """What each subgraph of each graph changes."""

    def drawn(self, graphs: Graphs, generator: torch.Generator | None = None) -> Selection:  # noqa: ARG002
        """The same, with what is random in it drawn from `generator`: write this one too if there is anything."""
        return self.select(graphs)

    def some(self, graphs: Graphs, keep: Keep, generator: torch.Generator | None = None) -> Selection:
        """Some of the subgraphs, renumbered; a policy that can find these alone may write this one too.

        Args:
            graphs: what is selected from.
            keep: given how many subgraphs each graph has, a truth value a subgraph; at least one of each graph.
            generator: of what is random in the policy itself.
        """
        selection = self.drawn(graphs, generator)
        return selection.only(keep(selection.num_subgraphs))

    def checked(self, graphs: Graphs, generator: torch.Generator | None = None) -> Selection:
        """The same, or an error that says what is wrong with a policy of one's own."""
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
