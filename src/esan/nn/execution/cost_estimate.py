"""The cost of a training step, estimated before it runs: rows, edges and bytes on the literal and the compact bag."""

import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from esan.bags import Bag
from esan.bags.build.literal import literal_bytes, literal_edges
from esan.memory_limits import SMALL, available_memory, in_words, refuse_beyond_memory
from esan.ops.device import is_gpu

#: Bytes of the indices that a step makes for itself, per edge and row that a layer works on.
_PER_EDGE, _PER_ROW = 32, 24
#: Bytes of what is stored, per edge and row of the literal bag.
_STORED_EDGE, _STORED_ROW = 24, 17
#: Pairs of the part of the bag that a step is tried on, and nodes of the path where networks work on matrices.
_TRIED, _PATH = 2**13, 16


#: Vectors of the widest layer that a step may keep per row and layer; only decides whether a step is tried first.
_MOST_VECTORS = 32


@dataclass(frozen=True)
class Cost:
    """What a training step takes on one kind of bag.

    Attributes:
        rows: rows of the bag.
        edges: edges between its rows.
        bytes: tensors that are alive at the peak of the step: the bag, what autograd keeps, gradients, parameters.
    """

    rows: int
    edges: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.rows:,} rows, {self.edges:,} edges, {in_words(self.bytes)}"


@dataclass(frozen=True)
class Estimate:
    """What a training step of a network on a bag takes.

    Attributes:
        literal: on the literal bag.
        compact: on the compact bag; None if the network is not exact on one.
        why_literal: why it is not; None if it is.
    """

    literal: Cost
    compact: Cost | None
    why_literal: str | None

    def __str__(self) -> str:
        compact = f"not possible, {self.why_literal}" if self.compact is None else str(self.compact)
        return f"literal: {self.literal}; compact: {compact}"


def estimate(bag: Bag, model: Any) -> Estimate:
    """Rows, edges and bytes of one training step on all graphs of `bag`, on the literal and on the compact bag.

    Rows and edges are counted, not estimated. For the bytes, a copy of the model goes forward on a small part of the
    bag (two parts of a large graph), what autograd keeps is added up, and scaled to the size of the bag. Backward adds
    what one layer keeps. See docs/bags.md, "Memory", for how it was checked.

    Args:
        bag: the graphs of one step; of a dataset, take a batch: `esan.estimate(bag[:128], model)`.
        model: the network, of `ds_gnn` or `dss_gnn`; it is left as it is, and so is torch's generator. Its hooks are
            not called.
    """
    if not isinstance(bag, Bag):
        raise TypeError(f"Expected a Bag (got {type(bag).__name__}). Pass bag first, then model: estimate(bag, model).")
    trained = _checked_copy(model).train()
    why, layers = trained.why_literal, trained.num_layers + trained.encoder.lookahead
    bag = replace(bag, sampled_from=None)
    compact = bag if bag.num_layers is not None and bag.num_layers >= layers else None
    if why is None and compact is None:
        compact = bag.to_compact(layers)
    parts = _parts(bag if compact is None else compact, trained)
    literal = _Size.of_literal(bag, trained)
    on_literal = _cost(literal, [part.to_literal() for part in parts], bag, trained)
    if why is not None or compact is None:
        return Estimate(on_literal, None, why)
    return Estimate(on_literal, _cost(_Size.of(compact, trained), parts, bag, trained), None)


def refuse_literal(bag: Bag, model: Any) -> None:
    """An error, before anything is built, if the literal bag and a step on it would take more memory than there is.

    Args:
        bag: a compact bag.
        model: the network, which needs the literal one.
    """
    size = _Size.of_literal(bag, model)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vector = max((p.size(0) * p.element_size() for p in matrices), default=4)
    needed = max(literal_bytes(bag.graphs, bag.selection), size.stored)
    if not torch.is_grad_enabled():
        needed += 2 * size.rows * vector
    elif (most := size.work * vector * _MOST_VECTORS) > SMALL and most > available_memory(bag.device):
        # Close enough that it is worth a step on a small part.
        parts = [part.to_literal() for part in _parts(bag, model)]
        needed = max(needed, _cost(size, parts, bag, _checked_copy(model)).bytes)
    drops = model.encoder.dropout > 0 and model.training and model.encoder.dropout_on == "pairs"
    exact = "dropout_on='nodes'" if drops else "choices that are exact on a compact bag"
    refuse_beyond_memory(
        needed,
        f"the literal bag of {size.rows:,} rows and {size.edges:,} edges, which the network needs "
        f"({model.why_literal}), and a step on it",
        f"Use {exact}, a Sampled policy, or fewer graphs at a time.",
        bag.device,
    )


def _checked_copy(model: Any) -> Any:
    if not isinstance(model, nn.Module) or not hasattr(model, "why_literal"):
        raise TypeError(
            f"Expected a network of esan.ds_gnn or esan.dss_gnn (got {type(model).__name__}). Pass bag first, then "
            "model: esan.estimate(bag, model)."
        )
    copied = copy.deepcopy(model)
    for module in copied.modules():
        for kind in ("forward", "forward_pre", "backward", "backward_pre"):
            hooks = getattr(module, f"_{kind}_hooks")
            hooks.update(dict.fromkeys(hooks, _nothing))  # still there: they decide how a layer is computed
    return copied


def _nothing(*given: Any, **more: Any) -> None:
    """In place of a hook."""


# -- what is counted -----------------------------------------------------------------------------------------------


