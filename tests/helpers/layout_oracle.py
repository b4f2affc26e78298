"""Padded batches as their definition has them: item by item, every order sorted from scratch, one batch at a time."""

from itertools import accumulate
from math import prod

import torch
from torch import Tensor

import esan
from esan.bags.padded.plan import BatchBuffers
from esan.bags.padded.shapes import Shape
from esan.bags.rows import block_of_layer
from esan.graphs.extra_fields import TensorField


class Items:
    """The items of a batch, block by block: those of its graphs one by one, then padding.

    Args:
        counts: items of each block and graph of the dataset, `[blocks, G]`.
        capacity: items of each block of the batch.
        ids: the graphs of the batch, −1 for no graph.
    """

    def __init__(self, counts: Tensor, capacity: tuple[int, ...], ids: list[int]) -> None:
        size = counts.tolist()
        start = (counts.reshape(-1).cumsum(0) - counts.reshape(-1)).reshape(counts.shape).tolist()
        self.old: list[int] = []
        self.graph: list[int] = []
        self.block: list[int] = []
        #: The items of each graph of the batch, of padding last; and how many of each block are no padding.
        self.number, self.real = [0] * (len(ids) + 1), [0] * len(capacity)
        self._index: dict[tuple[int, int], int] = {}
        for block, most in enumerate(capacity):
            here = [
                (place, start[block][g] + k) for place, g in enumerate(ids) if g >= 0 for k in range(size[block][g])
            ]
            assert len(here) <= most
            self.real[block] = len(here)
            self._index |= {key: len(self.old) + k for k, key in enumerate(here)}
            for place, old in here + [(len(ids), -1)] * (most - len(here)):
                self.old.append(old)
                self.graph.append(place)
                self.block.append(block)
                self.number[place] += 1

    @property
    def padding(self) -> Tensor:
        return torch.tensor(self.old) < 0

    def take(self, values: Tensor) -> Tensor:
        """The items' values; 0 for padding."""
        zero = (
            torch.zeros_like(values[:1]).reshape(values.shape[1:])
            if len(values)
            else values.new_zeros(values.shape[1:])
        )
        found = [values[old] if old >= 0 else zero for old in self.old]
        return torch.stack(found) if found else values[:0]

    def refer(self, values: Tensor, to: "Items", padding: list[int]) -> Tensor:
        """The items' values, which are items of another axis; for padding one per block."""
        old = values.tolist()
        return torch.tensor([
            to._index[place, old[item]] if item >= 0 else padding[block]
            for item, place, block in zip(self.old, self.graph, self.block, strict=True)
        ], dtype=torch.long)  # fmt: skip


