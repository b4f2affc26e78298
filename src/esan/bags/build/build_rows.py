"""Builds the rows of a bag, literal or compact, and refuses a bag that would not fit in memory."""

import torch

from esan.bags.build.compact import compact_rows
from esan.bags.build.literal import literal_rows
from esan.bags.rows import Rows
from esan.checks import MOST_LAYERS, truth_value, whole_number
from esan.graphs import Graphs
from esan.memory_limits import SMALL, available_memory, in_words, refuse_beyond_memory
from esan.plural import counted
from esan.policies import Sampled, Selection

#: Above this many (node, subgraph) pairs of all graphs together, the bag that a `Sampled` policy samples from is not
#: built: it may have one row per pair, of some 85 bytes (RDT-B has 10⁹ pairs).
MOST_PAIRS = 50_000_000
#: Bytes of a stored pair, and of an edge that ends at one.
_ROW_BYTES, _EDGE_BYTES = 17, 24
#: The number of subgraphs whose rows are counted to estimate the rows of all.
_SAMPLE = 65


def build_rows(graphs: Graphs, selection: Selection, num_layers: int | None, literal: bool | None) -> Rows:
    """The literal rows, or the compact rows for `num_layers` layers, which must then be known."""
    if literal is not None and truth_value("literal", literal, "Leave it out for a compact bag."):
        return literal_rows(graphs, selection)
    remedy = "Pass num_layers=4 for a model of 4 layers, or literal=True."
    if num_layers is None:
        raise ValueError(f"Expected num_layers, the layers of the model, for a compact bag (got None). {remedy}")
    layers = whole_number("num_layers", num_layers, 1, remedy, MOST_LAYERS)
    _refuse_too_many(graphs, selection, layers)
    return compact_rows(graphs, selection, layers)


def num_possible_pairs(graphs: Graphs) -> int:
    """The pairs of a bag with as many subgraphs per graph as nodes or edges; the real number is known only later."""
    return int((graphs.num_nodes * torch.maximum(graphs.num_nodes, graphs.num_edges)).sum())


def stores_samples_only(policy: Sampled, graphs: Graphs) -> bool:
    """Whether the full bag is never built: it may have too many pairs, or the policy sampled from is random itself."""
    return num_possible_pairs(graphs) > MOST_PAIRS or policy.policy.random


def _refuse_too_many(graphs: Graphs, selection: Selection, layers: int) -> None:
    """An error if half of the subgraphs would not fit in memory, estimated by the median of a few subgraphs."""
    counts = 16 * (layers + 2) * len(graphs)
    refuse_beyond_memory(
        counts, f"{layers:,} layers of {counted(len(graphs), 'graph')}", "Take fewer layers.", graphs.device
    )
    pairs = int((graphs.num_nodes.double() * selection.num_subgraphs).sum())
    # The bytes of the literal bag: for most bags they fit, and nothing is estimated.
    edges = int((graphs.num_directed_edges.double() * selection.num_subgraphs).sum())
    most = _ROW_BYTES * pairs + _EDGE_BYTES * edges
    if most <= SMALL or selection.total <= 2 * _SAMPLE or most <= available_memory(graphs.device):
        return
    mask = torch.zeros(selection.total, dtype=torch.bool, device=graphs.device)
    mask[:: selection.total // _SAMPLE] = True
    ids = selection.subgraph_graph[mask].unique()
    some, chosen = graphs.take(ids), selection.take(ids, graphs)
    chosen = chosen.only(torch.cat([mask[begin : begin + size] for begin, size in _ranges(selection, ids)]))
    rows = compact_rows(some, chosen, layers)
    first = rows.background
    num_rows = torch.bincount(rows.subgraph, minlength=chosen.total)
    num_edges = torch.bincount(rows.subgraph[rows.target[rows.target >= first] - first], minlength=chosen.total)
    median = int((_ROW_BYTES * num_rows + _EDGE_BYTES * num_edges).median())
    refuse_beyond_memory(
        median * (selection.total // 2),
        f"the bag of {counted(selection.total, 'subgraph')}, about {in_words(median)} each,",
        "Take fewer layers, smaller graphs, or a policy with fewer subgraphs: a sample, or esan.EgoNets.",
        graphs.device,
    )


def _ranges(selection: Selection, ids: torch.Tensor) -> list[tuple[int, int]]:
    return list(zip(selection.subgraph_start[ids].tolist(), selection.num_subgraphs[ids].tolist(), strict=True))
