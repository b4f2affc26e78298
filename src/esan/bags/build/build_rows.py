"""Builds the rows of a bag, literal or compact, and refuses a bag that would not fit in memory."""

import torch
from torch import Tensor

from esan.bags.build.compact import EDGE_BYTES, ROW_BYTES, compact_rows, refuse_compact
from esan.bags.build.literal import PER_EDGE, PER_ROW, literal_rows, refuse_literal_rows
from esan.bags.rows import Rows
from esan.checks import MOST_LAYERS, truth_value, whole_number
from esan.graphs import Graphs
from esan.memory_limits import SMALL, SampledSize, available_memory, in_words, refuse_beyond_memory
from esan.ops import ragged
from esan.ops.dispatch import implementation
from esan.plural import counted
from esan.policies import Policy, Sampled, Selection

#: Above this many (node, subgraph) pairs of all graphs together, the bag that a `Sampled` policy samples from is not
#: built: it may have one row per pair, of some 85 bytes (RDT-B has 10⁹ pairs).
MOST_PAIRS = 50_000_000
#: The peak of the reference while it builds rows, in bytes of the rows.
_REFERENCE_FACTOR = 5
#: The number of subgraphs whose rows are counted to estimate the rows of all.
_SAMPLE = 65
#: The most subgraphs of which a few are selected to estimate the literal bag.
_MOST_LISTED = 10**9


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


def refuse_before_selecting(graphs: Graphs, policy: Policy) -> None:
    """An error if the literal bag of a policy would not fit into memory, before its subgraphs are selected.

    Pairs are counted, edges are estimated by a few subgraphs; `literal_rows` counts both once all are selected.
    """
    counts = policy.known_subgraphs(graphs)
    if counts is None:
        return
    pairs = (graphs.num_nodes.double() * counts).sum()
    most = PER_ROW * pairs + PER_EDGE * (graphs.num_directed_edges.double() * counts).sum()
    if float(most) <= SMALL or float(most) <= (available := available_memory(graphs.device)):
        return
    least = about = PER_ROW * int(pairs)
    # A random policy would draw other subgraphs afterwards; too many cannot even be listed.
    if not policy.random and float(counts.double().sum()) <= _MOST_LISTED:
        few = policy.some(graphs, _few_of_each)
        listed = 2 * torch.bincount(few.entry_subgraph, minlength=few.total)
        edges = graphs.num_directed_edges[few.subgraph_graph] - listed if few.keeps_edges else listed
        size = SampledSize.of(PER_EDGE * edges, int(counts.sum()))
        least, about = least + size.least, about + size.about
    if least > available:
        refuse_literal_rows(about, int(pairs), graphs.device)


def _few_of_each(num_subgraphs: Tensor) -> Tensor:
    """Which subgraphs edges are counted of: some at equal distances, and the first of each graph."""
    mask = torch.zeros(int(num_subgraphs.sum()), dtype=torch.bool, device=num_subgraphs.device)
    mask[:: max(1, mask.numel() // _SAMPLE)] = True
    mask[ragged.starts(num_subgraphs)] = True
    return mask


def _refuse_too_many(graphs: Graphs, selection: Selection, layers: int) -> None:
    """An error if the rows would not fit in memory, estimated by a few subgraphs; compiled loops count them later."""
    counts = 16 * (layers + 2) * len(graphs)
    refuse_beyond_memory(
        counts, f"{layers:,} layers of {counted(len(graphs), 'graph')}", "Take fewer layers.", graphs.device
    )
    fast = implementation("indices", graphs.edge_index)
    factor = 1 if fast is not None else _REFERENCE_FACTOR
    pairs = int((graphs.num_nodes.double() * selection.num_subgraphs).sum())
    # The bytes of the literal bag: for most bags they fit, and nothing is estimated.
    edges = int((graphs.num_directed_edges.double() * selection.num_subgraphs).sum())
    most = factor * (ROW_BYTES * pairs + EDGE_BYTES * edges)
    if most <= SMALL or selection.total <= 2 * _SAMPLE or most <= (available := available_memory(graphs.device)):
        return
    some = torch.arange(0, selection.total, selection.total // _SAMPLE, device=graphs.device)
    if fast is None:
        each = _bytes_by_reference(graphs, selection, some, layers)
    else:
        found = fast.count_pairs(graphs, selection, layers, some)
        each = ROW_BYTES * found.num_rows.sum(0) + EDGE_BYTES * found.num_edges.sum(0)
    size = SampledSize.of(factor * each, selection.total)
    if (size.about if fast is None else size.least) > available:
        refuse_compact(size.about, f"about {in_words(size.about // selection.total)} each", selection)


def _bytes_by_reference(graphs: Graphs, selection: Selection, some: Tensor, layers: int) -> Tensor:
    """The bytes of the rows of some subgraphs and of the edges into them."""
    mask = torch.zeros(selection.total, dtype=torch.bool, device=graphs.device)
    mask[some] = True
    ids = selection.subgraph_graph[some].unique()
    taken, chosen = graphs.take(ids), selection.take(ids, graphs)
    chosen = chosen.only(torch.cat([mask[begin : begin + size] for begin, size in _ranges(selection, ids)]))
    rows = compact_rows(taken, chosen, layers)
    first = rows.background
    num_rows = torch.bincount(rows.subgraph, minlength=chosen.total)
    num_edges = torch.bincount(rows.subgraph[rows.target[rows.target >= first] - first], minlength=chosen.total)
    return ROW_BYTES * num_rows + EDGE_BYTES * num_edges


def _ranges(selection: Selection, ids: Tensor) -> list[tuple[int, int]]:
    return list(zip(selection.subgraph_start[ids].tolist(), selection.num_subgraphs[ids].tolist(), strict=True))
