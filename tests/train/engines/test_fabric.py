"""One training over two processes is the training of one process."""

import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import esan
from esan.nn import BatchNorm, SubgraphGNN
from esan.policies import Policy
from esan.train.engines.engine import EagerEngine, Engine
from esan.train.engines.objective import Objective
from esan.train.engines.sync_batch_norm import SyncBatchNorm, convert_sync_batch_norm

pytestmark = pytest.mark.skipif(
    find_spec("lightning") is None, reason="needs the extra fabric: pip install 'esan[fabric]'"
)

CASES: dict[str, tuple[Policy, Callable[..., SubgraphGNN]]] = {
    "dss": (esan.EgoNets(2, marked=True), esan.dss_gnn),
    "ds, sampled": (esan.Sampled(esan.EdgeDeletion(), 0.5), esan.ds_gnn),
    "ds, every pair": (esan.NodeDeletion(), partial(esan.ds_gnn, readout="max")),
}
#: Batches of 4, 4 and 1: the last has fewer graphs than there are processes.
ORDER, BATCH = [3, 1, 4, 0, 5, 8, 2, 6, 7], 4


def parts(case: str, **options: Any) -> dict[str, Any]:
    """What an engine is made of, the same in every process."""
    policy, make = CASES[case]
    torch.manual_seed(7)
    graphs = [esan.graphs.cycle(n) for n in (5, 6, 7, 8)] + [esan.graphs.csl(n, 2) for n in (7, 8, 9, 11, 13)]
    for i, graph in enumerate(graphs):
        graph.x, graph.y = torch.randn(graph.num_nodes, 3), torch.tensor([i % 3])
    generator = torch.Generator().manual_seed(5)
    bag = esan.Bag.of(graphs, policy, num_layers=3, generator=generator)
    model = make(3, 8, 3, 3, marked=policy.marked, **options).double()
    objective = Objective("classification")
    return {"model": model, "bag": bag, "objective": objective, "lr": 0.01, "batch_size": BATCH, "generator": generator}


def trained(engine: Engine) -> dict[str, Any]:
    """Three epochs, with another rate in the last and through a state in between; then predictions."""
    order, losses = torch.tensor(ORDER), []
    for epoch in range(3):
        if epoch == 2:
            engine.set_lr(0.001)
            engine.load_state_dict(engine.state_dict())
        losses.append(
            engine.train_epoch(order.roll(epoch), recalibration_batch_size=BATCH + 1 if epoch == 1 else 0).double()
        )
    predictions = engine.predict(torch.arange(len(ORDER)))
    return {"losses": torch.stack(losses), "predictions": predictions, "state": dict(engine.state_dict()["model"])}


def dropped(engine: Engine, model: SubgraphGNN) -> Tensor:
    """What a network gives while it is trained, on a batch of the same graph for each of two processes."""
    given: list[Tensor] = []
    model.register_forward_hook(lambda model, batch, out: given.append(out.detach()))
    engine.train_epoch(torch.tensor([2, 2]))
    return given[0]


def in_each_process(fabric: Any, folder: str) -> None:
    from esan.train.engines.fabric_engine import FabricEngine

    torch.set_num_threads(1)
    # Who needs every pair was asked for: nothing is to be said.
    warnings.filterwarnings("error", message="The literal bag")
    for dropout in (0.0, 0.5):
        made = parts("dss", dropout=dropout)
        given = dropped(FabricEngine(fabric, **made), made["model"])
        torch.save({"given": given}, Path(folder) / f"dropout {dropout}-True-{fabric.global_rank}.pt")
    for case, sync in [*((case, True) for case in CASES), ("dss", False)]:
        found = trained(FabricEngine(fabric, **parts(case), sync_norms=sync))
        torch.save(found, Path(folder) / f"{case}-{sync}-{fabric.global_rank}.pt")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bool, int], dict[str, Any]]:
    from lightning.fabric import Fabric

    folder = tmp_path_factory.mktemp("fabric")
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp_spawn")
    fabric.launch(in_each_process, str(folder))  # type: ignore[arg-type]
    return lambda case, sync, rank: torch.load(folder / f"{case}-{sync}-{rank}.pt", weights_only=True)


def assert_close(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    # A bias before a norm has no gradient but rounding, which Adam makes a step of up to 1e-9.
    torch.testing.assert_close(found["state"], wanted["state"], rtol=1e-9, atol=1e-8)
    torch.testing.assert_close(found["predictions"], wanted["predictions"], rtol=1e-9, atol=1e-8)
    # The engine of one process adds up in single precision.
    torch.testing.assert_close(found["losses"], wanted["losses"], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_train_as_one_does(case: str, two: Callable[[str, bool, int], dict[str, Any]]) -> None:
    one = trained(EagerEngine(**parts(case)))
    for rank in (0, 1):
        assert_close(two(case, True, rank), one)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_each_process_drops_others(dropout: float, two: Callable[[str, bool, int], dict[str, Any]]) -> None:
    mine, other = (two(f"dropout {dropout}", True, rank)["given"] for rank in (0, 1))
    assert mine.shape == other.shape
    assert torch.allclose(mine, other) == (dropout == 0)


def test_without_synced_norms_each_process_normalises_its_part(two: Callable[[str, bool, int], dict[str, Any]]) -> None:
    """The control: the test above would notice norms that are not convert_sync_batch_norm."""
    one, apart = trained(EagerEngine(**parts("dss"))), two("dss", False, 0)
    with pytest.raises(AssertionError):
        assert_close(apart, one)
    weights = {name: value for name, value in apart["state"].items() if "running" not in name}
    other = {name: two("dss", False, 1)["state"][name] for name in weights}
    torch.testing.assert_close(weights, other, rtol=0, atol=0)


def test_synced_norms_take_over_the_tensors_of_the_norms_in_whose_place_they_stand() -> None:
    model = esan.dss_gnn(3, 8, 2, 1)
    before, parameters = model.state_dict(), list(model.parameters())
    norms = [module for module in model.modules() if isinstance(module, BatchNorm)]
    assert convert_sync_batch_norm(model) is model
    assert len(norms) == sum(isinstance(module, BatchNorm) for module in model.modules()) > 0
    assert all(type(m) is SyncBatchNorm for m in model.modules() if isinstance(m, BatchNorm))
    assert [id(p) for p in model.parameters()] == [id(p) for p in parameters]
    after = model.state_dict()
    assert list(after) == list(before)
    assert all(same(after[name], before[name]) for name in before)


def same(a: Tensor, b: Tensor) -> bool:
    return a.data_ptr() == b.data_ptr()
