"""`SelectedData`: a PyG `Data` that carries its selection, so that PyG's own `DataLoader` can batch it."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, Dataset

from esan.graphs import Graphs, Source, read
from esan.policies.selection import Selection

_PREFIX = "selection_"
_EDGES = _PREFIX + "edges"
_FLAGS = ("keeps_edges", "marked")
_COUNTS = {"entry_subgraph": "num_subgraphs", "mark_subgraph": "num_subgraphs", "entry_edge": "num_edges"}


class SelectedData(Data):
    """A graph with its selection in attributes named `selection_*`, which collate with the right increments."""

    @staticmethod
    def of(data: Data, graphs: Graphs, selection: Selection) -> "SelectedData":
        """`data` itself is not changed."""
        selected = SelectedData.from_dict(data.to_dict())
        for name, tensor in selection.tensors().items():
            selected[_PREFIX + name] = tensor
        for name in _FLAGS:
            selected[_PREFIX + name] = torch.tensor([getattr(selection, name)])
        selected[_PREFIX + "num_edges"] = graphs.num_edges
        selected[_EDGES] = graphs.edges
        if "num_nodes" not in selected and data.x is None:
            selected.num_nodes = int(graphs.num_nodes)
        return selected

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        if key in (_PREFIX + "mark_node", _EDGES):
            return self.num_nodes
        name = key.removeprefix(_PREFIX)
        if name != key:
            return int(self[_PREFIX + _COUNTS[name]]) if name in _COUNTS else 0
        return super().__inc__(key, value, *args, **kwargs)

    def __cat_dim__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        if key == _EDGES:
            return 1
        return 0 if key.startswith(_PREFIX) else super().__cat_dim__(key, value, *args, **kwargs)


def read_carried(source: Source) -> tuple[Graphs, Selection]:
    """The graphs and selections of `SelectedData`, of a list or dataset of them, or of a PyG batch of them."""
    if isinstance(source, Dataset | list | tuple):
        items = [source[i] for i in range(len(source))]
        if items and all(isinstance(item, SelectedData) for item in items):
            source = Batch.from_data_list(items)
    if not isinstance(source, Data) or _EDGES not in source:
        raise ValueError(
            "Expected a policy, or data that carry their selection (got neither). Call Bag.of(graphs, policy, ...), "
            "or apply the policy to the data: policy(data)."
        )
    graphs = read(source)
    # Another transform may have renumbered the edges since, and the selection would mean others.
    if not torch.equal(source[_EDGES], graphs.edges):
        raise ValueError(
            f"Expected the {source[_EDGES].size(1)} edges that the selection was made of (got "
            f"{graphs.edges.size(1)}, or others). Apply the policy last, after all other transforms."
        )
    held: dict[str, Any] = {name: _agreed(source[_PREFIX + name], name) for name in _FLAGS}
    for name in ("num_subgraphs", "entry_subgraph", "entry_edge", "mark_subgraph", "mark_node"):
        held[name] = source[_PREFIX + name]
    return graphs, Selection(**held)


def _agreed(flag: Tensor, name: str) -> bool:
    if not bool((flag == flag[0]).all()):
        raise ValueError(f"Expected one policy for the whole batch (got graphs that differ in {name}). Use one policy.")
    return bool(flag[0])
