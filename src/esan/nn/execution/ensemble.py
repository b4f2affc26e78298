"""`Ensemble`: independent networks of one architecture, computed together in one pass; predictions are not averaged."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch_geometric.data import Data

from esan.bags import Bag
from esan.nn.execution.stack_parameters import can_stack, kind_of, stack, unstacked, why_not_stacked
from esan.nn.models.subgraph_gnn import SubgraphGNN
from esan.ops.dispatch import computes_several_networks, never_compiled


class Ensemble(nn.Module):
    r"""Networks that differ in their weights alone, computed together: predictions `[members, graphs, outputs]`.

    Every parameter and buffer has a leading dimension, one entry per member, so that one optimiser trains all of them.
    Members do not see one another: a loss that is the *sum* over members of their own losses gives each the gradient
    that it would have alone (a mean over members scales it by 1 / members).

    ```python
    models = esan.Ensemble([make(seed) for seed in range(10)]).to("cuda")
    loader = esan.Loader(bag, batch_size=128, shuffle=True, device="cuda", members=10)
    loss = (models(bag).squeeze(-1) - bag.y).abs().mean(-1).sum()
    ```

    On a GPU all members run in the same kernels, on batches of a loader with as many `members`; elsewhere one after
    another, on any bag.

    Args:
        models: the networks, built alike; they are copied.
    """

    def __init__(self, models: Sequence[SubgraphGNN]) -> None:
        super().__init__()
        if isinstance(models, nn.Module):
            raise TypeError(f"Expected a list of networks (got one {type(models).__name__}). Pass one per member.")
        models = list(models)
        if not models or not all(isinstance(model, SubgraphGNN) for model in models):
            raise TypeError(
                f"Expected networks of esan (got {[type(model).__name__ for model in models]}). "
                "Pass e.g. [esan.dss_gnn(...) for seed in range(10)]."
            )
        if why := next((why for model in models if (why := why_not_stacked(model))), None):
            raise ValueError(
                f"Expected networks that differ in their parameters alone (got {why}). Remove it, or train them one by "
                "one."
            )
        kinds = {kind_of(model) for model in models}
        if len(kinds) > 1:
            raise ValueError(
                f"Expected networks that are built alike (got {len(kinds)} kinds). Build all with the same arguments, "
                "in the same mode and precision, and freeze the same parameters."
            )
        self.members = len(models)
        self.network = stack(models)
        self.training = self.network.training
        self._together = can_stack(models[0])

    @never_compiled
    def forward(self, bag: Bag | Data) -> Tensor:
        """Predictions of every member for every graph, `[members, graphs, outputs]`, from what each of them takes."""
        networks = bag.networks if isinstance(bag, Bag) else 1
        if isinstance(bag, Bag) and not bag.plain and networks == self.members and self._stacks(bag):
            found = self.network(bag)
            return found if networks > 1 else found[None]
        if networks != 1:
            if networks == self.members:
                raise ValueError(
                    "Expected a GPU, and networks that can be computed together, for batches for several members (got "
                    f"batches for {networks}). Pass Loader(..., members=1): each member then takes all of them."
                )
            raise ValueError(
                f"Expected batches for {self.members} members (got batches for {networks}). Pass Loader(..., "
                f"members={self.members if self._together else 1})."
            )
        return torch.stack([self._alone(member, bag) for member in range(self.members)])

    def _stacks(self, bag: Bag) -> bool:
        """Whether all members run in the same kernels."""
        return self._together and computes_several_networks(next(self.parameters()), bag.graphs.edge_index)

    def _alone(self, member: int, bag: Bag | Data) -> Tensor:
        state = {name: tensor[member] for name, tensor in self._state().items()}
        return functional_call(self.network, state, (bag,))

    def _state(self) -> dict[str, Tensor]:
        return {**dict(self.network.named_parameters()), **dict(self.network.named_buffers())}

    def member(self, number: int) -> dict[str, Tensor]:
        """The state_dict of one member, for a network built like it; views, not copies."""
        if not 0 <= number < self.members:
            raise IndexError(f"Expected a member from 0 to {self.members - 1} (got {number}). Members count from 0.")
        return unstacked(self.network, number)

    def extra_repr(self) -> str:
        return f"members={self.members}"
