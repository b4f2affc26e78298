"""Extra fields of PyG data (`train_mask`, `pos`, `smiles`, ...), batched as PyG does."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from esan.ops import ragged

#: The fields of PyG data that `Graphs` has fields of its own for.
_OWN = ("x", "edge_index", "edge_attr", "edge_weight", "y", "num_nodes")


@dataclass(frozen=True, eq=False)
class TensorField:
    """A tensor field of all graphs, concatenated along one dimension.

    Attributes:
        local: the entries, numbers of nodes counted from 0 in each graph.
        counts: how many entries along `dim` each graph has, `[G]`.
        dim: the dimension along which graphs follow one another (PyG's `__cat_dim__`).
        step: by how much the entries of the next graphs grow (PyG's `__inc__`), `[G, ...]`; None if by nothing.
    """

    local: Tensor
    counts: Tensor
    dim: int = 0
    step: Tensor | None = None

    @cached_property
    def value(self) -> Tensor:
        """The field as PyG batches it, its numbers counted through all graphs."""
        if self.step is None:
            return self.local
        shift = self.step.cumsum(0) - self.step
        return _shifted(self.local, shift, self.counts, self.dim)

    def take(self, ids: Tensor) -> "TensorField":
        places = ragged.ranges(ragged.starts(self.counts)[ids], self.counts[ids])
        step = None if self.step is None else self.step[ids]
        return TensorField(self.local.index_select(self.dim, places), self.counts[ids], self.dim, step)

    def to(self, device: torch.device | str) -> "TensorField":
        step = None if self.step is None else self.step.to(device)
        return replace(self, local=self.local.to(device), counts=self.counts.to(device), step=step)

    @property
    def nbytes(self) -> int:
        held = (self.local, self.counts, self.step)
        return sum(tensor.numel() * tensor.element_size() for tensor in held if tensor is not None)


@dataclass(frozen=True, eq=False)
class ListField:
    """A field of anything but numbers: one entry per graph."""

    value: list[Any]

    def take(self, ids: Tensor) -> "ListField":
        return ListField([self.value[i] for i in ids.tolist()])

    def to(self, device: torch.device | str) -> "ListField":
        if not any(isinstance(value, Tensor) for value in self.value):
            return self
        return ListField([value.to(device) if isinstance(value, Tensor) else value for value in self.value])

    @property
    def nbytes(self) -> int:
        tensors = [value for value in self.value if isinstance(value, Tensor)]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


Field = TensorField | ListField


class ExtraFields(Mapping[str, Any]):
    """The extra fields of a collection of graphs, by name: `graphs.extra["train_mask"]`, or `bag.train_mask`.

    Args:
        fields: each field.
    """

    def __init__(self, fields: Mapping[str, Field] | None = None) -> None:
        self.fields: dict[str, Field] = dict(fields or {})

    def __getitem__(self, name: str) -> Any:
        return self.fields[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __repr__(self) -> str:
        return f"ExtraFields({', '.join(self)})"

    def take(self, ids: Tensor) -> "ExtraFields":
        """The fields of the graphs `ids`, in that order."""
        return ExtraFields({name: field.take(ids) for name, field in self.fields.items()}) if self.fields else self

    def to(self, device: torch.device | str) -> "ExtraFields":
        return ExtraFields({name: field.to(device) for name, field in self.fields.items()}) if self.fields else self

    @property
    def nbytes(self) -> int:
        return sum(field.nbytes for field in self.fields.values())

    def derived(self, name: str) -> Tensor | None:
        """PyG's `follow_batch`: `pos_batch` has the graph of each entry of `pos`, `pos_ptr` where graphs begin."""
        for ending, of_counts in (("_batch", ragged.segment_index), ("_ptr", ragged.boundaries)):
            field = self.fields.get(name.removesuffix(ending)) if name.endswith(ending) else None
            if isinstance(field, TensorField):
                return of_counts(field.counts)
        return None


# -- of a list of graphs -------------------------------------------------------------------------------------------


def names_in(data: Data) -> list[str]:
    """The names of the extra fields of `data`."""
    # What a policy attached is not a field of the user.
    selected = "selection_policy" in data
    return [name for name in list(data.keys()) if name not in _OWN and not (selected and name.startswith("selection_"))]


def of_list(graphs: Sequence[Data], num_nodes: Sequence[int], device: torch.device) -> ExtraFields:
    """The extra fields of these graphs; `num_nodes` has the nodes of each."""
    names = {name for data in graphs for name in names_in(data)}
    return ExtraFields({name: _of_list(name, graphs, num_nodes, device) for name in sorted(names)})


def _of_list(name: str, graphs: Sequence[Data], num_nodes: Sequence[int], device: torch.device) -> Field:
    values = [data.get(name) for data in graphs]
    missing = next((place for place, value in enumerate(values) if value is None), None)
    if missing is not None:
        raise ValueError(f"Expected {name} on every graph or on none (got none on graph {missing}). Add it there.")
    if all(isinstance(value, int | float) for value in values):
        values = [torch.tensor(values)[place] for place in range(len(values))]
    tensors = [_is_dense(value) for value in values]
    if not any(tensors):
        return ListField(values)
    if not all(tensors):
        odd = tensors.index(False)
        raise TypeError(
            f"Expected {name} to be a tensor on every graph or on none (got {type(values[odd]).__name__} on graph "
            f"{odd}). Convert it."
        )
    dim = graphs[0].__cat_dim__(name, values[0])
    if dim is None or values[0].dim() == 0:
        values, dim = [value.unsqueeze(0) for value in values], 0
    dim %= values[0].dim()
    _check_alike(name, values, dim)
    steps = [_step(data, name, value, n) for data, value, n in zip(graphs, values, num_nodes, strict=True)]
    counts = torch.tensor([value.size(dim) for value in values], device=device)
    return TensorField(torch.cat(values, dim).to(device), counts, dim, _steps(steps, dim, device))


def _shifted(value: Tensor, shift: Tensor, counts: Tensor, dim: int) -> Tensor:
    """The entries of each graph, with its `shift` added."""
    # The total is known, so there is no need to wait for a GPU.
    entries, owner = value.movedim(dim, 0), torch.repeat_interleave(counts, output_size=value.size(dim))
    each = shift[owner]
    each = each.reshape(*each.shape, *[1] * (entries.dim() - each.dim()))
    return (entries + each).movedim(0, dim)


def _is_index(name: str) -> bool:
    """Whether PyG takes a field of that name for numbers of nodes."""
    return "index" in name or name == "face"


def _is_dense(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout == torch.strided


def _check_alike(name: str, values: Sequence[Tensor], dim: int) -> None:
    def width(value: Tensor) -> list[int]:
        return [size for place, size in enumerate(value.shape) if place != dim]

    for place, value in enumerate(values):
        if value.dim() != values[0].dim() or width(value) != width(values[0]):
            raise ValueError(
                f"Expected {name} of one width (got shape {tuple(values[0].shape)} on graph 0 and "
                f"{tuple(value.shape)} on graph {place}), since graphs are concatenated along dimension {dim}. "
                "Reshape it, or delete it from the data."
            )


def _step(data: Data, name: str, value: Tensor, num_nodes: int) -> Any:
    # Asked of PyG only where it does not have to guess how many nodes there are.
    if type(data).__inc__ is Data.__inc__:
        if "batch" in name:
            return int(value.max()) + 1 if value.numel() else 0
        return num_nodes if _is_index(name) else 0
    return data.__inc__(name, value)


def _steps(steps: Sequence[Any], dim: int, device: torch.device) -> Tensor | None:
    """The increments as they are added to entries whose first dimension is `dim`."""
    if not any(isinstance(step, Tensor) for step in steps):
        flat = torch.tensor(steps, device=device)
        return flat if bool(flat.any()) else None
    whole = torch.stack([torch.as_tensor(step) for step in steps]).to(device)
    # An increment [2, 1] of [2, entries] has one entry along `dim`.
    return whole.squeeze(1 + dim) if whole.dim() > 1 and whole.size(1 + dim) == 1 else whole


# -- of a batch ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BatchCounts:
    """The counts of each graph of a batch.

    Attributes:
        nodes: nodes, `[G]`.
        columns: columns of `edge_index`, `[G]`.
        order: the columns graph by graph, `[A]`.
    """

    nodes: Tensor
    columns: Tensor
    order: Tensor


def of_batch(batch: Batch, counts_of: BatchCounts) -> ExtraFields:
    """The extra fields of a PyG batch, also those that were added to it after it was made."""
    fields: dict[str, Field] = {}
    for name in sorted(names_in(batch), key=lambda name: (name != "edge_label_index", name)):
        if name in ("batch", "ptr") or _is_derived(batch, name):
            continue
        fields[name] = _of_batch(batch, name, counts_of, fields.get("edge_label_index"))
    return ExtraFields(fields)


def _is_derived(batch: Batch, name: str) -> bool:
    """Whether PyG made it by `follow_batch` of an extra field; `ExtraFields.derived` makes it again."""
    base = name.removesuffix("_batch").removesuffix("_ptr")
    return base != name and base in names_in(batch) and name not in _slices(batch)


def _slices(batch: Batch) -> dict[str, Any]:
    return getattr(batch, "_slice_dict", None) or {}


def _of_batch(batch: Batch, name: str, counts_of: BatchCounts, pairs: Field | None) -> Field:
    value, slices, graphs = batch[name], _slices(batch).get(name), counts_of.nodes.numel()
    if not _is_dense(value):
        if isinstance(value, list) and len(value) == graphs:
            return ListField(value)
        if slices is not None:
            return ListField([batch.get_example(i)[name] for i in range(graphs)])
        raise ValueError(
            f"Expected {name} as a tensor or a list of {graphs}, one per graph (got {type(value).__name__} in the "
            "batch). Set it before the graphs are batched."
        )
    device = counts_of.nodes.device
    if value.dim() == 0:
        value = value.expand(1)
    dim = (batch.__cat_dim__(name, value) or 0) % value.dim()
    if isinstance(slices, Tensor) and slices.numel() == graphs + 1 and int(slices[-1]) == value.size(dim):
        return _sliced(batch, name, value, torch.diff(slices).to(device), dim, counts_of)
    if name == "edge_label_index":
        return _pairs_added(value, counts_of)
    return _added(name, value, dim, counts_of, pairs)


def _sliced(batch: Batch, name: str, value: Tensor, counts: Tensor, dim: int, counts_of: BatchCounts) -> TensorField:
    """A field that existed when the batch was made, which stores what it added to each graph."""
    shift = batch._inc_dict.get(name)
    if shift is None or not bool(shift.any()):
        return TensorField(value, counts, dim)
    shift = shift.to(counts.device)
    if shift.dim() == 1 and torch.equal(shift, ragged.starts(counts_of.nodes)):
        step = counts_of.nodes
    else:
        # The increment of the last graph is not stored in the batch.
        examples = [batch.get_example(i) for i in range(counts.numel())]
        steps = _steps([one.__inc__(name, one[name]) for one in examples], dim, counts.device)
        step = counts_of.nodes.new_zeros(counts.numel()) if steps is None else steps
        shift = step.cumsum(0) - step
    return TensorField(_shifted(value, -shift, counts, dim), counts, dim, step)


def _pairs_added(value: Tensor, counts_of: BatchCounts) -> TensorField:
    """`edge_label_index` that was added to a batch: each column belongs to the graph of its first node."""
    check_edge_label_index(value, "the batch")
    last = counts_of.nodes.cumsum(0)
    graph = torch.bucketize(value[0], last, right=True).clamp(max=counts_of.nodes.numel() - 1)
    if bool((graph[1:] < graph[:-1]).any()):
        raise ValueError(
            "Expected the columns of edge_label_index graph by graph, as PyG batches them (got them mixed in the "
            "batch). Sort them by batch.batch[edge_label_index[0]]."
        )
    counts = torch.bincount(graph, minlength=counts_of.nodes.numel())
    return TensorField(_shifted(value, -ragged.starts(counts_of.nodes), counts, 1), counts, 1, counts_of.nodes)


def _added(name: str, value: Tensor, dim: int, counts_of: BatchCounts, pairs: Field | None) -> TensorField:
    """A field that was added to a batch, with one entry per graph, node, column of edge_index or edge_label_index."""
    size = value.size(dim)
    levels = {"node": counts_of.nodes, "graph": torch.ones_like(counts_of.nodes), "edge": counts_of.columns}
    if isinstance(pairs, TensorField):
        levels["pair"] = pairs.counts
    # If there are as many nodes as columns, the name decides, as in PyG.
    order = sorted(levels, key=lambda level: (level in ("edge", "pair")) != ("edge" in name))
    level = next((level for level in order if int(levels[level].sum()) == size), None)
    if level is None or _is_index(name) or "batch" in name:
        raise ValueError(
            f"Expected {name} with one entry per graph, node or column of edge_index (got shape {tuple(value.shape)} "
            "in the batch). Set it before the graphs are batched."
        )
    value = value.index_select(dim, counts_of.order) if level == "edge" else value
    return TensorField(value, levels[level], dim)


def check_edge_label_index(value: Any, where: str) -> None:
    """Refuse an `edge_label_index` that is not pairs of nodes; `where` names the data."""
    if not isinstance(value, Tensor) or value.dim() != 2 or value.size(0) != 2:
        got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"Expected edge_label_index of shape [2, pairs] (got {got} in {where}). Transpose it.")
    if value.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"Expected edge_label_index of integers (got {value.dtype} in {where}). Call .long() on it.")


def check_pair_range(extra: ExtraFields, num_nodes: Tensor) -> None:
    """Refuse pairs with a node that their graph does not have."""
    field = extra.fields.get("edge_label_index")
    if not isinstance(field, TensorField):
        return
    graph = ragged.segment_index(field.counts)
    outside = ((field.local < 0) | (field.local >= num_nodes[graph])).any(0)
    if bool(outside.any()):
        bad = int(outside.nonzero()[0])
        at = int(graph[bad])
        raise ValueError(
            f"Expected node numbers from 0 to {int(num_nodes[at]) - 1} in edge_label_index of graph {at} (got the pair "
            f"{tuple(field.local[:, bad].tolist())}). Number the nodes of each graph from 0."
        )
