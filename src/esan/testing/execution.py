"""`assert_same_execution`: literal and compact bags give the same outputs, gradients, buffers and training step."""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from esan.bags import Bag
from esan.graphs import Source
from esan.policies import Policy
from esan.testing.compare import check_close
from esan.testing.equivariance import layers_of


def assert_same_execution(
    model: nn.Module,
    source: Source,
    policy: Policy,
    num_layers: int | None = None,
    *,
    one_by_one: bool = True,
    generator: torch.Generator | None = None,
    tolerance: float | None = None,
) -> None:
    """The model does the same on a literal and on a compact bag, in training and in evaluation.

    Compared are predictions, the gradient of every parameter, every buffer, all parameters after a step of gradient
    descent, and the predictions after it; on the whole batch and on each graph alone. Where a model refuses the literal
    bag with a `ValueError` (batch norm over one value), it must refuse the compact one too. The model is left as it
    was.

    Args:
        model: takes a bag.
        source: the graphs.
        policy: makes both bags; both get the same sample of a random policy.
        num_layers: of the compact bag; None for what the model needs.
        one_by_one: whether each graph is also tried alone.
        generator: draws the weights of the loss.
        tolerance: None for that of the dtype of the parameters.

    Raises:
        AssertionError: says what differs, in which mode, and by how much.
    """
    compact = Bag.of(source, policy, layers_of(model, num_layers), literal=False, generator=generator)
    literal = compact.to_literal()
    copied = _Copy(model)
    for training in (True, False):
        mode = "training" if training else "evaluation"
        batched = _compared(copied, literal, compact, training, f"while {mode}", generator, tolerance)
        if not one_by_one:
            continue
        alone = [
            _compared(copied, literal[i], compact[i], training, f"while {mode}, graph {i} alone", generator, tolerance)
            for i in range(len(literal))
        ]
        if not training and batched is not None:
            together = torch.cat([a.output for a in alone if a is not None])
            check_close(together, batched.output, "predictions one by one and batched", tolerance=tolerance)


@dataclass(frozen=True, eq=False)
class _StepResults:
    """What a model did on a bag: its state is that after one step of gradient descent."""

    output: Tensor
    gradients: dict[str, Tensor]
    buffers: dict[str, Tensor]
    state: dict[str, Tensor]
    after: Tensor


class _Copy:
    """A copy of a model that begins every run as the model stands."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self._copy = model, copy.deepcopy(model)

    def fresh(self, training: bool) -> nn.Module:
        """The copy with the parameters and buffers of the model, and without gradients."""
        with torch.no_grad():
            for mine, theirs in zip(_tensors(self._copy), _tensors(self.model), strict=True):
                mine.copy_(theirs)
        self._copy.zero_grad()
        return self._copy.train(training)


def _tensors(model: nn.Module) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()]


def _compared(
    model: _Copy,
    literal: Bag,
    compact: Bag,
    training: bool,
    when: str,
    generator: torch.Generator | None,
    tolerance: float | None,
) -> _StepResults | None:
    seed = int(torch.randint(2**31, (), generator=generator))
    try:
        expected = _run(model, literal, training, seed)
    except ValueError as refusal:
        try:
            _run(model, compact, training, seed)
        except ValueError:
            return None
        raise AssertionError(f"Expected the compact bag to be refused {when}, as the literal one: {refusal}") from None
    got = _run(model, compact, training, seed)
    check_close(got.output, expected.output, f"predictions of both bags {when}", tolerance=tolerance)
    for what in ("gradients", "buffers", "state"):
        theirs, mine = getattr(expected, what), getattr(got, what)
        if theirs.keys() != mine.keys():
            odd = sorted(theirs.keys() ^ mine.keys())
            raise AssertionError(f"Expected {what} of the same names on both bags {when} (got {odd} on one only).")
        # Gradients that vanish are sums of large terms which cancel: measured against the largest of all.
        scale = max([1.0, *(float(t.abs().max()) for t in theirs.values() if t.is_floating_point() and t.numel())])
        corners = _corners(model.model, what)
        for name in theirs:
            where = f"{what} of both bags, {name}, {when}{corners}"
            check_close(mine[name], theirs[name], where, scale=scale, tolerance=tolerance)
    check_close(got.after, expected.after, f"predictions of both bags after a step {when}", tolerance=tolerance)
    return expected


def _corners(model: nn.Module, what: str) -> str:
    """A note for errors that the check itself may cause: the slope of a ReLU at 0 depends on rounding."""
    biases = [p for name, p in model.named_parameters() if name.endswith("bias")]
    if what == "buffers" or not any(p.numel() and not p.detach().any() for p in biases):
        return ""
    return " (biases are 0: where features are alike, rounding decides the slope of a ReLU; give them random values)"


def _run(model: _Copy, bag: Bag, training: bool, seed: int) -> _StepResults:
    mine = model.fresh(training)
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # what the model draws, such as a dropout shared by subgraphs, is the same on both bags
        output = mine(bag)
    noise = torch.randn(output.shape, generator=torch.Generator().manual_seed(seed), dtype=output.dtype)
    (output * noise.to(output.device)).sum().backward()
    gradients = {name: p.grad.clone() for name, p in mine.named_parameters() if p.grad is not None}
    buffers = {name: b.clone() for name, b in mine.named_buffers()}
    # A step of bounded length: after a large one, rounding would decide.
    size = max([1.0, *(float(g.abs().max()) for g in gradients.values())])
    torch.optim.SGD(mine.parameters(), lr=0.1 / size).step()
    state = {name: value.clone() for name, value in mine.state_dict().items()}
    with torch.no_grad():
        after = mine.eval()(bag)
    return _StepResults(output.detach(), gradients, buffers, state, after)
