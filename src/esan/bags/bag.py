"""`Bag`: graphs and their subgraphs, stored as weighted rows; the one thing that models take."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.data import Data

from esan.bags.arcs import Arcs
from esan.bags.compact import compact_rows
from esan.bags.files import load_bag, save_bag
from esan.bags.literal import literal_copies, literal_rows
from esan.bags.rows import Rows
from esan.bags.stage import Stage
from esan.bags.sums import Grouping
from esan.graphs import Graphs, Source, read
from esan.policies import Policy, Sampled, Selection, carried_selection, selection_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Bag:
    r"""Bags :math:`S_G` of any number of graphs: a graph is a bag, a batch is a bag, a dataset is a bag.

    A bag is a selection stored as *rows*; a row stands for `weight` many (node, subgraph) *pairs* with provably equal
    features. The **literal** bag has a row of weight 1 for every pair, as the paper writes it. The **compact** bag has
    one background row a node and one row for each pair that differs from it within `num_layers` layers. Every model
    gives the same answer on both, with the same gradients and buffers.

    Make one with `Bag.of`; take graphs out of it with `bag[ids]`.

    Attributes:
        graphs: the graphs.
        selection: what each subgraph changes.
        rows: the stored pairs and the arcs between them.
        num_layers: how many layers a compact bag is exact for; None for a literal bag, which is exact for any.
        policy: where the selection is from, None if unknown.
        strict: True if the compact bag was asked for by name, so that a model may not fall back to the literal one.
        whole: the bag this one is a sample of, None if it is not a sample.
    """

    graphs: Graphs
    selection: Selection
    rows: Rows
    num_layers: int | None
    policy: Policy | str | None = None
    strict: bool = False
    whole: "Bag | None" = None
    _stages: dict[int, Stage] = field(default_factory=dict, init=False)
    _shared: dict[str, Arcs] = field(default_factory=dict, init=False)
    _copied: dict[str, Arcs] = field(default_factory=dict, init=False)

    @staticmethod
    def of(
        source: Source,
        policy: Policy | None = None,
        num_layers: int | None = None,
        *,
        literal: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> "Bag":
        """The bags of all graphs in `source`.

        Args:
            source: a graph, a list of graphs, a PyG dataset or batch, or networkx graphs (see `esan.graphs.read`).
            policy: how subgraphs are selected; None if `source` carries its selection (`policy(data)`).
            num_layers: how many message-passing layers the bag is for; a compact bag needs to know.
            literal: True for the literal bag; False for the compact one and nothing else, so that a model which
                cannot use it fails; None (default) for the compact one, with that model falling back to the literal.
            generator: draws the sample of a `Sampled` policy.
        """
        selection = None
        if policy is None:
            selection = carried_selection(source) if isinstance(source, Data) else None
            if selection is None:
                raise ValueError(
                    "Expected a policy (got None, and the data carry no selection). Pass one, e.g. esan.EdgeDeletion()."
                )
        elif not isinstance(policy, Policy):
            raise TypeError(f"Expected a policy (got {policy!r}). Pass an object, e.g. esan.EgoNets(hops=2).")
        graphs = read(source)
        if isinstance(policy, Sampled):
            whole = Bag.of(graphs, policy.policy, num_layers, literal=literal, generator=generator)
            return replace(whole, policy=policy, whole=whole).resample(generator)
        if selection is None:
            assert policy is not None
            selection = selection_of(policy, graphs, generator)
        return Bag._stored(graphs, selection, num_layers, literal=literal, policy=policy)

    @staticmethod
    def _stored(
        graphs: Graphs,
        selection: Selection,
        num_layers: int | None,
        *,
        literal: bool | None,
        policy: Policy | str | None,
    ) -> "Bag":
        if literal:
            return Bag(graphs, selection, literal_rows(graphs, selection), None, policy)
        if num_layers is None or num_layers < 1:
            raise ValueError(
                f"Expected num_layers, the layers of the model, for a compact bag (got {num_layers}). "
                "Pass num_layers=4 for a model of 4 layers, or literal=True."
            )
        rows = compact_rows(graphs, selection, num_layers)
        return Bag(graphs, selection, rows, num_layers, policy, strict=literal is False)

    # -- what it holds -------------------------------------------------------------------------------------------

    @property
    def literal(self) -> bool:
        return self.num_layers is None

    @property
    def marked(self) -> bool:
        """Whether nodes carry identifying marks; a model for this bag needs the same."""
        return self.selection.marked

    @property
    def device(self) -> torch.device:
        return self.graphs.device

    @property
    def x(self) -> Tensor | None:
        return self.graphs.x

    @property
    def y(self) -> Tensor | None:
        return self.graphs.y

    @property
    def num_graphs(self) -> int:
        return len(self.graphs)

    @property
    def num_subgraphs(self) -> int:
        return self.selection.total

    @property
    def num_pairs(self) -> int:
        return int((self.graphs.num_nodes * self.selection.num_subgraphs).sum())

    @property
    def num_rows(self) -> int:
        return self.rows.row_ends[-1]

    @property
    def nbytes(self) -> int:
        return self.graphs.nbytes + self.selection.nbytes + self.rows.nbytes

    def __len__(self) -> int:
        return self.num_graphs

    def __repr__(self) -> str:
        kind = "literal" if self.literal else f"compact for {self.num_layers} layers"
        return (
            f"Bag({kind}, policy={self.policy!r}: {self.num_graphs:,} graphs, {self.num_subgraphs:,} subgraphs, "
            f"{self.num_pairs:,} pairs in {self.num_rows:,} rows, {self.nbytes:,} bytes)"
        )

    # -- parts of it ---------------------------------------------------------------------------------------------

    def __getitem__(self, ids: int | slice | Sequence[int] | Tensor) -> "Bag":
        """The bags of the graphs `ids`, in that order, as one bag."""
        chosen = self._ids(ids)
        return Bag(
            self.graphs.take(chosen),
            self.selection.take(chosen, self.graphs),
            self.rows.take(chosen, self.graphs, self.selection),
            self.num_layers,
            self.policy,
            self.strict,
            None if self.whole is None else self.whole[chosen],
        )

    def __iter__(self) -> Iterator["Bag"]:
        """The bags of the graphs, one by one."""
        return (self[i] for i in range(len(self)))

    def _ids(self, ids: int | slice | Sequence[int] | Tensor) -> Tensor:
        if isinstance(ids, slice):
            ids = range(*ids.indices(len(self)))
        chosen = torch.as_tensor([ids] if isinstance(ids, int) else ids)
        if chosen.dtype == torch.bool:
            chosen = chosen.nonzero().reshape(-1)
        chosen = chosen.long().reshape(-1).to(self.device)
        if chosen.numel() == 0 or bool(((chosen < -len(self)) | (chosen >= len(self))).any()):
            raise IndexError(
                f"Expected numbers of graphs below {len(self)}, at least one (got {chosen.tolist()[:5]}). "
                "len(bag) says how many graphs there are."
            )
        return torch.where(chosen < 0, chosen + len(self), chosen)

    def only(self, kept: Tensor) -> "Bag":
        """The bag of the subgraphs where `kept`, a truth value a subgraph, is true; at least one of each graph."""
        left = torch.bincount(self.selection.subgraph_graph[kept], minlength=len(self))
        if bool((left == 0).any()):
            raise ValueError(
                f"Expected at least one subgraph of each graph (got none of graph {int((left == 0).nonzero()[0])}). "
                "Keep one of each."
            )
        rows = self.rows.only(kept, self.graphs)
        return replace(self, selection=self.selection.only(kept), rows=rows, whole=None)

    def resample(self, generator: torch.Generator | None = None) -> "Bag":
        """A fresh sample of the subgraphs, for a bag of a `Sampled` policy."""
        if not isinstance(self.policy, Sampled) or self.whole is None:
            raise ValueError(f"Expected the bag of a Sampled policy (got {self.policy!r}). Wrap the policy in Sampled.")
        kept = self.policy.draw(self.whole.selection.num_subgraphs, generator)
        return replace(self.whole.only(kept), policy=self.policy, whole=self.whole)

    def subgraph(self, i: int) -> Data:
        """Subgraph i (numbered through all graphs) as PyG data; `mark` says which of its nodes are marked."""
        if not 0 <= i < self.num_subgraphs:
            raise IndexError(f"Expected the number of a subgraph below {self.num_subgraphs} (got {i}).")
        graph = int(self.selection.subgraph_graph[i])
        one = self.graphs.take(torch.tensor([graph], device=self.device))
        listed = self.selection.entry_edge[self.selection.entry_subgraph == i] - self.graphs.edge_start[graph]
        there = torch.full((one.edges.size(1),), self.selection.keeps_edges, device=self.device)
        there[listed] = not self.selection.keeps_edges
        arcs = there[one.arc_edge]
        data = Data(x=one.x, edge_index=one.edge_index[:, arcs], num_nodes=int(one.num_nodes), graph=graph)
        if one.edge_attr is not None:
            data.edge_attr = one.edge_attr[arcs]
        if self.marked:
            marks = self.selection.mark_node[self.selection.mark_subgraph == i] - self.graphs.node_start[graph]
            data.mark = torch.zeros(int(one.num_nodes), dtype=torch.bool, device=self.device)
            data.mark[marks] = True
        return data

    def subgraphs(self) -> Iterator[Data]:
        """All subgraphs of all graphs, as PyG data."""
        return (self.subgraph(i) for i in range(self.num_subgraphs))

    # -- the same bag, held otherwise ----------------------------------------------------------------------------

    def to(self, device: torch.device | str) -> "Bag":
        if torch.device(device) == self.device:
            return self
        return replace(
            self,
            graphs=self.graphs.to(device),
            selection=self.selection.to(device),
            rows=self.rows.to(device),
            whole=None if self.whole is None else self.whole.to(device),
        )

    def to_literal(self) -> "Bag":
        """The same bag with a row for every pair."""
        if self.literal:
            return self
        bag = Bag._stored(self.graphs, self.selection, None, literal=True, policy=self.policy)
        return bag if self.whole is None else replace(bag, whole=self.whole.to_literal())

    def to_compact(self, num_layers: int) -> "Bag":
        """The same bag, compact, for that many layers."""
        if self.num_layers is not None and self.num_layers == num_layers:
            return self
        literal = False if self.strict else None
        bag = Bag._stored(self.graphs, self.selection, num_layers, literal=literal, policy=self.policy)
        return bag if self.whole is None else replace(bag, whole=self.whole.to_compact(num_layers))

    def save(self, path: str | Path) -> None:
        """Write the bag to one file, with what it was built from; nothing is pickled."""
        save_bag(self, Path(path))

    @staticmethod
    def load(
        path: str | Path,
        *,
        source: Source | None = None,
        policy: Policy | None = None,
        num_layers: int | None = None,
    ) -> "Bag":
        """Read a bag that `save` wrote; what is given here must be what it was built from, else it is refused.

        Args:
            path: the file.
            source: the graphs that the bag should hold.
            policy: the policy that it should be built with.
            num_layers: the layers that it should be exact for, at least.
        """
        return load_bag(Path(path), source=source, policy=policy, num_layers=num_layers)

    def draw(self, graph: int = 0, most: int = 12, path: str | Path | None = None) -> "Figure":
        """One graph and its subgraphs side by side (needs matplotlib): deleted edges dashed, marked nodes filled.

        Args:
            graph: which graph of the bag.
            most: how many of its subgraphs are drawn at most.
            path: where the picture is saved, if anywhere.
        """
        from esan.bags.draw import draw_bag

        return draw_bag(self, graph, most, None if path is None else Path(path))

    # -- what layers ask of it -----------------------------------------------------------------------------------

    def stage(self, t: int) -> Stage:
        """The rows that layer t works on; t = 0 is the input."""
        slot = self.rows.slot_of_layer(t)
        if slot not in self._stages:
            last = self.rows.last_slot
            whole = self.stage(last) if slot < last else None
            self._stages[slot] = Stage(self.graphs, self.selection, self.rows, slot, whole)
        return self._stages[slot]

    def shared_arcs(self, adjacency: str) -> Arcs:
        r"""The arcs of :math:`\operatorname{agg}_j A_j`, between nodes.

        "max": the arcs that some subgraph holds; "sum": the same, weighted by how many hold them; "original": all
        arcs of the graph, which is "max" for every policy that covers the edges.
        """
        if adjacency not in self._shared:
            arcs = Arcs.of(self.graphs)
            if adjacency != "original":
                holders = self.selection.holders(self.graphs)[self.graphs.arc_edge]
                held = holders.nonzero().squeeze(1)
                copies = Grouping(held, arcs.copies.size, ordered=True)
                weight = holders[held] if adjacency == "sum" else None
                arcs = Arcs(arcs.edge_index[:, held], copies, arcs.num_rows, weight)
            self._shared[adjacency] = arcs
        return self._shared[adjacency]

    def copied_arcs(self, adjacency: str) -> Arcs:
        """`shared_arcs` once more in every subgraph, between the rows of a literal bag."""
        if not self.literal:
            raise ValueError("Expected a literal bag (got a compact one). Call bag.to_literal() first.")
        if adjacency not in self._copied:
            self._copied[adjacency] = literal_copies(self.graphs, self.selection, self.shared_arcs(adjacency))
        return self._copied[adjacency]
