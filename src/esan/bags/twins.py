"""`Twins`: rows of a stage that a layer would compute alike, computed once; on a CPU."""

from dataclasses import dataclass

import torch
from torch import Tensor

from esan.bags.arcs import Arcs
from esan.bags.sums import Grouping

#: Twins are worth their while if so small a part of the rows is left.
_WORTH = 0.75


@dataclass(frozen=True, eq=False)
class Twins:
    r"""The different rows of a stage, as they come of the rows before.

    Two pairs (v, s) and (v, s') that go on from the same row and receive the same messages have the same features, as
    those deep inside two ego-networks have in the first layers: there v sees nothing of where either ends.

    Attributes:
        rows: the rows of the stage by the different row that each is like.
        arcs: the arcs into the different rows.
        weight: how many pairs each different row stands for, in single precision.
        node: its node.
        by_node: the different rows by their node.
    """

    rows: Grouping
    arcs: Arcs
    weight: Tensor
    node: Tensor
    by_node: Grouping

    @staticmethod
    def of(arcs: Arcs, known: int, node: Tensor, nodes: int, weight: Tensor) -> "Twins | None":
        """The twins among the rows that these arcs end at; None where there are few.

        Args:
            arcs: read from the first `known` rows, as `Stage.arcs_from` gives them.
            known: how many rows there are to read from; the first of them are the nodes'.
            node: the node of each row.
            nodes: how many nodes there are.
            weight: how many pairs each row stands for, in single precision.
        """
        from esan.kernels import twin_loops

        source, arc, first = (x.numpy() for x in (arcs.source, arcs.arc, arcs.into.first))
        like, reps = twin_loops.twins(source, arc, first, node.numpy(), nodes, known)
        if len(reps) > _WORTH * len(like):
            return None
        ends, copied, into, order, out_first = map(
            torch.from_numpy, twin_loops.arcs_into(reps, source, arc, first, known)
        )
        rows, own = Grouping(torch.from_numpy(like), len(reps)), node[torch.from_numpy(reps)]
        by_node = Grouping(own, nodes)
        found = Arcs(ends, Grouping(copied, arcs.copies.size), len(reps), by_node=by_node)
        found.__dict__["out_of"] = Grouping.known(ends[0], known, order, out_first)
        found.into.__dict__["first"] = into
        total = torch.zeros(len(reps), dtype=weight.dtype).index_add_(0, rows.owner, weight)
        return Twins(rows, found, total, own, by_node)