class Oracle:
    """The fields of one batch of one network, and by how much the indices of the next network's are larger."""

    def __init__(self, bag: esan.Bag, num_layers: int, ids: list[int], shape: Shape) -> None:
        self.fields: dict[str, Tensor] = {}
        self.step: dict[str, int] = {}
        self._bag, self._shape = bag, shape
        graphs, selection, rows = bag.graphs, bag.selection, bag.rows
        self._nodes = Items(graphs.num_nodes[None], (shape.nodes,), ids)
        self._subgraphs = Items(selection.num_subgraphs[None], (shape.subgraphs,), ids)
        self._edges = Items(graphs.num_directed_edges[None], (shape.edges,), ids)
        self._rows = Items(rows.num_rows, shape.rows, ids)
        self._pairs = Items(rows.num_rows[1:], shape.rows[1:], ids)
        self._row_edges = Items(rows.num_edges, shape.row_edges, ids)
        self._of_graphs(ids)
        ends = [*accumulate(shape.rows)]
        for block in {block_of_layer(ends, t) for t in range(1, num_layers + 1)}:
            self._of_layer_view(block)

    def _add(self, name: str, values: Tensor, step: int = 0) -> Tensor:
        self.fields[name], self.step[name] = values, step
        return values

    def _csr(self, name: str, owner: Tensor, size: int, empty: list[int], *, is_sorted: bool = False) -> Tensor:
        """The order of items by their owner; the groups of the owners `empty` have size 0."""
        order, count = torch.argsort(owner, stable=True), torch.bincount(owner, minlength=size)
        if not is_sorted:
            self._add(f"{name}.order", order, len(owner))
        self._add(f"{name}.first", count.cumsum(0) - count, len(owner))
        self._add(f"{name}.count", count.index_fill(0, torch.tensor(empty), 0))
        return order

    def _types(self, edge: Tensor) -> Tensor:
        return self.fields["edge_attr"].reshape(-1)[edge]

    @property
    def _typed(self) -> bool:
        types = self._bag.edge_attr
        return types is not None and not types.is_floating_point() and prod(types.shape[1:]) == 1

    def _of_graphs(self, ids: list[int]) -> None:
        graphs, selection, shape, add = self._bag.graphs, self._bag.selection, self._shape, self._add
        there = torch.tensor(ids) >= 0
        for name, items, size in (("node", self._nodes, shape.nodes), ("subgraph", self._subgraphs, shape.subgraphs)):
            number = torch.tensor(items.number)
            add(f"num_{name}s", number.clamp(min=int(name == "subgraph")))
            add(f"{name}_graph", torch.tensor(items.graph), len(ids) + 1)
            add(f"{name}s.first", number.cumsum(0) - number, size)
            add(f"{name}s.count", number.index_fill(0, torch.tensor(len(ids)), 0))
        add("graph_multiplicity", torch.cat([there, torch.tensor([False])]).float())
        add("node_multiplicity", (~self._nodes.padding).float())
        last = [shape.nodes - 1]
        source = add("edge_source", self._edges.refer(graphs.edge_index[0], self._nodes, last), shape.nodes)
        target = add("edge_target", self._edges.refer(graphs.edge_index[1], self._nodes, last), shape.nodes)
        counts = selection.subgraphs_per_edge(graphs)[graphs.undirected_edge]
        add("subgraphs_per_edge", self._edges.take(counts.float()))
        if graphs.x is not None:
            add("x", self._nodes.take(graphs.x))
        if graphs.edge_attr is not None:
            add("edge_attr", self._edges.take(graphs.edge_attr))
        of_graphs = {} if graphs.y is None else {"y": graphs.y}
        for name, field in graphs.extra.fields.items():
            if isinstance(field, TensorField) and len(field.local) == len(graphs):
                of_graphs[f"extra.{name}"] = field.local
            elif isinstance(field, TensorField):
                add(f"extra.{name}", self._nodes.take(field.local))
        for name, values in of_graphs.items():
            y = values[torch.tensor(ids).clamp(min=0)]
            add(name, torch.where(there.reshape(-1, *[1] * (y.dim() - 1)), y, 0))
        self._csr("graph.into", target, shape.nodes, last, is_sorted=True)
        order = self._csr("graph.out", source, shape.nodes, last)
        add("graph.out.target", target[order], shape.nodes)
        if self._typed:
            add("graph.out.type", self._types(order))

    def _of_layer_view(self, block: int) -> None:
        shape, f, rows_of = self._shape, self.fields, self._bag.rows
        background, capacity = shape.rows[0], shape.rows[: block + 1]
        rows, edges = sum(capacity), sum(shape.row_edges[: block + 1])
        stored = rows - background
        view = f"view{block}"
        last = [end - 1 for end in accumulate(shape.rows)]

        def add(name: str, values: Tensor, step: int = 0) -> Tensor:
            return self._add(f"{view}.{name}", values, step)

        every = torch.arange(background)
        pair_node = self._pairs.refer(rows_of.node, self._nodes, [shape.nodes - 1] * len(last))[:stored]
        subgraph = self._pairs.refer(rows_of.subgraph, self._subgraphs, [shape.subgraphs - 1] * len(last))[:stored]
        node = add("node", torch.cat([every, pair_node]), shape.nodes)
        add("stored_subgraph", subgraph, shape.subgraphs)
        marked = self._pairs.take(rows_of.marked)[:stored].long()
        add("marked", torch.cat([torch.zeros(background, dtype=torch.long), marked]))
        one = (~self._pairs.padding[:stored]).float()
        m = f["subgraphs.count"][f["node_graph"]]
        background_multiplicity = (m - torch.zeros_like(m).scatter_add_(0, pair_node, one.long())) * f[
            "node_multiplicity"
        ]
        multiplicity = add("multiplicity", torch.cat([background_multiplicity[:background], one]))
        add("mean_factor", multiplicity / m.clamp(min=1)[node])
        begins = [end - n for end, n in zip(accumulate(capacity), capacity, strict=True)]
        ranges = [(b, b + real) for b, n, real in zip(begins, capacity, self._rows.real, strict=False) if n]
        add("real", torch.tensor(ranges).reshape(-1))
        padding_nodes = (f["node_multiplicity"] == 0).nonzero().flatten().tolist()
        self._csr(f"{view}.by_node", node, shape.nodes, padding_nodes)
        by_subgraph = self._csr(f"{view}.by_subgraph", subgraph, shape.subgraphs, [shape.subgraphs - 1])
        if background:
            pairs = torch.stack([by_subgraph + background, pair_node[by_subgraph]], 1)
            add("differences", pairs.reshape(-1), rows)
            add("differences.first", 2 * f[f"{view}.by_subgraph.first"], 2 * stored)
            add("differences.count", 2 * f[f"{view}.by_subgraph.count"])
            add("differences.sign", torch.tensor([1.0, -1.0] * stored))
            into = torch.cat([f["node_graph"] + shape.subgraphs, subgraph])
            add("pool_target", into, shape.subgraphs + shape.graphs + 1)
            add("background", every, rows)
            by_node = self._csr(f"{view}.stored_by_node", pair_node, background, [background - 1])
            add("subgraph_of_stored", subgraph[by_node], shape.subgraphs)

        edge = self._row_edges.refer(rows_of.edge_id, self._edges, [shape.edges - 1] * len(last))[:edges]
        source = self._row_edges.refer(rows_of.source, self._rows, last)[:edges]
        # A pair that is not in this view still equals its background row.
        source = torch.where(source < rows, source, f["edge_source"][edge])
        target = self._row_edges.refer(rows_of.target, self._rows, last)[:edges]
        add("source", source, rows)
        add("target", target, rows)
        add("edge_id", edge, shape.edges)
        self._csr(f"{view}.into", target, rows, last[: block + 1], is_sorted=True)
        out = self._csr(f"{view}.out", source, rows, last[: block + 1])
        add("out.target", target[out], rows)
        add("out.edge_id", edge[out], shape.edges)
        copies = self._csr(f"{view}.copies", edge, shape.edges, [shape.edges - 1])
        add("copies.source", source[copies], rows)
        add("copies.target", target[copies], rows)
        if self._typed:
            add("type", self._types(edge))
            add("out.type", self._types(edge[out]))


