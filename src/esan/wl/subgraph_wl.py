"""The rules of 1-WL, DS-WL and DSS-WL: one colour per (node, subgraph) pair, refined by what the pair can see."""

import numpy as np

from esan.bags.build.literal import literal_copies, literal_rows
from esan.bags.shared_edges import edges_of
from esan.graphs import Graphs
from esan.policies import Selection
from esan.wl.palette import Colours, Ints, Palette
from esan.wl.refinement import ColourRefinement, Labels, SeenCells, numpy


class DSRefinement(ColourRefinement):
    r"""DS-WL: 1-WL in every subgraph by itself; with the bag {G} it is 1-WL.

    .. math:: c^{t+1}_{v,S} = \mathrm{HASH}\big(c^t_{v,S},\; N^t_{v,S}\big), \quad
              N^t_{v,S} = \{\{c^t_{w,S} : w \sim_S v\}\}
    """

    rule = "HASH(c, N)"

    def __init__(self, graphs: Graphs, selection: Selection, labels: Labels) -> None:
        super().__init__(graphs, selection, labels)
        rows = literal_rows(graphs, selection)
        self.cell_subgraph, self.cell_node = numpy(rows.subgraph), numpy(rows.node)
        self._marked = numpy(rows.marked)
        self._source, self._target = numpy(rows.source), numpy(rows.target)
        self._edge_label = labels.edge[numpy(rows.edge_id)]

    def initial(self, palette: Palette) -> Colours:
        marked = Colours(self._marked.astype(np.int64), 2)
        return palette.pair(self.labels.node[self.cell_node], marked)

    def refine(self, palette: Palette, colours: Colours) -> Colours:
        return palette.pair(colours, self._neighbours(palette, colours))

    def seen(self, cells: Ints) -> SeenCells:
        first, end = np.searchsorted(self._target, cells), np.searchsorted(self._target, cells, side="right")
        ptr = np.append(0, np.cumsum(end - first))
        place = np.arange(ptr[-1]) + np.repeat(first - ptr[:-1], end - first)
        label = None if self._edge_label.count == 1 else self._edge_label.values[place]
        return SeenCells(ptr, self._source[place], label=label)

    def _neighbours(self, palette: Palette, colours: Colours) -> Colours:
        """N: what each cell sees of its neighbours in its own subgraph, along with the labels of the edges."""
        seen = _with_label(self._edge_label, colours[self._source])
        return palette.multiset(self._target, seen, len(colours))


class DSSRefinement(DSRefinement):
    r"""DSS-WL (Algorithm 2): a pair also sees its node, and its node's neighbours, in all subgraphs at once.

    .. math:: c^{t+1}_{v,S} = \mathrm{HASH}\big(c^t_{v,S},\; N^t_{v,S},\; C^t_v,\; M^t_v\big), \quad
              C^t_v = \{\{c^t_{v,R} : R \in \mathcal{G}\}\}, \quad M^t_v = \{\{C^t_w : w \sim v\}\}
    """

    rule = "HASH(c, N, C, M)"
    shares = True

    def refine(self, palette: Palette, colours: Colours) -> Colours:
        source, target = numpy(self.graphs.edge_index)
        nodes = self.graphs.node_graph.numel()
        across = palette.multiset(self.cell_node, colours, nodes)
        around = palette.multiset(target, _with_label(self.labels.edge, across[source]), nodes)
        shared = palette.pair(across, around)
        inside = palette.pair(colours, self._neighbours(palette, colours))
        return palette.pair(inside, shared[self.cell_node])


class ExcludingRefinement(DSRefinement):
    r"""DSS-WL with the aggregation that leaves the current subgraph out (Prop. 3, the strengthened result).

    .. math:: c^{t+1}_{v,S} = \mathrm{HASH}\big(c^t_{v,S},\; N^t_{v,S},\; C^t_{v \setminus S},\;
              \{\{C^t_{w \setminus S} : w \sim v\}\}\big), \quad
              C^t_{v \setminus S} = \{\{c^t_{v,R} : R \in \mathcal{G}, R \neq S\}\}
    """

    rule = "HASH(c, N, C without S, M without S)"
    shares = True

    def __init__(self, graphs: Graphs, selection: Selection, labels: Labels) -> None:
        super().__init__(graphs, selection, labels)
        copies = literal_copies(graphs, selection, edges_of(graphs))
        self._copy_source, self._copy_target = numpy(copies.edge_index)
        self._copy_label = labels.edge[numpy(copies.edge_id)]

    def refine(self, palette: Palette, colours: Colours) -> Colours:
        others = palette.others(self.cell_node, colours, self.graphs.node_graph.numel())
        seen = _with_label(self._copy_label, others[self._copy_source])
        around = palette.multiset(self._copy_target, seen, len(colours))
        inside = palette.pair(colours, self._neighbours(palette, colours))
        return palette.pair(palette.pair(inside, others), around)


def _with_label(label: Colours, colours: Colours) -> Colours:
    if label.count == 1:
        return colours
    return Colours(label.values * colours.count + colours.values, label.count * colours.count)
