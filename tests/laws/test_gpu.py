"""A GPU gives the CPU's answer: bags built, taken apart and computed on there."""

import copy

import pytest
import torch

import esan
import strategies
from esan.testing.compare import check_close

pytestmark = pytest.mark.gpu
EVERY_POLICY = pytest.mark.parametrize("policy", strategies.POLICIES.values(), ids=strategies.POLICIES)


@EVERY_POLICY
@pytest.mark.parametrize("literal", [True, None])
def test_bags_built_on_the_gpu(policy: esan.Policy, literal: bool | None, gpu: torch.device) -> None:
    graphs = strategies.odd_graphs()
    here = esan.Bag.of(graphs, policy, 3, literal=literal)
    there = esan.Bag.of([g.clone().to(gpu) for g in graphs], policy, 3, literal=literal)
    for one, other in ((here, there), (here[[4, 1, 1]], there[[4, 1, 1]]), (here, here.to(gpu))):
        assert other.device.type == "cuda"
        for part in ("graphs", "selection", "rows"):
            assert getattr(one, part).fingerprint == getattr(other, part).fingerprint


@EVERY_POLICY
@pytest.mark.parametrize("encoder", strategies.LOCAL_ENCODERS)
@pytest.mark.parametrize("architecture", strategies.ARCHITECTURES)
def test_networks(architecture: str, encoder: str, policy: esan.Policy, gpu: torch.device) -> None:
    network = strategies.model(architecture, encoder, policy)
    twin = copy.deepcopy(network).to(gpu)
    bag = esan.Bag.of(strategies.odd_graphs(), policy, 4)
    here, there = network(bag), twin(bag.to(gpu))
    check_close(there.cpu(), here, "predictions on the GPU")
    here.square().sum().backward()
    there.square().sum().backward()
    for (name, mine), other in zip(network.named_parameters(), twin.parameters(), strict=True):
        assert (mine.grad is None) == (other.grad is None), name
        if mine.grad is not None and other.grad is not None:
            check_close(other.grad.cpu(), mine.grad, f"gradient of {name} on the GPU")
    for (name, buffer), theirs in zip(network.named_buffers(), twin.buffers(), strict=True):
        check_close(theirs.cpu(), buffer, f"{name} on the GPU")


def test_loader_draws_on_the_gpu(gpu: torch.device) -> None:
    bag = esan.Bag.of(strategies.odd_graphs(), esan.Sampled(esan.NodeDeletion(), 0.5), 2).to(gpu)
    loader = esan.Loader(bag, 3, shuffle=True, generator=torch.Generator(gpu).manual_seed(0))
    assert sum(len(batch) for batch in loader) == len(bag)
    assert all(batch.device.type == "cuda" for batch in loader)


def test_a_bag_left_on_the_cpu_is_refused(gpu: torch.device) -> None:
    policy = esan.NodeDeletion()
    network = strategies.model("ds", "gin", policy).to(gpu)
    with pytest.raises(ValueError, match=r"Expected a bag on cuda:0, where the model is \(got one on cpu\)"):
        network(esan.Bag.of(strategies.odd_graphs(), policy, 3))
