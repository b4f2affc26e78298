"""`advise`: which policy a collection of graphs needs, if any, and what it costs."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from esan.bags.compact import compact_rows
from esan.graphs import Graphs, Source
from esan.graphs.things import Thing
from esan.policies import EdgeDeletion, EgoNets, NodeDeletion, NodeMarking, Policy, policy_named
from esan.wl.inputs import collection
from esan.wl.kinds import short_name
from esan.wl.palette import Colours, Ints, Palette
from esan.wl.partition import classes

POLICIES: tuple[Policy, ...] = (
    NodeDeletion(),
    EdgeDeletion(),
    EgoNets(hops=2),
    EgoNets(hops=2, marked=True),
    NodeMarking(),
)


@dataclass(frozen=True)
class Option:
    """What one test with one policy makes of a collection.

    Attributes:
        test: "1", "ds" or "dss".
        policy: the policy by its short name, or as `repr` writes it where it has none; "" for 1-WL.
        classes: how many classes it divides the graphs into.
        confused: how many pairs of graphs it leaves in one class; isomorphic ones are always among them.
        split: how many of the pairs that 1-WL confuses it splits.
        lost: how many of the pairs that 1-WL splits it confuses (DS-WL may, with a bag that omits the graph).
        confused_labels: how many pairs with *different labels* it leaves in one class; None without labels.
        error_floor: no network that is bounded by this test can be wrong by less on these graphs: the share of
            graphs for whole numbers as labels, the mean absolute error for real ones; None without labels.
        pairs: (node, subgraph) pairs of all bags.
        rows: rows that the compact bags store for them, which is what a network works on.
        seconds: how long the test took here.
    """

    test: str
    policy: str
    classes: int
    confused: int
    split: int
    lost: int
    confused_labels: int | None
    error_floor: float | None
    pairs: int
    rows: int
    seconds: float

    @property
    def name(self) -> str:
        return "1-WL" if self.test == "1" else f"{self.test.upper()}-WL {self.policy}"


@dataclass(frozen=True)
class Advice:
    """What `advise` found.

    Attributes:
        graphs: how many graphs there are.
        num_layers: the depth that rows were counted for.
        options: 1-WL first, then DS-WL and DSS-WL with each policy.
        skipped: policies whose bags were too large to test, with their pairs.
        best: the cheapest option, in rows, among those that leave the fewest pairs confused: pairs with different
            labels, or any where there are no labels.
    """

    graphs: int
    num_layers: int
    options: tuple[Option, ...]
    skipped: tuple[tuple[str, int], ...]
    best: Option

    @property
    def needs_subgraphs(self) -> bool:
        """Whether anything tested here beats 1-WL on these graphs."""
        return self.best.test != "1"

    @property
    def text(self) -> str:
        """The advice in words."""
        plain, best = self.options[0], self.best
        kind = "" if plain.confused_labels is None else " with different labels"
        of_plain = plain.confused if plain.confused_labels is None else plain.confused_labels
        of_best = best.confused if best.confused_labels is None else best.confused_labels
        if not self.needs_subgraphs:
            again = "and no policy tested here splits one more" if of_plain else "so nothing is left to split"
            return f"1-WL suffices: it confuses {_counted(of_plain)}{kind}, {again}. A plain network will do."
        rest = "none is left" if not of_best else f"{_counted(of_best)} left, which no policy tested here splits"
        return (
            f"1-WL confuses {_counted(of_plain)}{kind}; {best.name} is the cheapest that suffices: {rest}, for "
            f"{best.rows / plain.rows:.1f} times the rows of the plain graphs."
        )

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {**asdict(self), "needs_subgraphs": self.needs_subgraphs, "text": self.text}


def advise(
    graphs: Source | list[Thing],
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
        labels: one a graph, whole numbers for classes or real ones for regression; None takes `y` of the graphs where
            it is one number a graph.
        policies: what to try, objects or names.
        num_layers: the depth of the network that rows are counted for.
        node_labels: whether the lines of `x`, integers, are initial colours; False ignores them.
        edge_labels: whether the lines of `edge_attr`, integers, are labels of edges; False ignores them.
        most_pairs: a policy whose bags have more pairs together is skipped, and listed as such.
    """
    read = collection(graphs)
    wanted = [policy_named(policy) if isinstance(policy, str) else policy for policy in policies]
    divide = partial(classes, node_labels=node_labels, edge_labels=edge_labels)
    judge = _Judge(_targets(read, labels))
    start = time.perf_counter()
    plain = _colours(divide(read, "1"))
    nodes = int(read.num_nodes.sum())
    first = judge.option("1", "", plain, plain, nodes, nodes, time.perf_counter() - start)
    alone = np.bincount(plain.values)[plain.values] == 1
    options, skipped = [first], []
    for policy in wanted:
        selection = policy.select(read)
        pairs = int((read.num_nodes * selection.num_subgraphs).sum())
        if pairs > most_pairs:
            skipped.append((short_name(policy), pairs))
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


