"""`convert_sync_batch_norm`: in one process a network with its norms is the network that it was made from."""

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

import esan
from esan.testing.compare import check_close
from esan.train import convert_sync_batch_norm


@pytest.fixture(scope="module", autouse=True)
def _one_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    there: Path = tmp_path_factory.mktemp("group") / "store"
    dist.init_process_group("gloo", init_method=f"file://{there}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def networks(architecture: str) -> tuple[esan.nn.SubgraphGNN, esan.nn.SubgraphGNN]:
    torch.manual_seed(0)
    make = esan.dss_gnn if architecture == "dss" else esan.ds_gnn
    plain = make(3, 8, 3, 2, marked=True).double()
    return plain, convert_sync_batch_norm(copy.deepcopy(plain))


def bags() -> esan.Bag:
    generator = torch.Generator().manual_seed(1)
    graphs = [esan.graphs.cycle(n) for n in (5, 6, 9)] + [esan.graphs.csl(11, 2)]
    for graph in graphs:
        graph.x = torch.randn(graph.num_nodes, 3, generator=generator).double()
    return esan.Bag.of(graphs, "EGO+(2)", 3)


def outputs_and_state(model: esan.nn.SubgraphGNN, batch: esan.Bag) -> tuple[Tensor, dict[str, Tensor]]:
    out = model(batch)
    out.square().sum().backward()
    gradients = {f"gradient of {name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
    return out, gradients | dict(model.state_dict())


@pytest.mark.parametrize("architecture", ["ds", "dss"])
@pytest.mark.parametrize("padded", [False, True], ids=["compact", "padded"])
def test_synced_norms_stay_on_compact_and_padded_bags(architecture: str, padded: bool) -> None:
    plain, synced = networks(architecture)
    bag = bags()
    assert synced.why_literal is None
    of_plain = esan.Loader(bag, batch_size=2, padded=False)
    for theirs, mine in zip(of_plain, esan.Loader(bag, batch_size=2, padded=padded), strict=True):
        expected, state = outputs_and_state(plain.train(), theirs)
        got, found = outputs_and_state(synced.train(), mine)
        check_close(got, expected, "outputs")
        for name, value in state.items():
            check_close(found[name], value, name)
        check_close(synced.eval()(mine), plain.eval()(theirs), "outputs after training")


def test_the_literal_bag_gives_the_same() -> None:
    plain, synced = networks("dss")
    expected, _ = outputs_and_state(plain, bags().to_literal())
    got, _ = outputs_and_state(synced, bags())
    check_close(got, expected, "predictions")


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Expected a network \(got str\)"):
        convert_sync_batch_norm("model")  # type: ignore[type-var]


def test_without_a_process_group_each_process_normalises_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "is_initialized", lambda: False)
    plain, synced = networks("dss")
    check_close(synced(bags()), plain(bags()), "outputs")
