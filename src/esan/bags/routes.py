"""The arcs of a stage that read the rows of an earlier one, found in one compiled pass: no row is copied to be read."""

from torch import Tensor

from esan.bags.arcs import Arcs
from esan.bags.rows import Rows
from esan.bags.sums import Grouping
from esan.ops.numba.segments import routes


def arcs_from(
    rows: Rows, known: int, num_rows: int, num_arcs: int, copies: Grouping, weight: Tensor | None = None
) -> Arcs:
    """The first arcs of a bag's rows; a source behind the first `known` rows is the background row of its node.

    Args:
        rows: the rows of the bag, on a CPU.
        known: how many rows there are to read from.
        num_rows: how many there are to send to, `known` or more.
        num_arcs: how many arcs end at them.
        copies: these arcs by the arc of the graph.
        weight: the factor of each of their messages; None for 1.
    """
    source, target = rows.source[:num_arcs], rows.target[:num_arcs]
    found = routes(source, target, rows.node, rows.background, known, num_rows)
    arcs = Arcs(found.ends, copies, num_rows, weight)
    arcs.__dict__["out_of"] = Grouping.known(found.ends[0], known, found.order, found.first)
    arcs.into.__dict__["first"] = found.into
    return arcs