class _Size(NamedTuple):
    """How much a step works on.

    Attributes:
        rows: rows of the bag.
        edges: edges between them.
        work: rows and edges summed over the layers; for PPGN entries of matrices.
        stored: bytes of the bag and of the indices that a step makes of it.
    """

    rows: int
    edges: int
    work: int
    stored: int

    @staticmethod
    def of(bag: Bag, model: Any) -> "_Size":
        blocks = [bag.rows.block_of_layer(t + model.encoder.lookahead) for t in range(1, model.num_layers + 1)]
        rows, edges = bag.rows.row_ends, bag.rows.edge_ends
        made = sum(_PER_EDGE * edges[block] + _PER_ROW * rows[block] for block in {*blocks})
        work = _entries(bag, model) or sum(rows[block] + edges[block] for block in blocks)
        return _Size(rows[-1], edges[-1], work, bag.nbytes + made)

    @staticmethod
    def of_literal(bag: Bag, model: Any) -> "_Size":
        """The same for the literal bag, which is not built."""
        rows, edges = bag.num_pairs, literal_edges(bag.graphs, bag.selection)
        each = (_STORED_ROW + _PER_ROW) * rows + (_STORED_EDGE + _PER_EDGE) * edges
        stored = bag.graphs.nbytes + bag.selection.nbytes + each
        return _Size(rows, edges, _entries(bag, model) or model.num_layers * (rows + edges), stored)


def _entries(bag: Bag, model: Any) -> int:
    """Entries of dense matrices, summed over the layers; 0 if the network works on rows."""
    of_layer = getattr(model.encoder, "num_entries", None)
    return 0 if of_layer is None else model.num_layers * of_layer(bag)


# -- what is tried -------------------------------------------------------------------------------------------------


def _parts(bag: Bag, model: Any) -> list[Bag]:
    """Parts of the bag that a step is tried on: some of the graphs or, of a large graph, two parts of its subgraphs."""
    if _entries(bag, model) > _TRIED:
        return [_small_matrices(bag)]
    pairs = bag.graphs.num_nodes * bag.selection.num_subgraphs
    wanted = max(1, min(len(bag), round(_TRIED * len(bag) / max(int(pairs.sum()), 1))))
    ids = torch.linspace(0, len(bag) - 1, wanted, device=bag.device).round().long().unique()
    some = bag[ids]
    if some.num_pairs <= 4 * _TRIED or len(some) > 1:
        return [some]
    few = max(1, _TRIED // some.num_nodes)
    return [_with_subgraphs(some, few), _with_subgraphs(some, 2 * few)]


def _small_matrices(bag: Bag) -> Bag:
    """The subgraphs of a path with features as in the bag: a part of a large graph has matrices as large."""
    nodes = torch.arange(_PATH, device=bag.device)
    edge_index = torch.stack([torch.cat([nodes[:-1], nodes[1:]]), torch.cat([nodes[1:], nodes[:-1]])])
    path = Data(edge_index=edge_index, num_nodes=_PATH)
    for name, count in (("x", _PATH), ("edge_attr", edge_index.size(1))):
        values = getattr(bag.graphs, name)
        if values is not None:
            some = values[:1] if len(values) else values.new_zeros(1, *values.shape[1:])
            path[name] = some.expand(count, *some.shape[1:])
    return Bag.of(path, "EGO+(1)" if bag.marked else "EGO(1)", bag.num_layers)


def _with_subgraphs(bag: Bag, count: int) -> Bag:
    """The bag of one graph with so many of its subgraphs."""
    chosen = torch.linspace(0, bag.num_subgraphs - 1, min(count, bag.num_subgraphs), device=bag.device).round().long()
    mask = torch.zeros(bag.num_subgraphs, dtype=torch.bool, device=bag.device)
    return bag.only(mask.index_fill(0, chosen, True))


def _cost(size: _Size, parts: list[Bag], bag: Bag, model: Any) -> Cost:
    """What autograd keeps, S = a · nodes + b · work, by the parts; and what backward and the indices add."""
    work, saved = [_Size.of(part, model).work for part in parts], [_saved_bytes(part, model) for part in parts]
    per_node, per_work = 0.0, saved[0] / max(work[0], 1)
    if len(parts) > 1 and work[1] > work[0]:
        per_work = max(saved[1] - saved[0], 0) / (work[1] - work[0])
        per_node = max(saved[0] - per_work * work[0], 0) / parts[0].num_nodes
    activations = per_node * bag.num_nodes + per_work * size.work
    parameters = sum(p.numel() * p.element_size() for p in model.parameters())
    # Backward begins with everything saved, and works on the gradients of one layer.
    peak = activations * (1 + 1 / model.num_layers) + size.stored + 2 * parameters
    return Cost(size.rows, size.edges, round(peak))


def _saved_bytes(bag: Bag, model: Any) -> int:
    """Bytes of all tensors that a step forward keeps for the step backward."""
    known = {tensor.untyped_storage().data_ptr() for tensor in [*model.parameters(), *model.buffers()]}
    for record in (bag.graphs, bag.selection, bag.rows):
        known |= {tensor.untyped_storage().data_ptr() for tensor in record.tensors().values()}
    saved: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # itself, it would hold itself where it is what the operation gave

    devices = [bag.device] if is_gpu(bag.device) else []
    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with torch.random.fork_rng(devices), torch.enable_grad(), catch_warnings(), hooks:
        simplefilter("ignore")  # that the literal bag is used is what is asked
        output = model(bag)  # alive to the end: what it keeps must not be taken for other tensors at the same place
        total = sum(saved.values())
        del output
    return total