def _counted(pairs: int) -> str:
    return f"{pairs:,} pair{'' if pairs == 1 else 's'} of graphs"


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
    def left(option: Option) -> int:
        return option.confused if option.confused_labels is None else option.confused_labels

    fewest = min(left(option) for option in options)
    return min((option for option in options if left(option) == fewest), key=lambda option: option.rows)


def _targets(graphs: Graphs, labels: Tensor | np.ndarray | Sequence[float] | None) -> Ints | np.ndarray | None:
    given = labels is not None
    if labels is None:
        if graphs.y is None or graphs.y_level != "graph" or graphs.y.reshape(len(graphs), -1).size(1) != 1:
            return None
        labels = graphs.y
    values = torch.as_tensor(labels).detach().cpu()
    if values.numel() != len(graphs):
        raise ValueError(
            f"Expected one label a graph, {len(graphs)} in all (got {values.numel()}). Pass one number for each."
        )
    if values.is_floating_point() and bool(values.isnan().any()):
        where = "labels" if given else "y"
        raise ValueError(f"Expected a label for every graph (got NaN in {where}). Leave those graphs out.")
    values = values.reshape(-1)
    if values.is_floating_point() and bool((values == values.round()).all()):
        values = values.long()
    return values.numpy()


class _Judge:
    """Compares partitions with that of 1-WL and with the labels."""

    def __init__(self, labels: np.ndarray | None) -> None:
        self._labels = labels
        if labels is not None:
            _, kind = np.unique(labels, return_inverse=True)
            self._kind = Colours(kind.astype(np.int64), int(kind.max()) + 1)

    def option(
        self, test: str, policy: str, found: Colours, plain: Colours, pairs: int, rows: int, seconds: float
    ) -> Option:
        confused, common = _couples(found), _couples(Palette().pair(found, plain))
        bare = Option(
            test=test,
            policy=policy,
            classes=found.count,
            confused=confused,
            split=_couples(plain) - common,
            lost=confused - common,
            confused_labels=None,
            error_floor=None,
            pairs=pairs,
            rows=rows,
            seconds=round(seconds, 3),
        )
        if self._labels is None:
            return bare
        same = _couples(Palette().pair(found, self._kind))
        return replace(bare, confused_labels=confused - same, error_floor=self._floor(found))

    def _floor(self, found: Colours) -> float:
        """The least error of any function that is constant on each class."""
        assert self._labels is not None
        order = np.lexsort((self._labels, found.values))
        size = np.bincount(found.values, minlength=found.count)
        if np.issubdtype(self._labels.dtype, np.integer):
            both = Palette().pair(found, self._kind)
            often = np.bincount(both.values, minlength=both.count)[both.values]
            most = np.zeros(found.count, dtype=np.int64)
            np.maximum.at(most, found.values, often)
            return float((size - most).sum() / len(found))
        # The median is the constant with the least absolute error.
        middle = self._labels[order][np.cumsum(size) - size + (size - 1) // 2]
        return float(np.abs(self._labels - middle[found.values]).mean())


def _couples(found: Colours) -> int:
    """How many pairs of graphs share a class."""
    size = np.bincount(found.values)
    return int((size * (size - 1) // 2).sum())
