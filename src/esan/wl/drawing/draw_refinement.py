"""Pictures of a refinement: two graphs, or their subgraphs, one row per round, nodes in their colours."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from esan.bags.build.literal import literal_rows
from esan.checks import whole_number
from esan.graphs import Graphs
from esan.graphs.readers.one_graph import GraphLike
from esan.policies import Augmented, EgoNets, Policy, short_name
from esan.wl.drawing.picture_file import picture_file
from esan.wl.drawing.positions import Point, places
from esan.wl.history import History
from esan.wl.inputs import collection
from esan.wl.registry import policy_for, test_named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Chosen to differ in lightness too; nodes carry the number of their colour besides.
_TONES = (
    "#b5cfe9", "#e0752f", "#2f7d5b", "#f2cb4b", "#7d57b3", "#7cc4c9", "#a8324f", "#9cab3c", "#57606c", "#eba9cd",
    "#2b4b8c", "#c9e3a6", "#8b5a2b", "#ff9d80", "#00796b", "#cdb4f0", "#6d1f4f", "#f7e3b5", "#3b8fd0", "#46591f",
)  # fmt: skip
#: Tones on which a number is white.
_DARK = frozenset({"#2f7d5b", "#7d57b3", "#a8324f", "#57606c", "#2b4b8c", "#8b5a2b", "#00796b", "#6d1f4f", "#46591f"})

#: More nodes than this cannot be told apart by eye.
_MOST_NODES = 120
#: Smaller numbers cannot be read, in points; then colours speak alone.
_LEAST_LETTERS = 3.2
#: Longer titles of a drawing would run into the next.
_LONGEST_TITLE = 16
#: How many colours are put in words beside a round.
_MOST_MEANINGS = 8


@dataclass(frozen=True)
class _Panel:
    """One subgraph of one graph, standing for all that end up with its colour."""

    graph: int
    subgraph: int
    copies: int


def draw_refinement(
    first: GraphLike,
    second: GraphLike,
    test: str = "dss",
    policy: Policy | str | None = None,
    *,
    path: str | Path | None = None,
    most: int = 3,
    titles: tuple[str, str] = ("G", "H"),
) -> "Figure":
    """How a test parts two graphs, or fails to: one row per round, what is alike in the same colour.

    On the left of each half the whole graph under 1-WL; beside it, for a test on bags, its subgraphs. Subgraphs that
    end up alike are drawn once, with their number. Deleted edges are dashed, roots and marked nodes
    ringed; colours and subgraphs in which the graphs differ come first. Needs matplotlib.

    Args:
        first: one graph.
        second: the other.
        test: "1", "ds", "dss" or "dss-excluding".
        policy: how subgraphs are selected.
        path: where the picture is saved, if anywhere.
        most: how many different subgraphs of each graph are drawn at most, at least 1.
        titles: what the two graphs are called.
    """
    kind = test_named(test)
    if kind.couples:
        raise ValueError(
            f'Expected a test that colours nodes (got "{test}", which colours couples). Use "1", "ds" or "dss".'
        )
    whole_number("most, the subgraphs drawn of each graph,", most, 1, "Pass 3, say.", 1000)
    if path is not None:
        path = picture_file(path)
    graphs = collection([first, second])
    largest = int(graphs.num_nodes.max())
    if largest > _MOST_NODES:
        raise ValueError(
            f"Expected graphs of at most {_MOST_NODES} nodes in a picture (got {largest}). Draw smaller ones."
        )
    chosen = policy_for(kind, policy)
    plain = History(graphs, "1")
    bags = History(graphs, test, policy) if kind.subgraphs else None
    spots = [places(graphs, graph, thing) for graph, thing in enumerate((first, second))]
    return _Picture(graphs, chosen, plain, bags, test, most, titles, spots).draw(path)


class _Picture:
    def __init__(
        self,
        graphs: Graphs,
        policy: Policy,
        plain: History,
        bags: History | None,
        test: str,
        most: int,
        titles: tuple[str, str],
        spots: list[list[Point]],
    ) -> None:
        self._graphs, self._policy, self._titles, self._test = graphs, policy, titles, test
        self._plain, self._bags = plain, bags
        self._selection = policy.select(graphs)
        self._rows = literal_rows(graphs, self._selection)
        self._panels = [_panels(bags, graph, most) if bags else [] for graph in (0, 1)]
        last = bags or plain
        self._lines = last.rounds if last.parted is None else last.parted + 1
        self._places = spots
        # More nodes need a larger figure, up to the width of a page.
        self._side = min(2.0 + 0.035 * max(int(graphs.num_nodes.max()) - 10, 0), 3.6)

    def draw(self, path: str | Path | None) -> "Figure":
        from matplotlib.figure import Figure

        halves = [1 + len(panels) for panels in self._panels]
        columns = sum(halves) + 1
        widths = [1.0] * halves[0] + [0.85] + [1.0] * halves[1]
        size = (self._side * sum(widths) + 0.9, (self._side + 0.35) * self._lines + 1.0)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(self._lines, columns, squeeze=False, gridspec_kw={"width_ratios": widths})
        for t in range(self._lines):
            self._legend(axes[t, halves[0]], t)
            for graph, first in ((0, 0), (1, halves[0] + 1)):
                self._whole(axes[t, first], graph, t)
                for place, panel in enumerate(self._panels[graph]):
                    self._subgraph(axes[t, first + 1 + place], panel, t)
            axes[t, 0].set_ylabel(self._line_title(t), fontsize=10, labelpad=10)
            axes[t, 0].axis("on")
            axes[t, 0].set_frame_on(False)
        figure.suptitle(self._title(), fontsize=12)
        if path is not None:
            figure.savefig(path, dpi=130)
        return figure

    def _legend(self, axis: Any, t: int) -> None:
        axis.axis("off")
        last = self._bags or self._plain
        if t == 0:
            lines = ["initial colours"]
        elif t >= last.rounds:
            lines = []
        else:
            numbers = _by_difference(last, t)
            lines = _meanings(last, t, numbers[:_MOST_MEANINGS]) + ["…"] * (len(numbers) > _MOST_MEANINGS)
            if self._test not in ("1", "ds"):
                lines.append("(and its node in all subgraphs)")
        axis.text(0.5, 0.5, "\n".join(lines), ha="center", va="center", fontsize=8, linespacing=1.5)

    def _title(self) -> str:
        last = self._bags or self._plain
        name = "1-WL" if self._bags is None else f"{self._test.upper()}-WL with {short_name(self._policy)}"
        end = f"parts them in round {last.parted}" if last.parted is not None else "does not part them"
        both = f"{self._titles[0]} and {self._titles[1]}"
        if self._bags is None:
            return f"{both}: {name} {end}"
        plain = "cannot part them" if self._plain.parted is None else f"parts them in round {self._plain.parted}"
        return f"{both}: 1-WL {plain}; {name} {end}"

    def _line_title(self, t: int) -> str:
        last = self._bags or self._plain
        if last.parted == t:
            state = "the colours differ"
        else:
            state = "same colours" + (", stable" if t == last.rounds - 1 and t else "")
        return f"round {t}\n{state}"

    def _whole(self, axis: Any, graph: int, t: int) -> None:
        start = int(self._graphs.node_start[graph])
        mine = self._graphs.edge_graph == graph
        edges = (self._graphs.edges[:, mine] - start).t().tolist()
        numbers = self._plain.of(graph, t)
        own = "\n(colours of its own)" if self._bags else ""
        title = f"{_short(self._titles[graph])} under 1-WL{own}" if t == 0 else ""
        self._nodes(axis, graph, edges, [], numbers, [], title, _by_difference(self._plain, t))

    def _subgraph(self, axis: Any, panel: _Panel, t: int) -> None:
        assert self._bags is not None
        start = int(self._graphs.node_start[panel.graph])
        number = int(self._selection.subgraph_start[panel.graph]) + panel.subgraph
        here = self._rows.subgraph[self._rows.target] == number
        edge_ids = self._rows.edge_id[here]
        there = torch.unique(self._graphs.undirected_edge[edge_ids])
        mine = (self._graphs.edge_graph == panel.graph).nonzero().reshape(-1)
        gone = mine[~torch.isin(mine, there)]
        marked = self._rows.node[self._rows.marked & (self._rows.subgraph == number)] - start

        def ends(edges: Tensor) -> list[list[int]]:
            return (self._graphs.edges[:, edges] - start).t().tolist()

        roots = self._roots(panel)
        copies = f"{panel.copies} subgraphs like this" if panel.copies > 1 else "1 subgraph"
        title = f"bag of {_short(self._titles[panel.graph])}:\n{copies}" if t == 0 else ""
        numbers = self._bags.of(panel.graph, t, panel.subgraph)
        first = _by_difference(self._bags, t)
        self._nodes(axis, panel.graph, ends(there), ends(gone), numbers, roots or marked.tolist(), title, first)

    def _roots(self, panel: _Panel) -> list[int]:
        """The node that an ego-network is around: it has a ring, marked or not."""
        policy = self._policy.policy if isinstance(self._policy, Augmented) else self._policy
        rooted = isinstance(policy, EgoNets) and panel.subgraph < int(self._graphs.num_nodes[panel.graph])
        return [panel.subgraph] if rooted else []

    def _nodes(
        self,
        axis: Any,
        graph: int,
        edges: list[list[int]],
        gone: list[list[int]],
        numbers: list[int],
        marked: list[int],
        title: str,
        first: list[int],
    ) -> None:
        place = np.array(self._places[graph])
        n = len(numbers)
        # The unit square is 1.36 wide with its margins; its radius is a third of the least distance at most.
        inch = self._side / 1.36
        nearest = min((float(np.hypot(*(place[u] - place[:u]).T).min()) for u in range(1, n)), default=1.0)
        radius = max(min(0.115, 0.3 * nearest * inch, 0.5 * inch / (n + 1) ** 0.5), 0.035)
        width = 1.2 if n <= 10 else 0.8 if n <= 30 else 0.5
        # Edges that a subgraph does not have are dashed where few are gone, and faint where few are kept.
        faint = len(gone) > len(edges)
        for group, style, colour in (
            (gone, (0, (1, 2)) if faint else (0, (3, 2)), "#c9ced6" if faint else "#c04040"),
            (edges, "-", "#777777"),
        ):
            for u, v in group:
                line = width * (0.7 if faint and group is gone else 1.3 if group is gone else 1.0)
                axis.plot(*place[[u, v]].T, linestyle=style, color=colour, linewidth=line, zorder=1)
        rings = [2.4 if v in marked else 0.7 for v in range(n)]
        tones = [_TONES[number % len(_TONES)] for number in numbers]
        axis.scatter(*place.T, s=(144 * radius) ** 2, c=tones, edgecolors="black", linewidths=rings, zorder=2)
        letters = min(8.0, 72 * radius * 1.05)
        if letters >= _LEAST_LETTERS:
            for (x, y), number, tone in zip(place, numbers, tones, strict=True):
                colour = "white" if tone in _DARK else "black"
                size = letters * (0.8 if number >= 99 else 1.0)
                axis.text(x, y, str(number + 1), ha="center", va="center", fontsize=size, color=colour, zorder=3)
        order = [number for number in first if number in numbers]
        counts = [f"{numbers.count(number)} of colour {number + 1}" for number in order]
        axis.set_xlabel("\n".join(counts[:6]) + ("\n…" if len(counts) > 6 else ""), fontsize=8)
        axis.set_title(title, fontsize=9)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.set_frame_on(False)
        axis.set_aspect("equal")
        axis.set_xlim(-0.18, 1.18)
        axis.set_ylim(1.18, -0.18)


def _short(title: str) -> str:
    """A title that fits above a drawing."""
    return title if len(title) <= _LONGEST_TITLE else f"{title[: _LONGEST_TITLE - 1]}…"


def _by_difference(found: History, t: int) -> list[int]:
    """The colours of a round: first those that one graph lacks, then those that one has more often, then the rest."""
    t = min(t, found.rounds - 1)
    total = int(found.numbers[t].max()) + 1
    one, other = (np.bincount(np.array(found.of(graph, t)), minlength=total) for graph in (0, 1))
    return np.lexsort((np.arange(total), one == other, np.minimum(one, other) > 0)).tolist()


def _meanings(found: History, t: int, numbers: list[int]) -> list[str]:
    """What these colours stand for: the colour before each and those of the neighbours."""
    seen = found.meanings(t)
    texts = []
    for number in numbers:
        saw = " ".join(str(int(one) + 1) for one in seen.saw[seen.ptr[number] : seen.ptr[number + 1]])
        texts.append(f"{number + 1} = was {int(seen.was[number]) + 1}, saw {saw or 'nothing'}")
    return texts


def _panels(found: History, graph: int, most: int) -> list[_Panel]:
    """One subgraph for each colour that subgraphs have in the end: those that the other graph lacks, then the rest."""
    stop = found.rounds - 1 if found.parted is None else found.parted
    last, compared = found.subgraph_colours[-1], found.subgraph_colours[stop]
    mine = found.refinement.subgraph_graph == graph
    colours, first, often = np.unique(last[mine], return_index=True, return_counts=True)
    shared = np.isin(compared[mine][first], compared[~mine])
    chosen = np.lexsort((colours, -often, shared))[:most]
    return [_Panel(graph, int(first[i]), int(often[i])) for i in chosen]
