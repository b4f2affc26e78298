"""What an engine of an ensemble must give, on whatever device: what its network gives alone."""

from typing import Any

import torch
from torch import Tensor

import esan
from ensemble_cases import Trial
from esan.testing.compare import check_close
from esan.train.engines.engine import EagerEngine, Engine
from esan.train.engines.engine_factory import EngineFactory
from esan.train.engines.ensemble_engine import MemberEngine
from esan.train.engines.objective import Objective


def epoch(engines: list[Engine], orders: list[Tensor], valid: Tensor) -> list[tuple[Tensor, Tensor]]:
    """An epoch as the loop has it: all are asked, then all predict, then numbers are read."""
    losses = [engine.train_epoch(order) for engine, order in zip(engines, orders, strict=True)]
    for engine in engines:
        engine.flush()
    answers = [engine.predict(valid) for engine in engines]
    return [(loss.cpu(), answer.cpu()) for loss, answer in zip(losses, answers, strict=True)]


def members(engines: list[Engine]) -> list[MemberEngine]:
    """The engines, which must be those of ensembles."""
    found = [engine for engine in engines if isinstance(engine, MemberEngine)]
    assert len(found) == len(engines), "the network or the bag does not fit an ensemble"
    return found


def same_bits(mine: dict[str, Tensor], theirs: dict[str, Tensor], what: str) -> None:
    assert mine.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert torch.equal(mine[name].cpu(), tensor.cpu()), f"{name} differs by bits: {what}"


def changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> bool:
    return any(not torch.equal(after[name].cpu(), tensor.cpu()) for name, tensor in before.items())


def check_alone(t: Trial, parts: list[Tensor] | None = None, epochs: int = 2) -> None:
    """An ensemble gives to the bit what each member gives alone, on the same graphs or on `parts` of its own."""
    seeds = list(range(3 if parts is None else len(parts)))
    of = [None for _ in seeds] if parts is None else parts
    ensemble = t.engines(seeds)
    assert len({id(member.ensemble) for member in members(ensemble)}) == 1
    first = [engine.weights() for engine in ensemble]
    together = [epoch(ensemble, [t.order(s, e, of[s]) for s in seeds], t.valid) for e in range(epochs)]
    for seed in seeds:
        alone = t.engines([seed])
        assert members(alone)[0].ensemble is not members(ensemble)[0].ensemble
        for e in range(epochs):
            ((loss, answer),) = epoch(alone, [t.order(seed, e, of[seed])], t.valid)
            # The mean over a batch may be added up in another order; nothing else is made of it.
            check_close(together[e][seed][0], loss, f"loss of network {seed}, epoch {e}", tolerance=1e-6)
            assert torch.equal(together[e][seed][1], answer), f"predictions of network {seed}, epoch {e}"
        same_bits(ensemble[seed].weights(), alone[0].weights(), f"network {seed} in an ensemble and alone")
        assert changed(first[seed], alone[0].weights())
    assert changed(ensemble[0].weights(), ensemble[1].weights())


def check_eager(t: Trial, tolerance: float, epochs: int = 2) -> None:
    """An ensemble gives what batch after batch gives, but for rounding."""
    ours, theirs = t.engines([0, 1]), t.engines([0, 1], EagerEngine)
    members(ours)
    for e in range(epochs):
        orders = [t.order(s, e) for s in (0, 1)]
        for mine, other in zip(epoch(ours, orders, t.valid), epoch(theirs, orders, t.valid), strict=True):
            check_close(mine[0], other[0], f"loss of epoch {e}", tolerance=tolerance)
            check_close(mine[1], other[1], f"predictions of epoch {e}", tolerance=20 * tolerance)


