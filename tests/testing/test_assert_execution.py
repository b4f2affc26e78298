"""`assert_same_execution` accepts what is exact on compact bags and rejects what is not."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import esan
import strategies
from esan.bags import Edges
from esan.testing import assert_same_execution


class UnweightedNorm(esan.nn.BatchNorm):
    """Takes a row for a pair: right on literal bags, wrong on compact ones."""

    def forward(self, x: Tensor, multiplicity: Tensor | None = None, relu: bool = False) -> Tensor:
        return super().forward(x, relu=relu)


class ShortSightedGCN(esan.nn.GCNConv):
    """Reads the degrees of its neighbours and denies it: its levels are off by one."""

    lookahead = 0


class TwoHops(esan.nn.Conv):
    """Passes messages twice in one layer, and so sees a change one layer early."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first = esan.nn.GraphConv(in_channels, out_channels)
        self.second = esan.nn.GraphConv(out_channels, out_channels)

    def forward(self, x: Tensor, edges: Edges, edge_attr: Tensor | None, weight: Tensor | None) -> Tensor:
        return self.second(self.first(x, edges, edge_attr, weight), edges, edge_attr, weight)


def _with_norms(network: nn.Module, norm: type[nn.Module]) -> nn.Module:
    for module in network.modules():
        for name, child in list(module.named_children()):
            if isinstance(child, esan.nn.BatchNorm):
                setattr(module, name, norm(child.num_features).double())
    return network


LINE = strategies.from_edges(9, [(i, i + 1) for i in range(8)], 3)


@pytest.mark.parametrize("policy", [esan.NodeDeletion(), esan.EgoNets(1, marked=True)], ids=repr)
@pytest.mark.each_value
@pytest.mark.parametrize("encoder", ["gin", "gcn"])
def test_accepts_the_models_of_the_paper(encoder: str, policy: esan.Policy) -> None:
    assert_same_execution(strategies.model("dss", encoder, policy), [*strategies.odd_graphs(), LINE], policy)


def test_accepts_single_precision() -> None:
    policy = esan.EgoNets(2, marked=True)
    assert_same_execution(strategies.model("dss", "gine", policy).float(), [*strategies.odd_graphs(), LINE], policy)


def test_accepts_a_sampled_policy() -> None:
    policy = esan.Sampled(esan.EdgeDeletion(), 0.5)
    assert_same_execution(strategies.model("dss", "gin", policy), [LINE], policy)


@pytest.mark.parametrize("policy", [esan.NodeDeletion(), esan.EgoNets(1)], ids=repr)
def test_rejects_a_norm_without_weights(policy: esan.Policy) -> None:
    network = _with_norms(strategies.model("ds", "gin", policy), UnweightedNorm)
    with pytest.raises(AssertionError, match="while training"):
        assert_same_execution(network, [LINE], policy)


@pytest.mark.parametrize("conv", [ShortSightedGCN, TwoHops])
@pytest.mark.parametrize("policy", [esan.NodeDeletion(), esan.NodeMarking()], ids=repr)
def test_rejects_a_level_off_by_one(conv: Callable[[int, int], nn.Module], policy: esan.Policy) -> None:
    network = strategies.model("ds", "gin", policy, conv=conv, num_layers=2)
    if conv is ShortSightedGCN and isinstance(policy, esan.NodeMarking):
        # Marks change no degree, so that here the conv is exact: the checker must not cry wolf.
        assert_same_execution(network, [LINE], policy, one_by_one=False)
        return
    with pytest.raises(AssertionError, match="Expected predictions of both bags while training"):
        assert_same_execution(network, [LINE], policy)


def test_rejects_a_refusal_of_one_bag_only() -> None:
    class Grudging(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1, dtype=torch.float64))

        def forward(self, bag: esan.Bag) -> Tensor:
            if bag.literal:
                raise ValueError("not this one")
            return self.scale.expand(len(bag))

    with pytest.raises(AssertionError, match="Expected the compact bag to be refused"):
        assert_same_execution(Grudging(), [LINE], esan.Whole(), num_layers=1)


def test_rejects_buffers_that_count_rows() -> None:
    class Counting(esan.nn.BatchNorm):
        def forward(self, x: Tensor, multiplicity: Tensor | None = None, relu: bool = False) -> Tensor:
            if self.running_mean is not None:
                self.running_mean += x.size(0)
            return x * self.weight

    network = _with_norms(strategies.model("ds", "gin", esan.NodeDeletion()), Counting)
    with pytest.raises(AssertionError, match="Expected buffers of both bags"):
        assert_same_execution(network, [LINE], esan.NodeDeletion())


def test_needs_the_number_of_layers_of_a_foreign_model() -> None:
    with pytest.raises(ValueError, match=r"Expected num_layers .*got None.*Pass num_layers=4"):
        assert_same_execution(nn.Linear(1, 1), [LINE], esan.Whole())


def test_leaves_the_model_as_it_was() -> None:
    network = strategies.model("dss", "gin", esan.NodeDeletion())
    before = {name: value.clone() for name, value in network.state_dict().items()}
    assert_same_execution(network, [LINE], esan.NodeDeletion())
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert network.training


@pytest.mark.parametrize("biased", [False, True])
def test_gradients_that_part_may_be_those_of_a_corner(biased: bool) -> None:
    """Biases of 0 are named as what may be wrong with the check; others are not."""

    class Kinder(nn.Module):
        """Has other gradients on compact bags."""

        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.full((1,), float(biased), dtype=torch.float64))

        def forward(self, bag: esan.Bag) -> Tensor:
            return (self.bias if bag.literal else 2 * self.bias - self.bias.detach()).repeat(len(bag))

    with pytest.raises(AssertionError, match="gradients of both bags, bias, while training") as refused:
        assert_same_execution(Kinder(), [LINE], esan.Whole(), num_layers=1)
    assert ("give them random values" in str(refused.value)) is not biased
