"""The rule of 2-FWL (as strong as the paper's 3-WL): one colour per ordered pair of nodes, in every subgraph."""

from typing import NamedTuple

import numpy as np

from esan.bags.build.literal import literal_rows
from esan.graphs import Graphs
from esan.policies import Selection
from esan.wl.palette import Colours, Ints, Palette
from esan.wl.refinement import ColourRefinement, Labels, SeenCells, numpy

#: A round of 2-FWL lists every triple of nodes; beyond this many it would take tens of gigabytes.
_MOST_TRIPLES = 400_000_000


class _Triples(NamedTuple):
    """What cells (u, v) see through every node w: the place of the cell in the list, the cell (u, w) and (w, v)."""

    owner: Ints
    left: Ints
    right: Ints


class FWLRefinement(ColourRefinement):
    r"""2-FWL in every subgraph by itself; with the bag {G} it is 2-FWL.

    .. math:: c^{t+1}_{uv} = \mathrm{HASH}\big(c^t_{uv},\; \{\{(c^t_{uw}, c^t_{wv}) : w \in V\}\}\big)

    The initial colour of (u, v) says whether u is v, whether they are joined and by which label, and the labels and
    marks of both.
    """

    rule = "HASH(c(u,v), {{(c(u,w), c(w,v))}})"
    couples = True

    def __init__(self, graphs: Graphs, selection: Selection, labels: Labels) -> None:
        super().__init__(graphs, selection, labels)
        self._n = numpy(graphs.num_nodes)[self.subgraph_graph]
        triples = int((self._n.astype(float) ** 3).sum())  # as whole numbers, those of a large graph overflow
        if triples > _MOST_TRIPLES:
            raise ValueError(
                f"Expected at most {_MOST_TRIPLES:,} triples of nodes for 2-FWL (got {triples:,}: n³ a subgraph). "
                'Use smaller graphs or fewer at a time, or the test "dss", which needs n·m cells.'
            )
        cells = self._n**2
        self.cell_subgraph = np.repeat(np.arange(self._n.size), cells)
        self._first = np.cumsum(cells) - cells
        local = np.arange(self.cell_subgraph.size) - self._first[self.cell_subgraph]
        self._u: Ints
        self._v: Ints
        self._u, self._v = np.divmod(local, self._n[self.cell_subgraph])
        self.cell_node = numpy(graphs.node_start)[self.cell_graph] + self._u

    def initial(self, palette: Palette) -> Colours:
        rows = literal_rows(self.graphs, self.selection)
        first_row = np.cumsum(self._n) - self._n
        marked = Colours(numpy(rows.marked).astype(np.int64), 2)
        of_row = palette.pair(self.labels.node[numpy(rows.node)], marked)
        start = first_row[self.cell_subgraph]
        ends = palette.pair(of_row[start + self._u], of_row[start + self._v])

        s = numpy(rows.subgraph)[numpy(rows.target)]
        source, target = numpy(rows.source) - first_row[s], numpy(rows.target) - first_row[s]
        joined = np.zeros(self.cell_subgraph.size, dtype=np.int64)
        joined[self._first[s] + source * self._n[s] + target] = 1 + self.labels.edge.values[numpy(rows.edge_id)]
        same = Colours((self._u == self._v).astype(np.int64), 2)
        return palette.pair(palette.pair(ends, same), Colours(joined, self.labels.edge.count + 1))

    def refine(self, palette: Palette, colours: Colours) -> Colours:
        every = np.arange(self.cell_subgraph.size)
        through = self._through(every)
        both = colours.values[through.left] * colours.count + colours.values[through.right]
        return palette.pair(colours, palette.multiset(through.owner, Colours(both, colours.count**2), every.size))

    def seen(self, cells: Ints) -> SeenCells:
        through = self._through(cells)
        return SeenCells(np.append(0, np.cumsum(self._n[self.cell_subgraph[cells]])), through.left, through.right)

    def nodes_of(self, cell: int) -> tuple[int, ...]:
        return int(self._u[cell]), int(self._v[cell])

    def _through(self, cells: Ints) -> "_Triples":
        """What each of these cells sees through every node."""
        n, first = self._n[self.cell_subgraph[cells]], self._first[self.cell_subgraph[cells]]
        owner = np.repeat(np.arange(n.size), n)
        w = np.arange(owner.size) - np.repeat(np.cumsum(n) - n, n)
        left = (first + self._u[cells] * n)[owner] + w
        right = (first + self._v[cells])[owner] + w * n[owner]
        return _Triples(owner, left, right)