def check_predictions(t: Trial) -> None:
    """Predictions are those of the network with the weights that the engine tells, for any graphs in any order."""
    ensemble = t.engines([0, 1])
    epoch(ensemble, [t.order(s, 0) for s in (0, 1)], t.valid)
    for seed, engine in enumerate(ensemble):
        torch.manual_seed(0)
        network = t.build().to(t.device)
        network.load_state_dict(engine.weights())
        network.eval()
        # Fewer than a batch, all, and not the same for both networks.
        for ids in (t.valid[:1], torch.arange(len(t.bag)), t.order(seed, 9)):
            with torch.no_grad():
                expected = network(t.bag[ids].to(t.device))
            check_close(engine.predict(ids), expected, f"predictions of network {seed}", tolerance=1e-5)


def check_capacity(t: Trial, tolerance: float) -> None:
    """Predictions that need a larger capacity than training: both continue with the new shape."""
    (ours,), (theirs,) = t.engines([0]), t.engines([0], EagerEngine)
    (member,) = members([ours])
    largest = t.bag.graphs.num_nodes.argmax().cpu()
    shapes = []
    # No batch that is drawn without putting back has the largest graph twice.
    for e, ids in enumerate((t.valid, largest.repeat(t.batch_size), t.valid)):
        ((loss, answer),), ((other, expected),) = (epoch([one], [t.order(0, e)], ids) for one in (ours, theirs))
        check_close(loss, other, f"loss of epoch {e}", tolerance=tolerance)
        check_close(answer, expected, f"predictions of epoch {e}", tolerance=20 * tolerance)
        shapes.append(member.ensemble._known_shapes.known[t.batch_size])
    assert shapes[0] != shapes[1]


def check_states(t: Trial) -> None:
    """A state that is loaded into a new engine continues as if nothing had happened, in an ensemble or out of it."""
    engine = t.engines([0])[0]
    epoch([engine], [t.order(0, 0)], t.valid)
    state = _copied(engine.state_dict())
    known = engine.weights()
    copies = {name: tensor.clone() for name, tensor in known.items()}
    expected = epoch([engine], [t.order(0, 1)], t.valid)[0]
    same_bits(known, copies, "weights are copies, which training does not change")
    new, other = t.engines([0, 1])
    new.load_state_dict(state)
    new.set_lr(t.lr(0))
    got = epoch([new, other], [t.order(0, 1), t.order(1, 1)], t.valid)[0]
    assert torch.equal(got[1], expected[1])
    same_bits(new.weights(), engine.weights(), "continued and never interrupted")
    # Back to that state, in an engine that has gone on.
    new.load_state_dict(state)
    same_bits(new.weights(), state["model"], "loaded again")
    got = epoch([new], [t.order(0, 1)], t.valid)[0]
    assert torch.equal(got[1], expected[1])
    # Batch after batch understands it too, and is understood.
    eager = t.engines([0], EagerEngine)[0]
    eager.load_state_dict(state)
    check_close(epoch([eager], [t.order(0, 1)], t.valid)[0][0], expected[0], "loss of the eager engine", tolerance=1e-4)
    again = t.engines([0])[0]
    again.load_state_dict(eager.state_dict())
    same_bits(again.weights(), eager.weights(), "from the eager engine")


def _copied(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _copied(value) for name, value in state.items()}
    return state.clone() if isinstance(state, Tensor) else state


def check_leaving(t: Trial) -> None:
    """Engines that stop asking neither change nor disturb the others, and may come back."""
    seeds = [0, 1, 2]
    ensemble = t.engines(seeds)
    epoch(ensemble, [t.order(s, 0) for s in seeds], t.valid)
    left = [ensemble[s].weights() for s in seeds]
    # One of three leaves, then a second one: the last goes on alone.
    epoch(ensemble[1:], [t.order(s, 1) for s in seeds[1:]], t.valid)
    same_bits(ensemble[0].weights(), left[0], "the network that left first")
    second = ensemble[1].weights()
    epoch(ensemble[2:], [t.order(2, 2)], t.valid)
    assert members(ensemble)[2].ensemble.members == [ensemble[2]]
    same_bits(ensemble[0].state_dict()["model"], left[0], "the network that left first, later")
    same_bits(ensemble[1].weights(), second, "the network that left second")
    for seed, last in ((1, 1), (2, 2)):
        alone = t.engines([seed])
        for e in range(last + 1):
            ((_, answer),) = epoch(alone, [t.order(seed, e)], t.valid)
        assert torch.equal(ensemble[seed].predict(t.valid).cpu(), answer.cpu())
        same_bits(ensemble[seed].weights(), alone[0].weights(), f"network {seed}, with others that left")
    # The first one comes back.
    epoch(ensemble[:1], [t.order(0, 1)], t.valid)
    alone = t.engines([0])
    for e in range(2):
        epoch(alone, [t.order(0, e)], t.valid)
    same_bits(ensemble[0].weights(), alone[0].weights(), "the network that came back")


