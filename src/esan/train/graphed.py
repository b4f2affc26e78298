"""`GraphedEngine`: whole training steps captured as CUDA graphs over batches of one fixed shape."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from esan.bags import Bag
from esan.bags.padded import PaddedBag
from esan.bags.padding import Batches, Padder, Shape
from esan.nn import SubgraphGNN
from esan.policies import Policy, Sampled
from esan.train.objective import Objective

#: Batches laid out at a time: enough to keep the device busy, few enough to cost little memory.
_CHUNK = 16
#: Random batches that the room of a shape is found from, and what is added to it.
_TRIED, _MARGIN = 1000, 1.02


def fits(model: SubgraphGNN, bag: Bag) -> bool:
    """Whether training this network on this bag can be captured."""
    if bag.device.type != "cuda" or model.output != "graph" or not hasattr(model.encoder, "first_stage"):
        return False
    random = isinstance(bag.policy, Policy) and bag.policy.random and not isinstance(bag.policy, Sampled)
    others = any(getattr(layer, "bag_pool", None) == "others" for layer in model.encoder.layers)
    return not random and not others and not isinstance(bag.policy, str) and bag.graphs.y_level == "graph"


class _Buffers:
    """The memory that a captured graph reads: the two lines of one batch."""

    def __init__(self, batches: Batches, shape: Shape) -> None:
        self.shape, self._batches = shape, batches
        self.ints, self.floats = batches.ints[0].clone(), batches.floats[0].clone()

    def load(self, batches: Batches, k: int) -> None:
        self.ints.copy_(batches.ints[k])
        self.floats.copy_(batches.floats[k])

    def bag(self, like: Bag) -> PaddedBag:
        return PaddedBag.over(self._batches.views(self.ints, self.floats), self.shape, like)


class GraphedEngine:
    """As `EagerEngine`, with the same arguments, for a GPU: an epoch is gathers, copies and replays, no Python a layer.

    Batches are filled up to one shape with a filler graph that weighs nothing, so that a captured step serves all of
    them; where a batch is larger than any before, the step is captured anew. Engines run on streams of their own.
    """

    def __init__(
        self,
        model: SubgraphGNN,
        bag: Bag,
        objective: Objective,
        lr: float,
        batch_size: int,
        generator: torch.Generator,
    ) -> None:
        self.model, self.objective, self.generator = model, objective.to(bag.device), generator
        self._bag, self._batch_size = bag, batch_size
        self._stream = torch.cuda.Stream(bag.device)
        self._stream.wait_stream(torch.cuda.current_stream(bag.device))
        self._lr = torch.tensor(lr, device=bag.device)
        self.optimiser = torch.optim.Adam(model.parameters(), lr=self._lr, fused=True, capturable=True)
        self._start_optimiser()
        self._sums = torch.zeros(2, device=bag.device)
        self._layers = model.num_layers + model.encoder.lookahead
        self._padders: dict[bool, Padder] = {}
        self._train: tuple[torch.cuda.CUDAGraph, _Buffers] | None = None
        self._eval: tuple[torch.cuda.CUDAGraph, _Buffers, Tensor] | None = None
        self._laid: dict[bytes, Batches] = {}

    # -- what the loop asks ------------------------------------------------------------------------------------

    def train_epoch(self, ids: Tensor) -> Tensor:
        self.model.train()
        with torch.cuda.stream(self._stream):
            padder = self._padder(training=True)
            batches = self._batched(ids)
            graph, buffers = self._ready_to_train(padder, batches)
            self._sums.zero_()
            for some in np.array_split(batches, -(-len(batches) // _CHUNK)):
                laid = padder.lay_out(self._moved(some), buffers.shape)
                for k in range(len(some)):
                    buffers.load(laid, k)
                    graph.replay()
            return self._handed(self._sums[0] / self._sums[1].clamp(min=1))

    def predict(self, ids: Tensor) -> Tensor:
        self.model.eval()
        with torch.cuda.stream(self._stream), torch.no_grad():
            padder = self._padder(training=False)
            batches = self._batched(ids)
            graph, buffers, out = self._ready_to_predict(padder, batches)
            laid = self._laid_out(padder, batches, buffers.shape)
            answers = out.new_empty(len(batches), *out.shape)
            for k in range(len(batches)):
                buffers.load(laid, k)
                graph.replay()
                answers[k].copy_(out)
            flat = answers.reshape(-1, out.size(1))
            return self._handed(self.objective.answer(flat[: ids.numel()]))

    def set_lr(self, lr: float) -> None:
        with torch.cuda.stream(self._stream):
            self._lr.fill_(lr)

    def state_dict(self) -> dict[str, Any]:
        torch.cuda.current_stream(self._bag.device).wait_stream(self._stream)
        optimiser = self.optimiser.state_dict()
        for group in optimiser["param_groups"]:
            # As an optimiser on any device has it; on this one the rate is a tensor.
            group |= {"lr": float(group["lr"]), "fused": None, "capturable": False}
        return {"model": self.model.state_dict(), "optimiser": optimiser, "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        # Into the tensors that are there: captured graphs hold their addresses.
        with torch.cuda.stream(self._stream):
            self._write(state["model"], state["optimiser"]["state"])
            self._lr.fill_(float(state["optimiser"]["param_groups"][0]["lr"]))
        self.generator.set_state(state["generator"])

    # -- capturing ---------------------------------------------------------------------------------------------

    def _ready_to_train(self, padder: Padder, batches: np.ndarray) -> tuple[torch.cuda.CUDAGraph, _Buffers]:
        need = padder.counts.shape(batches)
        if self._train is None or not self._train[1].shape.holds(need):
            room = self._room(padder, batches, need)
            buffers = _Buffers(padder.lay_out(self._moved(batches[:1]), room), room)
            self._train = self._captured(lambda: self._step(buffers)), buffers
        return self._train

    def _ready_to_predict(self, padder: Padder, batches: np.ndarray) -> tuple[torch.cuda.CUDAGraph, _Buffers, Tensor]:
        need = padder.counts.shape(batches)
        if self._eval is None or not self._eval[1].shape.holds(need):
            room = self._room(padder, batches, need)
            buffers = _Buffers(padder.lay_out(self._moved(batches[:1]), room), room)
            kept: list[Tensor] = []

            def forward() -> None:
                kept[:] = [self.model(buffers.bag(self._bag))[:-1]]

            self._laid.clear()
            self._eval = self._captured(forward), buffers, kept[0]
        return self._eval

    def _room(self, padder: Padder, batches: np.ndarray, need: Shape) -> Shape:
        """Room for what random batches of these graphs need, found by trying many."""
        ids = batches[batches >= 0]
        draw = np.random.default_rng(0)
        size = min(batches.shape[1], len(ids))
        tried = np.stack([draw.permutation(ids)[:size] for _ in range(_TRIED // max(1, len(ids) // 5000))])
        tried = np.pad(tried, ((0, 0), (0, batches.shape[1] - size)), constant_values=-1)
        likely = padder.counts.shape(tried).grown(_MARGIN)
        return likely if likely.holds(need) else need.grown(_MARGIN * 1.1)

    def _step(self, buffers: _Buffers) -> None:
        bag = buffers.bag(self._bag)
        assert bag.y is not None
        self.optimiser.zero_grad()
        terms = self.objective.terms(self.model(bag)[:-1], bag.y)
        there = terms.there * bag.graph_weight[:-1, None]
        total, count = (terms.value * there).sum(), there.sum()
        (total / count.clamp(min=1)).backward()
        self.optimiser.step()
        self._sums += torch.stack([total.detach(), count])

    def _captured(self, work: Any) -> torch.cuda.CUDAGraph:
        """The work as a graph; the run that warms it up leaves no trace."""
        model = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        optimiser = [{k: v.clone() for k, v in state.items()} for state in self.optimiser.state.values()]
        for _ in range(2):
            work()
        self._write(model, dict(enumerate(optimiser)))
        self.optimiser.zero_grad()
        torch.cuda.synchronize(self._bag.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
            work()
        return graph

    # -- small things ------------------------------------------------------------------------------------------

    def _padder(self, training: bool) -> Padder:
        bag = self._bag
        if isinstance(bag.policy, Sampled):
            return Padder(self._for_mode(bag.resample(self.generator), training), self._layers)
        if training not in self._padders:
            self._padders[training] = Padder(self._for_mode(bag, training), self._layers)
        return self._padders[training]

    def _for_mode(self, bag: Bag, training: bool) -> Bag:
        self.model.train(training)
        return bag if self.model.why_literal is None else bag.to_literal()

    def _batched(self, ids: Tensor) -> np.ndarray:
        """Ids as `[batches, batch size]`, −1 behind the last graph."""
        size = self._batch_size
        flat = ids.cpu().numpy()
        return np.pad(flat, (0, -len(flat) % size), constant_values=-1).reshape(-1, size)

    def _moved(self, ids: np.ndarray) -> Tensor:
        return torch.from_numpy(ids.copy()).pin_memory().to(self._bag.device, non_blocking=True)

    def _laid_out(self, padder: Padder, batches: np.ndarray, shape: Shape) -> Batches:
        """The batches of a validation or test set, which come again every epoch."""
        if isinstance(self._bag.policy, Sampled):
            return padder.lay_out(self._moved(batches), shape)
        key = batches.tobytes()
        if key not in self._laid:
            self._laid[key] = padder.lay_out(self._moved(batches), shape)
        return self._laid[key]

    def _handed(self, result: Tensor) -> Tensor:
        """A result of this engine's stream, for work on the current one of the caller."""
        result.record_stream(torch.cuda.default_stream(self._bag.device))
        torch.cuda.default_stream(self._bag.device).wait_stream(self._stream)
        return result

    def _start_optimiser(self) -> None:
        for group in self.optimiser.param_groups:
            for p in group["params"]:
                step = torch.zeros((), device=p.device)
                state = {"step": step, "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
                self.optimiser.state[p] = state

    def _write(self, model: dict[str, Tensor], optimiser: dict[int, dict[str, Tensor]]) -> None:
        with torch.no_grad():
            for name, tensor in self.model.state_dict().items():
                tensor.copy_(model[name])
            for number, p in enumerate(p for group in self.optimiser.param_groups for p in group["params"]):
                for name, tensor in optimiser.get(number, {}).items():
                    self.optimiser.state[p][name].copy_(tensor)
