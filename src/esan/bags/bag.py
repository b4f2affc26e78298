"""`Bag`: graphs and their subgraphs, stored as weighted rows; the one thing that models take."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from esan.bags.build.large import never_whole
from esan.bags.build.stored import stored_rows
from esan.bags.check import check_selection
from esan.bags.draw import draw_bag
from esan.bags.io import load_bag, save_bag
from esan.bags.layer_view import Stage
from esan.bags.rows import Rows
from esan.bags.shared import SharedArcs
from esan.bags.subgraph import Subgraph
from esan.checks import device_here, random_source, shown, whole_number
from esan.counted import counted
from esan.graphs import Graphs, Source, read
from esan.graphs.ids import Ids, graph_ids
from esan.ops.caching import cached
from esan.ops.segments import Grouping
from esan.policies import Policy, Sampled, Selection, as_policy, checked_source, policy_called, read_carried

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
        whole: the bag this one is a sample of; None if it is none, or of one that is not built (`bags.large`).
    """

    graphs: Graphs
    selection: Selection
    rows: Rows
    num_layers: int | None
    policy: Policy | str | None = None
    strict: bool = False
    whole: "Bag | None" = None
    _stages: dict[int, Stage] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        _refuse_clashes(self.graphs)

    @staticmethod
    def of(
        source: Source,
        policy: Policy | str | None = None,
        num_layers: int | None = None,
        *,
        literal: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> "Bag":
        """The bags of all graphs in `source`.

        Args:
            source: a graph, a list of graphs, a PyG dataset or batch, or networkx graphs (see `esan.graphs.read`).
            policy: how subgraphs are selected, or its name; None if `source` carries its selection (`policy(data)`).
            num_layers: how many message-passing layers the bag is for; a compact bag needs to know.
            literal: True for the literal bag; False for the compact one and nothing else, so that a model which
                cannot use it fails; None (default) for the compact one, with that model falling back to the literal.
            generator: draws the sample of a `Sampled` policy.
        """
        random_source(generator)
        if policy is None:
            graphs, selection, name = read_carried(source)
            return Bag._stored(graphs, selection, num_layers, literal=literal, policy=policy_called(name))
        policy = as_policy(policy)
        graphs = read(checked_source(source, repr(policy)))
        if isinstance(policy, Sampled) and not never_whole(policy, graphs):
            whole = Bag.of(graphs, policy.policy, num_layers, literal=literal, generator=generator)
            return replace(whole, policy=policy, whole=whole).resample(generator)
        return Bag._stored(graphs, policy.checked(graphs, generator), num_layers, literal=literal, policy=policy)

    @staticmethod
    def _stored(
        graphs: Graphs, selection: Selection, num_layers: int | None, literal: bool | None, policy: Policy | str | None
    ) -> "Bag":
        check_selection(graphs, selection)
        rows = stored_rows(graphs, selection, num_layers, literal)
        layers = None if literal or num_layers is None else int(num_layers)
        return Bag(graphs, selection, rows, layers, policy, strict=literal is False)

    # -- what it holds -------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """An extra field of the graphs, such as `bag.train_mask`: nodes, graphs and columns in the user's order."""
        if hasattr(type(self), name):
            return object.__getattribute__(self, name)  # a property that failed: its own error is the right one
        graphs = self.__dict__.get("graphs")
        extra = {} if graphs is None else graphs.extra
        if name in extra:
            return extra[name]
        if graphs is not None and (derived := graphs.extra.derived(name)) is not None:
            return derived
        known = f" The graphs' extra fields are {', '.join(extra)}." if extra else " The graphs have no extra fields."
        raise AttributeError(f"'{type(self).__name__}' object has no attribute {name!r}.{known}", name=name, obj=self)

    @property
    def literal(self) -> bool:
        return self.num_layers is None

    @property
    def asked(self) -> bool | None:
        """The `literal` that `Bag.of` was called with, to build another bag stored alike."""
        return True if self.literal else False if self.strict else None

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
    def edge_attr(self) -> Tensor | None:
        return self.graphs.edge_attr

    @property
    def edge_weight(self) -> Tensor | None:
        """A factor per message, in the order of `edge_attr`; None for 1."""
        return self.graphs.edge_weight

    @property
    def y(self) -> Tensor | None:
        return self.graphs.y

    @property
    def node_weight(self) -> Tensor | None:
        """How often each node counts in norms over nodes: None for once each; 0 for the filler of a padded batch."""
        return None

    @property
    def seeds(self) -> Tensor | None:
        """Of what each network of an ensemble draws in this step, `[S]`; None for torch's own generator."""
        return None

    @property
    def networks(self) -> int:
        """How many networks the bag is for, with rows of its own for each."""
        return 1

    @property
    def num_graphs(self) -> int:
        return len(self.graphs)

    @property
    def num_nodes(self) -> int:
        return self.graphs.node_graph.numel()

    @property
    def num_subgraphs(self) -> int:
        return self.selection.total

    @property
    def num_pairs(self) -> int:
        return self.selection.num_pairs(self.graphs)

    @property
    def num_rows(self) -> int:
        return self.rows.row_ends[-1]

    @property
    def nbytes(self) -> int:
        return self.graphs.nbytes + self.selection.nbytes + self.rows.nbytes

    def __len__(self) -> int:
        return self.num_graphs

    def __repr__(self) -> str:
        kind = "literal" if self.num_layers is None else f"compact for {counted(self.num_layers, 'layer')}"
        held = f"{counted(self.num_graphs, 'graph')}, {counted(self.num_subgraphs, 'subgraph')}"
        stored = f"{counted(self.num_pairs, 'pair')} in {counted(self.num_rows, 'row')}"
        whole = "" if self.whole is None else f", and {counted(self.whole.nbytes, 'byte')} of the whole bag"
        return f"Bag({kind}, policy={self.policy!r}: {held}, {stored}, {counted(self.nbytes, 'byte')}{whole})"

    # -- parts of it ---------------------------------------------------------------------------------------------

    def __getitem__(self, ids: Ids) -> "Bag":
        """The bags of the graphs `ids`, in that order, as one bag."""
        chosen = graph_ids(ids, len(self), self.device, "bag")
        return replace(
            self,
            graphs=self.graphs.take(chosen),
            selection=self.selection.take(chosen, self.graphs),
            rows=self.rows.take(chosen, self.graphs, self.selection),
            whole=None if self.whole is None else self.whole[chosen],
        )

    def __iter__(self) -> Iterator["Bag"]:
        """The bags of the graphs, one by one."""
        return (self[i] for i in range(len(self)))

    def only(self, kept: Tensor) -> "Bag":
        """The bag of the subgraphs where `kept`, a truth value a subgraph, is true; at least one of each graph."""
        return replace(self, selection=self.selection.only(kept), rows=self.rows.only(kept, self.graphs), whole=None)

    def resample(self, generator: torch.Generator | None = None) -> "Bag":
        """A fresh sample of the subgraphs, for a bag of a `Sampled` policy."""
        random_source(generator)
        if not isinstance(self.policy, Sampled):
            raise ValueError(f"Expected the bag of a Sampled policy (got {self.policy!r}). Wrap the policy in Sampled.")
        if self.whole is None:
            drawn = self.policy.checked(self.graphs, generator)
            return Bag._stored(self.graphs, drawn, self.num_layers, literal=self.asked, policy=self.policy)
        kept = self.policy.sample(self.whole.selection.num_subgraphs, generator)
        return replace(self.whole.only(kept), policy=self.policy, whole=self.whole)

    def subgraph(self, i: int) -> Data:
        """Subgraph i (numbered through all graphs; -1 is the last) as PyG data; `mark` says which nodes are marked."""
        return Subgraph.of(self.graphs, self.selection, i).data(self.graphs, marks=self.marked)

    def subgraphs(self) -> Iterator[Data]:
        """All subgraphs of all graphs, as PyG data."""
        return (self.subgraph(i) for i in range(self.num_subgraphs))

    # -- the same bag, held otherwise ----------------------------------------------------------------------------

    def to(self, device: torch.device | str) -> "Bag":
        """The bag on a device; itself if it is there already."""
        device = device_here(device, shapes_only=True)
        if device == self.device:
            return self
        whole = None if self.whole is None else self.whole.to(device)
        moved = {}
        for name in ("graphs", "selection", "rows"):
            mine, of_whole = getattr(self, name), getattr(self.whole, name, None)
            # What is the same here is the same there, and not there twice.
            moved[name] = getattr(whole, name) if mine is of_whole else mine.to(device)
        return replace(self, **moved, whole=whole)

    @property
    def plain(self) -> bool:
        """Whether the bag is of one network and has no padding."""
        return True

    def without_filler(self) -> "Bag":
        """The bag for work that neither reads nor writes padding rows; here there are none."""
        return self

    def without_padding_graph(self, predictions: Tensor) -> Tensor:
        """Predictions for the graphs that are no padding; here all are."""
        return predictions

    def to_literal(self) -> "Bag":
        """The same bag with a row for every pair."""
        if self.literal:
            return self
        bag = Bag._stored(self.graphs, self.selection, None, literal=True, policy=self.policy)
        return bag if self.whole is None else replace(bag, whole=self.whole.to_literal())

    def to_compact(self, num_layers: int) -> "Bag":
        """The same bag, compact, for that many layers."""
        num_layers = whole_number("num_layers", num_layers, 1, "Pass num_layers=4 for a model of 4 layers.")
        if self.num_layers == num_layers:
            return self
        bag = Bag._stored(self.graphs, self.selection, num_layers, False if self.strict else None, self.policy)
        return bag if self.whole is None else replace(bag, whole=self.whole.to_compact(num_layers))

    def save(self, path: str | Path) -> None:
        """Write the bag to one file, with what it was built from; nothing is pickled."""
        save_bag(self, Path(path))

    @staticmethod
    def load(
        path: str | Path,
        *,
        source: Source | None = None,
        policy: Policy | str | None = None,
        num_layers: int | None = None,
    ) -> "Bag":
        """Read a bag that `save` wrote; what is given here must be what it was built from, else it is refused.

        Args:
            path: the file.
            source: the graphs that the bag should hold.
            policy: the policy that it should be built with, or its name.
            num_layers: the layers that it should be exact for, at least.
        """
        return load_bag(Bag, Path(path), source=source, policy=policy, num_layers=num_layers)

    def draw(self, graph: int = 0, most: int = 12, path: str | Path | None = None) -> "Figure":
        """One graph and its subgraphs side by side (needs matplotlib): deleted edges dashed, marked nodes filled.

        Args:
            graph: which graph of the bag.
            most: how many of its subgraphs are drawn at most.
            path: where the picture is saved, if anywhere.
        """
        return draw_bag(self, graph, most, None if path is None else Path(path))

    # -- what layers ask of it -----------------------------------------------------------------------------------

    def stage(self, t: int) -> Stage:
        """The rows that layer t works on; t = 0 is the input."""
        t = whole_number("a layer", t, 0, "Number layers from 1; 0 is the input.")
        if self.num_layers is not None and t > self.num_layers:
            raise ValueError(
                f"Expected a layer up to {self.num_layers}, which the bag is exact for (got {shown(t)}). Build it with "
                f"num_layers={shown(t)}, or with literal=True."
            )
        return self.stage_of_slot(self.rows.slot_of_layer(t))

    def stage_of_slot(self, slot: int) -> Stage:
        if slot not in self._stages:
            last = self.rows.last_slot
            whole = self.stage_of_slot(last) if slot < last else None
            self._stages[slot] = Stage(self.graphs, self.selection, self.rows, slot, whole)
        return self._stages[slot]

    def stage_with(self, rows: int, otherwise: Stage) -> Stage:
        """The stage that so many rows are of."""
        layers = range(1 if self.num_layers is None else self.num_layers + 1)
        return next((stage for stage in map(self.stage, layers) if stage.num_rows == rows), otherwise)

    @cached
    def by_graph(self) -> Grouping:
        """The subgraphs by their graph."""
        return Grouping(self.selection.subgraph_graph, len(self), ordered=True)

    @cached
    def shared(self) -> SharedArcs:
        """The adjacency of the whole bag."""
        return SharedArcs(self.graphs, self.selection, self.literal)

    @cached_property
    def found(self) -> dict[object, Any]:
        return {}  # what networks have found out about the bag, such as categories of `edge_attr`, to be taken again


def _refuse_clashes(graphs: Graphs) -> None:
    for name in graphs.extra:
        if hasattr(Bag, name) or name in Bag.__dataclass_fields__:
            raise ValueError(
                f"Expected extra fields with names that a bag does not use itself (got {name!r}). Rename it, e.g. "
                f"data.my_{name} = data.{name}."
            )