def check_out_of_step(t: Trial) -> None:
    """An engine that is asked twice before the others loses nothing, and keeps the learning rate it was asked with."""
    ensemble, alone = t.engines([0, 1]), t.engines([0])
    for engines in (ensemble, alone):
        engines[0].train_epoch(t.order(0, 0))
        engines[0].set_lr(0.1)
        engines[0].train_epoch(t.order(0, 1))
        engines[0].flush()
    same_bits(ensemble[0].weights(), alone[0].weights(), "asked twice in a row")
    before = t.engines([0, 1])[1].weights()
    same_bits(ensemble[1].weights(), before, "never asked")


def check_recalibrated(t: Trial, tolerance: float, size: int | None = None) -> None:
    """Statistics are recalibrated for members that call for it, as by the eager engine and alone; weights stay.

    Args:
        t: the trial.
        tolerance: of statistics.
        size: of the batches of recalibration; None for that of training.
    """
    seeds, size = [0, 1], size or t.batch_size
    ensemble, alone, never, eager = t.engines(seeds), t.engines([0]), t.engines([1]), t.engines([0], EagerEngine)
    members(ensemble)
    for e in range(2):
        for engine, seed in zip([*ensemble, *alone, *never, *eager], [*seeds, 0, 1, 0], strict=True):
            engine.train_epoch(t.order(seed, e), recalibration_batch_size=size if seed == 0 else 0)
        for engine in (*ensemble, *alone, *never):
            engine.flush()
    same_bits(ensemble[0].weights(), alone[0].weights(), "recalibrated in an ensemble and alone")
    same_bits(ensemble[1].weights(), never[0].weights(), "never recalibrated, next to one that is")
    plain = t.engines([0])[0]
    for e in range(2):
        plain.train_epoch(t.order(0, e))
    mine, lagging, expected = ensemble[0].weights(), plain.weights(), eager[0].weights()
    apart = {name for name, tensor in mine.items() if not torch.equal(tensor.cpu(), lagging[name].cpu())}
    assert apart == {name for name in mine if name.endswith(("running_mean", "running_var"))}
    for name in apart:
        check_close(mine[name], expected[name], name, tolerance=tolerance)
    check_close(ensemble[0].predict(t.valid), eager[0].predict(t.valid), "predictions", tolerance=20 * tolerance)


def check_kinds(t: Trial) -> None:
    """Networks that compute something else are of another ensemble, even where their parameters look alike."""
    make = EngineFactory()

    def member(network: esan.nn.SubgraphGNN, objective: Objective = t.objective) -> MemberEngine:
        generator = torch.Generator().manual_seed(0)
        engine = make(network.to(t.device), t.bag, objective, 1e-3, t.batch_size, generator)
        return members([engine])[0]

    plain, same, other = t.build(), t.build(), t.build()
    other.readout = "mean" if plain.readout == "sum" else "sum"
    found = [member(plain), member(same), member(other), member(t.build(), Objective("labels"))]
    assert found[0].ensemble is found[1].ensemble
    assert len({id(one.ensemble) for one in found}) == 3
    # Who comes when others have been asked is of another ensemble, too.
    found[0].train_epoch(t.train)
    assert member(t.build()).ensemble is not found[0].ensemble