def batch_by_definition(
    bag: esan.Bag, num_layers: int, ids: Tensor, shape: Shape, networks: int = 1
) -> dict[str, Tensor]:
    """The fields of one batch of all networks, `[S, B]` or `[1, B]`: network after network."""
    one = [Oracle(bag, num_layers, some, shape) for some in ids.tolist()]
    found = {}
    for name, step in one[0].step.items():
        parts = [one[n % len(one)].fields[name] + n * step for n in range(networks)]
        values = torch.cat(parts)
        found[name] = values if values.dtype in (torch.float32, torch.float64) else values.long()
    return found


def check_batches(
    batches: BatchBuffers, bag: esan.Bag, num_layers: int, ids: Tensor, shape: Shape, networks: int = 1,
    only: set[str] | None = None,
) -> None:  # fmt: skip
    """Every field of batches, bit for bit, against the definition."""
    assert len(batches) == len(ids)
    for k, of_batch in enumerate(ids):
        expected = batch_by_definition(bag, num_layers, of_batch, shape, networks)
        got = batches.views(batches.ints[k], batches.floats[k])
        assert got.keys() == {name for name in expected if only is None or name in only}
        for name, values in got.items():
            assert values.is_floating_point() == expected[name].is_floating_point(), name
            assert not values.is_floating_point() or values.dtype == expected[name].dtype, name
            assert values.shape == expected[name].shape, name
            assert values.cpu().to(expected[name].dtype).equal(expected[name]), name
