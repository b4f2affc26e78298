"""Which rows of a compact bag a network cannot tell apart, layer by layer: colour refinement, by compiled loops."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from esan.bags.arcs import Arcs
from esan.bags.bag import Bag
from esan.bags.coloured import ColouredStage, Read
from esan.bags.stage import Stage
from esan.bags.sums import Grouping
from esan.ops.numba.colours import Pooled
from esan.ops.numba.workspace import empty_numbers

#: Colours are worth their while if no larger part of the rows is left: of the first layer, and of all layers so far.
_FIRST, _WORTH = 0.5, 0.85


@dataclass(frozen=True)
class Sharing:
    """How a layer shares over the bag.

    Attributes:
        adjacency: from `ADJACENCIES`.
        mean: whether it takes the mean over the bag, not the sum.
    """

    adjacency: str
    mean: bool


@dataclass(frozen=True, eq=False)
class Alike:
    """What a network does not tell apart from the start.

    Attributes:
        nodes: a number a node, the same only where the input has the same line.
        arcs: a number an arc of the graphs, the same only where messages along them have the same features.
        layers: how each layer shares; None for one that does not.
    """

    nodes: Tensor
    arcs: Tensor
    layers: Sequence[Sharing | None]


def coloured_stages(bag: Bag, alike: Alike) -> list[ColouredStage] | None:
    """The colours of the input and of each layer; None where most rows differ.

    Args:
        bag: a compact bag on a CPU.
        alike: what the network does not tell apart from the start.
    """
    from esan.ops.numba import colour_loops

    # Where a list of keys begins is kept in 32 bits.
    if 4 * bag.num_rows + bag.rows.source.numel() >= 2**32:
        return None
    begin = torch.from_numpy(colour_loops.begins(bag.rows.target.numpy(), bag.num_rows))
    stage, colours, differing, rows = bag.stage(0), _input(bag.stage(0), alike.nodes), 0, 0
    found = []
    for t, sharing in enumerate(alike.layers, start=1):
        pooled, beside = None, torch.zeros_like(alike.nodes)
        if sharing is not None:
            pooled, number = _pooled(stage, colours, sharing)
            beside = _heard(bag, number, alike.arcs, sharing)
        found.append(colours.stage_of(stage, pooled))
        stage = bag.stage(t)
        colours = _refined(bag, stage, colours, beside, begin, alike.arcs)
        differing, rows = differing + colours.count, rows + stage.num_rows
        if differing > (_FIRST if t == 1 else _WORTH) * rows:
            return None
    return [*found, colours.stage_of(stage, None)]


def numbered(lines: Tensor) -> tuple[Tensor, Tensor]:
    """A number for each line, the same for the same and in the order in which they are met; the first line of each."""
    from esan.ops.numba import colour_loops

    lines = lines.detach()
    lines = lines.flatten(1) if lines.dim() > 1 else lines[:, None]
    whole = lines.double().view(torch.int64) if lines.is_floating_point() else lines.long()
    number, met = colour_loops.numbered(whole.contiguous().numpy())
    return torch.from_numpy(number), torch.from_numpy(met)


@dataclass(frozen=True, eq=False)
class _Colours:
    """The colour of each row, and of each colour the first row, its weight and what it is computed from."""

    colour: Tensor
    met: Tensor
    weight: Tensor
    read: Read | None

    @property
    def count(self) -> int:
        return self.met.numel()

    def stage_of(self, stage: Stage, pooled: Pooled | None) -> ColouredStage:
        return ColouredStage(stage, Grouping(self.colour, self.count), self.met, self.weight, self.read, pooled)


def _input(stage: Stage, nodes: Tensor) -> _Colours:
    colour, met = numbered(torch.stack([nodes[stage.node], stage.marked.long()], 1))
    weight = torch.zeros(met.numel(), dtype=torch.double).index_add_(0, colour, _weight(stage).double())
    return _Colours(colour, met, weight, None)


def _weight(stage: Stage) -> Tensor:
    assert stage.norm_weight is not None
    return stage.norm_weight


def _refined(bag: Bag, stage: Stage, before: _Colours, beside: Tensor, begin: Tensor, kinds: Tensor) -> _Colours:
    """The colours behind a layer, whose nodes share alike where `beside` is the same."""
    from esan.ops.numba import colour_loops

    rows = bag.rows
    of_rows, of_arcs = empty_numbers(4 * stage.num_rows).view(4, -1), empty_numbers(4 * stage.num_arcs).view(4, -1)
    by_source = empty_numbers(before.count)
    # How many go on from each colour, a table of lists of keys, and these: one an arc, and four a row.
    scratch = before.count + colour_loops.room(stage.num_rows) + stage.num_arcs + 4 * stage.num_rows
    count, total, weight = colour_loops.refined(
        *_arrays(before.colour, beside, rows.node), rows.background,
        *_arrays(rows.source, rows.arc, begin, kinds, _weight(stage), of_rows, of_arcs, by_source),
        *_arrays(empty_numbers(scratch)),
    )  # fmt: skip
    (colour, *of_colours), (source, _, arc, order) = of_rows, of_arcs[:, :total]
    met, own, into = (x[:count] for x in of_colours)
    arcs = Arcs(of_arcs[:2, :total], Grouping(arc, kinds.numel()), count)
    arcs.__dict__["out_of"] = Grouping.known(source, before.count, order, by_source)
    arcs.into.__dict__["first"] = into
    return _Colours(colour, met, torch.from_numpy(weight), Read(arcs, Grouping(own, before.count)))


def _pooled(stage: Stage, colours: _Colours, sharing: Sharing) -> tuple[Pooled, Tensor]:
    """How colours are pooled over the bag, and a number for each node, the same where it gets the same."""
    from esan.ops.numba import colour_loops

    by_node, share = stage.by_node.whole, stage.shares.of_subgraph
    share = share if sharing.mean else torch.ones_like(share)
    entries, back, number = colour_loops.pooled(
        *_arrays(colours.colour), colours.count, *_arrays(by_node.order, by_node.first, _weight(stage), share)
    )
    return Pooled(*map(torch.from_numpy, (*entries, *back))), torch.from_numpy(number)


def _heard(bag: Bag, number: Tensor, kinds: Tensor, sharing: Sharing) -> Tensor:
    """A number for each node, the same where the layer that is shared gives the same."""
    from esan.ops.numba import colour_loops

    arcs = bag.shared.between_nodes(sharing.adjacency)
    kinds = kinds[arcs.arc]
    if arcs.weight is not None:
        kinds = numbered(torch.stack([kinds, arcs.weight], 1))[0]
    return torch.from_numpy(colour_loops.heard(*_arrays(number, arcs.ends[0], arcs.into.first, kinds)))


def _arrays(*tensors: Tensor) -> list[Any]:
    return [x.numpy() for x in tensors]
