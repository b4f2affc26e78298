"""Theorem 2 by construction: a DSS-GNN, its weights set by hand, that computes DSS-WL round by round.

The paper proves that DSS-GNN is at least as powerful as DSS-WL by writing down layers

    h' = ReLU(W11 h + W12 Σ_{u ~i v} h_u + W21 Σ_j h_j + W22 Σ_{w ~ v} Σ_j h_{w,j} + b)

whose rows are one-hot codes of colours. Here are these layers, built from esan's own `DSSLayer` and `GraphConv`, and
compared with `esan.wl` on a family of graphs. Three things are simpler than in the proof:

- a finite set is coded one-hot by 2 layers instead of 4: project its vectors to different whole numbers, then take
  hat functions around those. A round of DSS-WL takes 6 layers instead of 10;
- the proof divides M by the size m of the bag, which is not the same for all graphs and so is no weight. It need not:
  C, which the layer keeps, tells m;
- the finite sets are those that occur in the family, not all that could.

Run it: python examples/theorem_2.py
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import esan
from esan import wl
from esan.graphs import hard_pair
from esan.nn import DSSLayer, GraphConv


@dataclass(frozen=True)
class Round:
    """The result of one simulated round.

    Attributes:
        codes: the one-hot code of every (node, subgraph) pair, `[pairs, colours]`.
        layers: how many DSS layers were used up to here.
    """

    codes: Tensor
    layers: int


def layer(own: Tensor, inside: Tensor, across: Tensor, around: Tensor, bias: Tensor) -> DSSLayer:
    """A DSS layer with these matrices, `[out, in]`: W11, W12, W21, W22 and b of the equation above."""
    out, width = own.shape
    first, second = GraphConv(width, out).double(), GraphConv(width, out).double()
    with torch.no_grad():
        for linear, weight in (
            (first.lin_root, own),
            (first.lin_rel, inside),
            (second.lin_root, across),
            (second.lin_rel, around),
        ):
            linear.weight.copy_(weight)
        first.lin_rel.bias.copy_(bias)
        second.lin_rel.bias.zero_()
    norms = esan.nn.norm.NORMS[None](out), esan.nn.norm.NORMS[None](out)
    return DSSLayer(first, norms[0], second, norms[1], nn.ReLU(), bag_pool="sum", adjacency="max")


def blocks(rows: int, columns: int, *placed: tuple[int, int, Tensor]) -> Tensor:
    """A matrix of zeros with blocks at (row, column)."""
    matrix = torch.zeros(rows, columns, dtype=torch.float64)
    for row, column, block in placed:
        matrix[row : row + block.size(0), column : column + block.size(1)] = block
    return matrix


def one_hot_layers(h: Tensor, kept: int) -> list[DSSLayer]:
    """Two layers that keep the first `kept` columns of h and replace the others by a one-hot code of them.

    The different vectors x_1, x_2, ... of the other columns are projected to different whole numbers z_i; a hat
    function of width 1 around z_i, which is 1 there and 0 at every other whole number, is a sum of three ReLUs:
    ReLU(z − z_i + 1) − 2 ReLU(z − z_i) + ReLU(z − z_i − 1).
    """
    width = h.size(1)
    values = torch.unique(h[:, kept:], dim=0)
    direction = whole_projection(values)
    z = values @ direction
    k = values.size(0)
    same = torch.eye(kept, dtype=torch.float64)
    ramps = direction.expand(3 * k, -1)
    shift = torch.cat([1 - z, -z, -1 - z])
    eye = torch.eye(k, dtype=torch.float64)
    none = torch.zeros
    up = blocks(kept + 3 * k, width, (0, 0, same), (kept, kept, ramps))
    down = blocks(
        kept + k,
        kept + 3 * k,
        (0, 0, same),
        (kept, kept, eye),
        (kept, kept + k, -2 * eye),
        (kept, kept + 2 * k, eye),
    )
    return [
        layer(up, *[none(up.shape)] * 3, bias=torch.cat([torch.zeros(kept, dtype=torch.float64), shift])),
        layer(down, *[none(down.shape)] * 3, bias=torch.zeros(down.size(0), dtype=torch.float64)),
    ]


def whole_projection(values: Tensor) -> Tensor:
    """A vector of whole numbers whose products with the rows of `values`, whole numbers too, are all different."""
    generator = torch.Generator().manual_seed(0)
    for bound in (10, 100, 1000, 10_000, 100_000):
        direction = torch.randint(1, bound, (values.size(1),), generator=generator).double()
        if torch.unique(values @ direction).numel() == values.size(0):
            return direction
    raise ValueError(f"Expected few enough vectors to tell apart by whole numbers (got {values.size(0)}).")


def simulate(graphs: list[Data], policy: esan.Policy, rounds: int) -> list[Round]:
    """Run the network, building each layer for the finite set that reaches it; one record per round, from round 0.

    Args:
        graphs: the family.
        policy: an edge-covering policy without marks.
        rounds: how many rounds of DSS-WL to simulate.
    """
    bag = esan.Bag.of(graphs, policy, literal=True)
    view = bag.layer_view(0)
    used = 0

    def run(h: Tensor, stack: list[DSSLayer]) -> Tensor:
        nonlocal used
        for one in stack:
            h = one(h, bag, view)
        used += len(stack)
        return h.detach()

    h = torch.ones(view.num_rows, 1, dtype=torch.float64)  # one colour, coded one-hot
    history = [Round(h, 0)]
    for _ in range(rounds):
        a = h.size(1)
        eye = torch.eye(a, dtype=torch.float64)
        # (c, N, C): sums of one-hot codes are multisets.
        gather = [blocks(3 * a, a, (place * a, 0, eye)) for place in range(3)]
        nothing = torch.zeros(3 * a, dtype=torch.float64)
        h = run(h, [layer(*gather, torch.zeros_like(gather[0]), nothing)])
        h = run(h, one_hot_layers(h, kept=2 * a))
        # (c, N, C, m·M): the codes of C, summed over the neighbours in the graph.
        e, width = h.size(1) - 2 * a, h.size(1)
        keep = blocks(width + e, width, (0, 0, torch.eye(width, dtype=torch.float64)))
        around = blocks(width + e, width, (width, 2 * a, torch.eye(e, dtype=torch.float64)))
        nothing = torch.zeros(width + e, dtype=torch.float64)
        h = run(h, [layer(keep, torch.zeros_like(keep), torch.zeros_like(keep), around, nothing)])
        h = run(h, one_hot_layers(h, kept=0))
        history.append(Round(h, used))
    return history


def main() -> None:
    family = [graph for name in ("c6-2xc3", "p4-k13", "csl8-2-3") for graph in hard_pair(name)]
    for policy in (esan.NodeDeletion(), esan.EdgeDeletion(), esan.EgoNets(hops=1)):
        exact = wl.colourings(family, "dss", policy)
        rounds = len(exact[0].rounds) - 1
        print(f"{policy!r}: {len(family)} graphs, DSS-WL stable after round {rounds}")
        for number, given in enumerate(simulate(family, policy, rounds)):
            colours = torch.cat([one.rounds[number].reshape(-1) for one in exact])
            code = given.codes.argmax(1)
            couples = torch.unique(torch.stack([colours, code]), dim=1).size(1)
            same = couples == colours.unique().numel() == code.unique().numel()
            print(
                f"  round {number}: {given.codes.size(1)} colours by the network after {given.layers} layers, "
                f"{colours.unique().numel()} by DSS-WL, {'the same partition' if same else 'DIFFERENT'}"
            )


if __name__ == "__main__":
    main()
