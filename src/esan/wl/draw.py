"""Pictures of a refinement: two graphs, or their subgraphs, one line an iteration, nodes in their colours."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import torch
from torch import Tensor

from esan.bags.build.literal import literal_rows
from esan.checks import whole_number
from esan.graphs import Graphs
from esan.graphs.readers.anything import GraphLike
from esan.policies import Policy
from esan.wl.colouring import Colouring, colourings
from esan.wl.inputs import collection
from esan.wl.kinds import policy_for, short_name, test_named
from esan.wl.pictures import picture_file
from esan.wl.tones import Tones

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Chosen to differ in lightness too; nodes carry the number of their colour besides.
_TONES = ("#c9d7e8", "#e8763a", "#3f8f5f", "#8a5bb5", "#f2c12e", "#4aa3c7", "#b03a5b", "#9aa53b", "#6b6b6b", "#e39ac0")

#: More nodes than this cannot be told apart by eye.
_MOST_NODES = 64
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
    """How a test parts two graphs, or fails to: a line an iteration, what is alike in the same colour.

    On the left of each half the whole graph under 1-WL; beside it, for a test on bags, its subgraphs. Subgraphs that
    end up alike are drawn once, with their number. Deleted edges are dotted, marked nodes ringed. Needs matplotlib.

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
    plain = Tones(colourings(graphs, "1"))
    bags = Tones(colourings(graphs, test, policy)) if kind.subgraphs else None
    return _Picture(graphs, chosen, plain, bags, test, most, titles).draw(path)


class _Picture:
    def __init__(
        self,
        graphs: Graphs,
        policy: Policy,
        plain: Tones,
        bags: Tones | None,
        test: str,
        most: int,
        titles: tuple[str, str],
    ) -> None:
        self._graphs, self._policy, self._titles, self._test = graphs, policy, titles, test
        self._plain, self._bags = plain, bags
        self._selection = policy.select(graphs)
        self._rows = literal_rows(graphs, self._selection)
        self._panels = [_panels(bags.found[graph], graph, most) if bags else [] for graph in (0, 1)]
        last = bags or plain
        self._lines = last.rounds if last.parted is None else last.parted + 1
        self._places = [_layout(graphs, graph) for graph in (0, 1)]

    def draw(self, path: str | Path | None) -> "Figure":
        from matplotlib.figure import Figure

        halves = [1 + len(panels) for panels in self._panels]
        columns = sum(halves) + 1
        widths = [1.0] * halves[0] + [0.85] + [1.0] * halves[1]
        figure = Figure(figsize=(2.0 * sum(widths) + 0.9, 2.2 * self._lines + 1.0), layout="constrained")
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
            lines = last.meanings(t, self._rows)
            lines = lines[:_MOST_MEANINGS] + ["…"] * (len(lines) > _MOST_MEANINGS)
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
        numbers = self._plain.of(graph, t, None)
        own = "\n(colours of its own)" if self._bags else ""
        title = f"{self._titles[graph]} under 1-WL{own}" if t == 0 else ""
        self._nodes(axis, graph, edges, [], numbers, [], title)

    def _subgraph(self, axis: Any, panel: _Panel, t: int) -> None:
        assert self._bags is not None
        start = int(self._graphs.node_start[panel.graph])
        number = int(self._selection.subgraph_start[panel.graph]) + panel.subgraph
        here = self._rows.subgraph[self._rows.target] == number
        arcs = self._rows.edge_id[here]
        there = torch.unique(self._graphs.undirected_edge[arcs])
        mine = (self._graphs.edge_graph == panel.graph).nonzero().reshape(-1)
        gone = mine[~torch.isin(mine, there)]
        marked = self._rows.node[self._rows.marked & (self._rows.subgraph == number)] - start

        def ends(edges: Tensor) -> list[list[int]]:
            return (self._graphs.edges[:, edges] - start).t().tolist()

        copies = f"{panel.copies} subgraphs like this" if panel.copies > 1 else "1 subgraph"
        title = f"bag of {self._titles[panel.graph]}:\n{copies}" if t == 0 else ""
        numbers = self._bags.of(panel.graph, t, panel.subgraph)
        self._nodes(axis, panel.graph, ends(there), ends(gone), numbers, marked.tolist(), title)

    def _nodes(
        self,
        axis: Any,
        graph: int,
        edges: list[list[int]],
        gone: list[list[int]],
        numbers: list[int],
        marked: list[int],
        title: str,
    ) -> None:
        place = self._places[graph]
        few = len(numbers) <= 10
        width = 1.2 if few else 0.7
        # Edges that a subgraph does not have are dotted where few are gone, and left out where few are kept.
        for style, group in (("-", edges), (":", gone if len(gone) <= len(edges) else [])):
            for u, v in group:
                xs, ys = zip(place[u], place[v], strict=True)
                axis.plot(xs, ys, style, color="#777777" if style == "-" else "#c04040", linewidth=width, zorder=1)
        size = 230 if few else 120
        xs, ys = zip(*place, strict=True)
        rings = [2.6 if v in marked else 0.8 for v in range(len(numbers))]
        tones = [_TONES[number % len(_TONES)] for number in numbers]
        axis.scatter(xs, ys, s=size, c=tones, edgecolors="black", linewidths=rings, zorder=2)
        for (x, y), number in zip(place, numbers, strict=True):
            axis.text(x, y, str(number + 1), ha="center", va="center", fontsize=8 if few else 6, zorder=3)
        counts = [f"{numbers.count(number)} of colour {number + 1}" for number in sorted(set(numbers))]
        axis.set_xlabel("\n".join(counts[:6]) + ("\n…" if len(counts) > 6 else ""), fontsize=8)
        axis.set_title(title, fontsize=9)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.set_frame_on(False)
        axis.set_aspect("equal")
        axis.margins(0.18)


def _panels(found: Colouring, graph: int, most: int) -> list[_Panel]:
    """One subgraph for each colour that subgraphs have in the end, the most frequent first."""
    last = found.subgraphs[-1]
    colours, often = last.unique(return_counts=True)
    chosen = often.argsort(descending=True, stable=True)[:most]
    return [_Panel(graph, int((last == colours[i]).nonzero()[0]), int(often[i])) for i in chosen]


def _layout(graphs: Graphs, graph: int) -> list[tuple[float, float]]:
    """Components side by side, each in a circle in the order of its nodes, or by springs where it is sparse."""
    start, n = int(graphs.node_start[graph]), int(graphs.num_nodes[graph])
    whole = nx.Graph()
    whole.add_nodes_from(range(n))
    whole.add_edges_from((graphs.edges[:, graphs.edge_graph == graph] - start).t().tolist())
    place: dict[int, tuple[float, float]] = {}
    left = 0.0
    for component in sorted(nx.connected_components(whole), key=min):
        part = whole.subgraph(sorted(component))
        tree_like = part.number_of_edges() < len(part) and len(part) > 2
        spots = nx.spring_layout(part, seed=0) if tree_like else nx.circular_layout(sorted(component))
        radius = 0.55 * len(part) ** 0.5 if len(part) > 1 else 0.2
        for node, (x, y) in spots.items():
            place[node] = (left + radius * (1 + float(x)), radius * float(y))
        left += 2 * radius + 0.5
    return [place[v] for v in range(n)]
