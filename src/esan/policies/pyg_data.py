"""`SelectedData`: PyG data with its selection attached, so that PyG's own `DataLoader` can batch it."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, Dataset

from esan.graphs import Graphs, Source, read, several
from esan.plural import counted
from esan.policies.selection import Selection

_PREFIX = "selection_"
_EDGES = _PREFIX + "edges"
_POLICY = _PREFIX + "policy"
_FLAGS = ("keeps_edges", "marked")
_COUNTS = {"entry_subgraph": "num_subgraphs", "mark_subgraph": "num_subgraphs", "entry_edge": "num_edges"}
_REMEDY = "Pass that policy, or leave it out of their transforms."


class SelectedData(Data):
    """A graph with its selection in attributes named `selection_*`, which collate with the right increments."""

    @staticmethod
    def of(data: Data, graphs: Graphs, selection: Selection, policy: str) -> "SelectedData":
        """A copy of `data` with the selection; `policy` is the name of the policy."""
        selected = SelectedData.from_dict(data.to_dict())
        for name, tensor in selection.tensors().items():
            selected[_PREFIX + name] = tensor
        for name in _FLAGS:
            selected[_PREFIX + name] = torch.tensor([getattr(selection, name)])
        selected[_PREFIX + "num_edges"] = graphs.num_edges
        selected[_EDGES] = graphs.edges
        selected[_POLICY] = policy
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


# So that PyG's datasets, and torch.load, read files of them without unrestricted pickle.
torch.serialization.add_safe_globals([SelectedData])


def graphs_of(batch: Batch) -> list[Data]:
    """The graphs of a PyG batch, one by one."""
    # PyG splits a batch as it was made: fields added since are lost, and missing ones are an error.
    again = None
    try:
        graphs = batch.to_data_list()
        again = Batch.from_data_list(graphs)
    except RuntimeError:
        pass
    if again is None or {*again.keys()} != {*batch.keys()} or read(again).fingerprint != read(batch).fingerprint:
        raise ValueError(
            "Expected a batch as Batch.from_data_list made it (got one changed since, or made otherwise). Transform "
            "the graphs before they are batched, or call Bag.of(batch, policy, ...)."
        )
    return graphs


def read_carried(source: Source) -> tuple[Graphs, Selection, str]:
    """The graphs, selections and policy of `SelectedData`, of several of them, or of a PyG batch of them."""
    items = several(source)
    if items is not None:
        without = [place for place, item in enumerate(items) if not isinstance(item, SelectedData)]
        if 0 < len(without) < len(items):
            raise ValueError(
                f"Expected a selection on every graph (got none on graph {without[0]}). Apply the policy to all of "
                "them, or to none and pass it to Bag.of."
            )
        if items and not without:
            source = Batch.from_data_list(items)
    if not isinstance(source, Data) or _POLICY not in source:
        raise ValueError(
            f"Expected a bag, or graphs with a policy (got {type(source).__name__}, which carries no selection of "
            'subgraphs). Name a policy, e.g. Bag.of(graphs, "ED"), or apply one to each graph: policy(data).'
        )
    graphs = read(source)
    # A later transform may have renumbered the edges, and the selection would mean others.
    if not torch.equal(source[_EDGES], graphs.edges):
        raise ValueError(
            f"Expected the {source[_EDGES].size(1)} edges that the selection was made of (got "
            f"{graphs.edges.size(1)}, or others). Apply the policy last, after all other transforms."
        )
    policies = _policies(source)
    if len(policies) > 1:
        raise ValueError(f"Expected one policy for all graphs (got {' and '.join(policies[:2])}). Apply one of them.")
    if source[_PREFIX + "num_subgraphs"].numel() != len(graphs):
        raise ValueError(
            f"Expected one selection per graph (got {source[_PREFIX + 'num_subgraphs'].numel()} selections on "
            f"{counted(len(graphs), 'graph')}). Apply the policy to each graph."
        )
    held: dict[str, Any] = {name: _agreed(source[_PREFIX + name], name) for name in _FLAGS}
    for name in ("num_subgraphs", "entry_subgraph", "entry_edge", "mark_subgraph", "mark_node"):
        held[name] = source[_PREFIX + name]
    return graphs, Selection(**held), policies[0]


def _agreed(flag: Tensor, name: str) -> bool:
    if not bool((flag == flag[0]).all()):
        raise ValueError(
            f"Expected selections of one kind (got graphs that differ in {name}). Let the policy choose the same for "
            "all graphs, or pass it to Bag.of, which selects once for all of them."
        )
    return bool(flag[0])


def checked_source(source: Any, *policies: str, remedy: str = _REMEDY) -> Any:
    """`source`; an error if it carries the selection of another policy, which would be ignored.

    Args:
        source: graphs, or what they are read from; an iterable comes back as a list.
        policies: the names of the requested policy; errors use the first.
        remedy: the last sentence of an error.
    """
    items = [source]
    if isinstance(source, Dataset):
        # All graphs of a PyG dataset have the same transforms, which may be slow: the first graph is enough.
        items = [source[i] for i in range(min(1, len(source)))]
    elif (held := several(source)) is not None:
        items = source = held
    for item in items:
        others = [name for name in _policies(item) if name not in policies]
        if others:
            raise ValueError(
                f"Expected graphs without a selection, or with that of {policies[0]} (got that of {others[0]}). "
                f"{remedy}"
            )
    return source


def _policies(item: Any) -> list[str]:
    """The names of the policies whose selections `item` carries, each once."""
    found = item.get(_POLICY, []) if isinstance(item, Data) else []
    return [found] if isinstance(found, str) else list(dict.fromkeys(found))
