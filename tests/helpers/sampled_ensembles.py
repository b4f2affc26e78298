"""What engines of an ensemble must give where each network has samples of its own: what it gives alone."""

from dataclasses import replace

import torch
from torch import Tensor

import ensemble_cases
import ensembles
import esan
from esan.testing.compare import check_close
from esan.train.engines.engine import EagerEngine, Engine
from esan.train.engines.subgraph_sampling import graphs_only_bag


def check_new_samples(t: ensemble_cases.Trial) -> None:
    """A new sample for every epoch and every prediction, and the same ones for the same seed."""
    found = []
    for _ in range(2):
        engine = t.engines([0])[0]
        ensembles.members([engine])
        results = [ensembles.epoch([engine], [t.order(0, e)], t.valid)[0] for e in range(2)]
        every = torch.arange(len(t.bag))
        results.append((engine.predict(every).cpu(), engine.predict(every).cpu()))
        assert all(bool(number.isfinite().all()) for pair in results for number in pair)
        assert not torch.equal(*results[-1])
        found.append(results)
    for mine, theirs in zip(*found, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


def graphs_only(device: torch.device | str, count: int, largest: int, width: int) -> ensemble_cases.Trial:
    """Ego-networks of a bag that counts as too large for memory, and a DSS network on GIN."""
    policy = esan.Sampled(esan.EgoNets(1, marked=True), 0.5)

    def build() -> esan.nn.SubgraphGNN:
        return ensemble_cases.network(esan.dss_gnn, width, 2, marked=True)

    t = ensemble_cases.trial_of(device, policy, ensemble_cases.paths_and_cycles(count, largest), 2, build, count // 2)
    return replace(t, bag=graphs_only_bag(t.bag.graphs, policy, 2))


def check_whole(t: ensemble_cases.Trial, tolerance: float) -> None:
    """BagSampler that hold everything give what the bag gives, batch after batch."""
    graphs, policy = t.bag.graphs, esan.EgoNets(1, marked=True)
    ours = replace(t, bag=graphs_only_bag(graphs, esan.Sampled(policy, 1.0), 2)).engines([0])
    theirs = replace(t, bag=esan.Bag.of(graphs, policy, 2)).engines([0], EagerEngine)
    ensembles.members(ours)
    ((loss, answer),), ((other, expected),) = (ensembles.epoch(e, [t.order(0, 0)], t.valid) for e in (ours, theirs))
    check_close(loss, other, "loss", tolerance=tolerance)
    check_close(answer, expected, "predictions", tolerance=20 * tolerance)


def check_together(t: ensemble_cases.Trial, parts: list[Tensor]) -> None:
    """Each network on a part of its own, to the bit as alone; one stays away for an epoch, and loses no sample."""
    seeds = list(range(len(parts)))
    ensemble, alone = t.engines(seeds), [t.engines([seed])[0] for seed in seeds]
    assert len({id(member.ensemble) for member in ensembles.members(ensemble)}) == 1
    first = [engine.weights() for engine in ensemble]
    for e, there in enumerate((seeds, seeds[:-1])):
        orders = [t.order(seed, e, parts[seed]) for seed in there]
        together = _epoch([ensemble[seed] for seed in there], orders, t.valid)
        for seed, order, answers in zip(there, orders, together, strict=True):
            (expected,) = _epoch([alone[seed]], [order], t.valid)
            assert torch.equal(answers, expected), f"predictions of network {seed}, epoch {e}"
    for seed, (mine, theirs) in enumerate(zip(ensemble, alone, strict=True)):
        ensembles.same_bits(mine.weights(), theirs.weights(), f"network {seed} in an ensemble and alone")
        assert ensembles.changed(first[seed], mine.weights())
        generators = [engine.state_dict()["generator"] for engine in (mine, theirs)]
        assert torch.equal(*generators), f"network {seed} has drawn other numbers than alone"
    # A state that is loaded starts again, whatever was predicted before.
    state, expected = ensemble[0].state_dict(), ensemble[0].predict(t.valid)
    ensemble[0].load_state_dict(state)
    assert torch.equal(ensemble[0].predict(t.valid), expected)


def _epoch(engines: list[Engine], orders: list[Tensor], valid: Tensor) -> list[Tensor]:
    """An epoch with two samples per prediction."""
    for engine, order in zip(engines, orders, strict=True):
        engine.train_epoch(order)
    for engine in engines:
        engine.flush()
    samples = [torch.stack([engine.predict(valid), engine.predict(valid)]) for engine in engines]
    return [both.cpu() for both in samples]
