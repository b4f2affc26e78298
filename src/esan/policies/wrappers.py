"""Policies that wrap another: augmented (plus the graph itself) and sampled (a random part of the bag)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from esan.checks import random_source, real_number, shown
from esan.graphs import Graphs
from esan.ops import ragged
from esan.policies.policy import Policy
from esan.policies.selection import Selection


@dataclass(frozen=True)
class Augmented(Policy):
    r""":math:`\hat\pi`: the bag of a policy plus the graph itself as the last subgraph, with no node marked.

    Gives DS-GNN at least the power of its base encoder.
    """

    policy: Policy

    def __post_init__(self) -> None:
        _check_policy(self.policy)

    @property
    def marked(self) -> bool:  # type: ignore[override]
        return self.policy.marked

    @property
    def random(self) -> bool:  # type: ignore[override]
        return self.policy.random

    def select(self, graphs: Graphs) -> Selection:
        return self.drawn(graphs)

    def _num_subgraphs(self, graphs: Graphs) -> Tensor | None:
        inner = self.policy.known_subgraphs(graphs)
        return None if inner is None else inner + 1

    def drawn(self, graphs: Graphs, generator: torch.Generator | None = None) -> Selection:
        inner = self.policy.drawn(graphs, generator)
        subgraphs = inner.num_subgraphs + 1
        shift = torch.arange(len(graphs), device=graphs.device)[inner.subgraph_graph]
        subgraph = inner.entry_subgraph + shift[inner.entry_subgraph]
        edge = inner.entry_edge
        if not inner.keeps_edges:
            everything = torch.arange(graphs.edges.size(1), device=graphs.device)
            last = ragged.starts(subgraphs) + inner.num_subgraphs
            subgraph = torch.cat([subgraph, last[graphs.edge_graph]])
            edge = torch.cat([edge, everything])
        marks = (inner.mark_subgraph + shift[inner.mark_subgraph], inner.mark_node) if inner.marked else None
        make = Selection.deleting if inner.keeps_edges else Selection.keeping
        return make(graphs, subgraphs, subgraph, edge, marks)


@dataclass(frozen=True)
class Sampled(Policy):
    r"""A uniform random part of a policy's bag: ceil(fraction · m) subgraphs of each graph, without replacement.

    `esan.Loader` draws a new sample for every batch, so in every epoch.

    Args:
        policy: the policy sampled from.
        fraction: in (0, 1]; the paper uses 0.05, 0.2 and 0.5.
    """

    policy: Policy
    fraction: float

    random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_policy(self.policy)
        remedy = "0.2 keeps a fifth of each bag."
        if not 0 < real_number("fraction", self.fraction, remedy) <= 1:
            raise ValueError(f"Expected a fraction in (0, 1] (got {self.fraction}). {remedy}")

    @property
    def marked(self) -> bool:  # type: ignore[override]
        return self.policy.marked

    def select(self, graphs: Graphs) -> Selection:
        return self.drawn(graphs)

    def _num_subgraphs(self, graphs: Graphs) -> Tensor | None:
        full = self.policy.known_subgraphs(graphs)
        return None if full is None else self._sample_sizes(full)

    def drawn(self, graphs: Graphs, generator: torch.Generator | None = None) -> Selection:
        return self.policy.some(graphs, lambda num_subgraphs: self.sample(num_subgraphs, generator), generator)

    def sample(self, num_subgraphs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Whether each subgraph is in a random sample; random numbers are drawn on the device of the generator."""
        return self.sample_by(Sampled.numbers(int(num_subgraphs.sum()), generator), num_subgraphs)

    @staticmethod
    def numbers(count: int, generator: torch.Generator | None = None) -> Tensor:
        """One random number per subgraph."""
        generator = random_source(generator)
        device = generator.device if generator is not None else torch.device("cpu")
        return torch.rand(count, generator=generator, device=device, dtype=torch.float64)

    def sample_by(self, numbers: Tensor, num_subgraphs: Tensor) -> Tensor:
        """The sample that these numbers, one per subgraph, decide: the smallest of each graph."""
        graph = ragged.segment_index(num_subgraphs)
        # Sorted by graph, then by number: the sample of one graph does not depend on the others.
        order = numbers.to(graph.device).argsort(stable=True)
        order = order[graph[order].argsort(stable=True)]
        rank = torch.arange(graph.numel(), device=graph.device) - ragged.starts(num_subgraphs)[graph]
        wanted = self._sample_sizes(num_subgraphs)
        mask = torch.empty_like(graph, dtype=torch.bool)
        mask[order] = rank < wanted[graph]
        return mask

    def _sample_sizes(self, num_subgraphs: Tensor) -> Tensor:
        """How many of so many subgraphs are drawn."""
        # Minus a little: in floating point 0.7 * 10 is more than 7, and would give 8 of 10.
        return torch.ceil(self.fraction * num_subgraphs.double() - 1e-9).long().clamp(min=1)


def _check_policy(policy: Any) -> None:
    if not isinstance(policy, Policy):
        remedy = "an object, e.g. esan.EdgeDeletion()"
        if isinstance(policy, str):
            remedy = f'esan.policy_named("{policy[:80]}")'
        raise TypeError(f"Expected a policy (got {shown(policy)}). Pass {remedy}.")
