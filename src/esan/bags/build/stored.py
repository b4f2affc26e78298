"""The rows that a selection is stored as: those of every pair, or those of a compact bag."""

import torch

from esan.bags.build.compact import compact_rows
from esan.bags.build.literal import literal_rows
from esan.bags.rows import Rows
from esan.checks import MOST_LAYERS, truth_value, whole_number
from esan.counted import counted
from esan.graphs import Graphs
from esan.limits import SMALL, available_memory, in_words, refuse_beyond_memory
from esan.policies import Selection

#: Bytes of a stored pair, and of an arc that ends at one.
_ROW_BYTES, _ARC_BYTES = 17, 24
#: Subgraphs whose rows are counted to tell how many all of them have.
_LOOKED_AT = 65


def stored_rows(graphs: Graphs, selection: Selection, num_layers: int | None, literal: bool | None) -> Rows:
    """The literal rows, or the compact ones for that many layers, which must then be known."""
    if literal is not None and truth_value("literal", literal, "Leave it out for a compact bag."):
        return literal_rows(graphs, selection)
    remedy = "Pass num_layers=4 for a model of 4 layers, or literal=True."
    if num_layers is None:
        raise ValueError(f"Expected num_layers, the layers of the model, for a compact bag (got None). {remedy}")
    layers = whole_number("num_layers", num_layers, 1, remedy, MOST_LAYERS)
    _refuse_too_many(graphs, selection, layers)
    return compact_rows(graphs, selection, layers)


def _refuse_too_many(graphs: Graphs, selection: Selection, layers: int) -> None:
    """An error where half of the subgraphs alone would have more rows than fit: the median of some, times half."""
    counts = 16 * (layers + 2) * len(graphs)
    refuse_beyond_memory(
        counts, f"{layers:,} layers of {counted(len(graphs), 'graph')}", "Take fewer layers.", graphs.device
    )
    pairs = int((graphs.num_nodes.double() * selection.num_subgraphs).sum())
    # What every pair and arc would take: most bags stop here.
    most = _ROW_BYTES * pairs + _ARC_BYTES * int((graphs.num_arcs.double() * selection.num_subgraphs).sum())
    if most <= SMALL or selection.total <= 2 * _LOOKED_AT or most <= available_memory(graphs.device):
        return
    every = selection.total // _LOOKED_AT
    kept = torch.zeros(selection.total, dtype=torch.bool, device=graphs.device)
    kept[::every] = True
    ids = selection.subgraph_graph[kept].unique()
    some, chosen = graphs.take(ids), selection.take(ids, graphs)
    within = torch.cat([kept[begin : begin + size] for begin, size in _ranges(selection, ids)])
    chosen = chosen.only(within)
    rows = compact_rows(some, chosen, layers)
    first = rows.background
    row = torch.bincount(rows.subgraph, minlength=chosen.total)
    arc = torch.bincount(rows.subgraph[rows.target[rows.target >= first] - first], minlength=chosen.total)
    median = int((_ROW_BYTES * row + _ARC_BYTES * arc).median())
    refuse_beyond_memory(
        median * (selection.total // 2),
        f"the bag of {counted(selection.total, 'subgraph')}, about {in_words(median)} each,",
        "Take fewer layers, smaller graphs, or a policy with fewer subgraphs: a sample, or esan.EgoNets.",
        graphs.device,
    )


def _ranges(selection: Selection, ids: torch.Tensor) -> list[tuple[int, int]]:
    return list(zip(selection.subgraph_start[ids].tolist(), selection.num_subgraphs[ids].tolist(), strict=True))
