"""`SelectedData`: a PyG `Data` that carries its selection, so that PyG's own `DataLoader` can batch it."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from esan.graphs import Graphs
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


def carried_selection(data: Data) -> Selection | None:
    """The selection that a `SelectedData`, or a PyG batch of them, carries; None for other data."""
    if _PREFIX + "num_subgraphs" not in data:
        return None
    held: dict[str, Any] = {name: _agreed(data[_PREFIX + name], name) for name in _FLAGS}
    for name in ("num_subgraphs", "entry_subgraph", "entry_edge", "mark_subgraph", "mark_node"):
        held[name] = data[_PREFIX + name]
    return Selection(**held)


def _agreed(flag: Tensor, name: str) -> bool:
    if not bool((flag == flag[0]).all()):
        raise ValueError(f"Expected one policy for the whole batch (got graphs that differ in {name}). Use one policy.")
    return bool(flag[0])


def check_carried(data: Data, graphs: Graphs) -> None:
    """Refuse a selection that was made of other edges: a later transform has renumbered them."""
    if not torch.equal(data[_EDGES], graphs.edges):
        raise ValueError(
            f"Expected the {data[_EDGES].size(1)} edges that the selection was made of (got {graphs.edges.size(1)}, or "
            "others). Apply the policy last, after all other transforms."
        )
