"""`advise`: which policy a collection of graphs needs, if any, and what it costs."""

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from esan.bags.build.compact import compact_rows
from esan.checks import MOST_LAYERS, shown, whole_number
from esan.graphs import Graphs, Source
from esan.graphs.readers.one_graph import GraphLike
from esan.policies import EdgeDeletion, EgoNets, NodeDeletion, NodeMarking, Policy, short_name
from esan.wl.advising.advice import Advice, Option, SkippedPolicy
from esan.wl.advising.partition_quality import Judge, targets
from esan.wl.inputs import collection
from esan.wl.palette import Colours, Palette
from esan.wl.partition import classes
from esan.wl.registry import policy_for, test_named

POLICIES: tuple[Policy, ...] = (
    NodeDeletion(),
    EdgeDeletion(),
    EgoNets(hops=2),
    EgoNets(hops=2, marked=True),
    NodeMarking(),
)


def advise(
    graphs: Source | list[GraphLike],
    labels: Tensor | np.ndarray | Sequence[float] | None = None,
    *,
    policies: Sequence[Policy | str] = POLICIES,
    num_layers: int = 4,
    node_labels: bool = True,
    edge_labels: bool = True,
    most_pairs: int = 100_000_000,
) -> Advice:
    """How far each policy gets on your graphs, and the cheapest that suffices; whether 1-WL does already.

    DSS-WL is run only on the graphs that 1-WL confuses, since it refines 1-WL (every policy here keeps all nodes).

    Args:
        graphs: a PyG dataset, or a list of whatever `esan.graphs.graph_of` reads.
        labels: one per graph, whole numbers for classes or real ones for regression; None takes `y` of the graphs where
            it is one number a graph.
        policies: what to try, objects or names.
        num_layers: the depth of the network that rows are counted for, at least 1.
        node_labels: whether the lines of `x`, integers, are initial colours; False ignores them.
        edge_labels: whether the lines of `edge_attr`, integers, are labels of edges; False ignores them.
        most_pairs: a policy whose bags have more pairs together is skipped, and listed as such.
    """
    whole_number("num_layers", num_layers, 1, "Pass the depth of your network.", MOST_LAYERS)
    whole_number("most_pairs", most_pairs, 0, "Leave it out for 100 million.")
    if isinstance(policies, str | Policy) or not isinstance(policies, Sequence | set | frozenset):
        raise TypeError(f"Expected a list of policies (got {shown(policies)}). Pass e.g. ['ND', 'EGO(2)'].")
    wanted = [policy_for(test_named("dss"), policy) for policy in policies]
    read = collection(graphs)
    divide = partial(classes, node_labels=node_labels, edge_labels=edge_labels)
    judge = Judge(targets(read, labels))
    start = time.perf_counter()
    plain = _colours(divide(read, "1"))
    nodes = int(read.num_nodes.sum())
    first = judge.option("1", "", plain, plain, nodes, nodes, time.perf_counter() - start)
    alone = np.bincount(plain.values)[plain.values] == 1
    options: list[Option] = [first]
    skipped: list[SkippedPolicy] = []
    for policy in wanted:
        selection = policy.select(read)
        pairs = int((read.num_nodes * selection.num_subgraphs).sum())
        if pairs > most_pairs:
            skipped.append(SkippedPolicy(short_name(policy), pairs))
            continue
        rows = compact_rows(read, selection, num_layers).row_ends[-1]
        for test in ("ds", "dss"):
            start = time.perf_counter()
            if test == "ds":
                found = _colours(divide(read, "ds", policy))
            else:
                found = _refined(plain, read, alone, partial(divide, test="dss", policy=policy))
            seconds = time.perf_counter() - start
            options.append(judge.option(test, short_name(policy), found, plain, pairs, rows, seconds))
    return Advice(len(read), num_layers, tuple(options), tuple(skipped), _cheapest(options))


def _refined(plain: Colours, graphs: Graphs, alone: np.ndarray, divide: Callable[[Graphs], Tensor]) -> Colours:
    values = np.zeros(len(graphs), dtype=np.int64)
    if not alone.all():
        crowded = torch.from_numpy(np.flatnonzero(~alone))
        values[~alone] = divide(graphs.take(crowded)).numpy()
    return Palette().pair(plain, Colours(values, int(values.max()) + 1))


def _colours(found: Tensor) -> Colours:
    return Colours(found.numpy(), int(found.max()) + 1)


def _cheapest(options: list[Option]) -> Option:
    # Of two options with as many rows, DS comes before DSS: its network has no second branch.
    fewest = min(option.left for option in options)
    return min((option for option in options if option.left == fewest), key=lambda option: option.rows)
