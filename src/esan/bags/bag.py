"""`Bag`: the subgraphs of one or many graphs, stored as rows with multiplicities; the input of every model."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from esan.bags.build.build_rows import build_rows, refuse_before_selecting, stores_samples_only
from esan.bags.draw import draw_bag
from esan.bags.io import load_bag, save_bag
from esan.bags.layer_view import LayerView
from esan.bags.rows import Rows
from esan.bags.shared_edges import SharedEdges
from esan.bags.subgraph import Subgraph
from esan.bags.validate import check_selection
from esan.checks import device_here, random_source, shown, whole_number
from esan.graphs import Graphs, Source, read
from esan.graphs.extra_fields import ExtraFields
from esan.graphs.indexing import Ids, graph_ids
from esan.ops.caching import cached, plain_tensors
from esan.ops.segments import CSR
from esan.plural import counted
from esan.policies import Policy, Sampled, Selection, as_policy, checked_source, policy_called, read_carried

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Where a bag has what a PyG batch has under another name.
_OF_PYG = {"batch": "graphs.node_graph", "ptr": "graphs.node_start"}


@dataclass(frozen=True, eq=False, repr=False)
class Bag:
    r"""Bags :math:`S_G` of any number of graphs: a graph is a bag, a batch is a bag, a dataset is a bag.

    A bag is a selection stored as *rows*. A row stands for `multiplicity` (node, subgraph) *pairs* with provably equal
    features. The **literal** bag has one row of multiplicity 1 per pair, as the paper writes it. The **compact** bag
    has one background row per node and one row per pair that differs from it within `num_layers` layers. Every model
    gives the same answer on both, with the same gradients and buffers.

    Make one with `Bag.of`; take graphs out of it with `bag[ids]`.

    Attributes:
        graphs: the graphs.
        selection: what each subgraph changes.
        rows: the stored pairs and the edges between them.
        num_layers: how many layers a compact bag is exact for; None for a literal bag, which is exact for any.
        policy: the policy that made the selection, or its name; None if unknown.
        strict: True for `literal=False`: a model that cannot use the compact bag fails instead of falling back.
        sampled_from: the full bag that this one is a sample of; None if this is no sample, or if the full bag is too
            large to be built (`bags.build.build_rows`).
    """

    graphs: Graphs
    selection: Selection
    rows: Rows
    num_layers: int | None
    policy: Policy | str | None = None
    strict: bool = False
    sampled_from: "Bag | None" = None
    _layer_views: dict[int, LayerView] = field(default_factory=dict, init=False)

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
            literal: True for the literal bag; False for the compact one only: a model that cannot use it fails; None
                (default) for the compact one, and such a model falls back to the literal bag.
            generator: draws the sample of a `Sampled` policy.
        """
        random_source(generator)
        with plain_tensors():
            return Bag._of(source, policy, num_layers, literal, generator)

    @staticmethod
    def _of(
        source: Source,
        policy: Policy | str | None,
        num_layers: int | None,
        literal: bool | None,
        generator: torch.Generator | None,
    ) -> "Bag":
        if policy is None:
            graphs, selection, name = read_carried(source)
            return Bag._stored(graphs, selection, num_layers, literal=literal, policy=policy_called(name))
        policy = as_policy(policy)
        graphs = read(checked_source(source, repr(policy)))
        if isinstance(policy, Sampled) and not stores_samples_only(policy, graphs):
            full = Bag.of(graphs, policy.policy, num_layers, literal=literal, generator=generator)
            return replace(full, policy=policy, sampled_from=full).resample(generator)
        if literal is True:
            refuse_before_selecting(graphs, policy)
        return Bag._stored(graphs, policy.checked(graphs, generator), num_layers, literal=literal, policy=policy)

    @staticmethod
    def _stored(
        graphs: Graphs, selection: Selection, num_layers: int | None, literal: bool | None, policy: Policy | str | None
    ) -> "Bag":
        check_selection(graphs, selection)
        rows = build_rows(graphs, selection, num_layers, literal)
        layers = None if literal or num_layers is None else int(num_layers)
        return Bag(graphs, selection, rows, layers, policy, strict=literal is False)

    # -- contents ------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """An extra field of the graphs, such as `bag.train_mask`: nodes, graphs and columns in the user's order."""
        if hasattr(type(self), name):
            return object.__getattribute__(self, name)  # a property that failed: its own error is the right one
        extra = self._extra_fields
        if name in extra:
            return extra[name]
        if (derived := extra.derived(name)) is not None:
            return derived
        known = f" The graphs' extra fields are {', '.join(extra)}." if extra else " The graphs have no extra fields."
        remedy = f" Use bag.{_OF_PYG[name]}." if name in _OF_PYG else known
        raise AttributeError(f"'{type(self).__name__}' object has no attribute {name!r}.{remedy}", name=name, obj=self)

    @property
    def _extra_fields(self) -> ExtraFields:
        """The extra fields; none before the graphs are there, as while a bag is unpickled."""
        graphs = self.__dict__.get("graphs")
        return ExtraFields() if graphs is None else graphs.extra

    @property
    def literal(self) -> bool:
        return self.num_layers is None

    @property
    def literal_choice(self) -> bool | None:
        """The argument `literal` of `Bag.of`, to build another bag with the same storage."""
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
    def edge_index(self) -> Tensor:
        """The edges in the order of the data, as PyG's batch has them; `graphs.edge_index` is sorted by target."""
        return cast(Tensor, self._as_given(self.graphs.edge_index.T)).T.contiguous()

    @property
    def edge_attr(self) -> Tensor | None:
        """Edge features in the order of the data, which other fields of edges and predictions for edges have, too."""
        return self._as_given(self.graphs.edge_attr)

    @property
    def edge_weight(self) -> Tensor | None:
        """A factor per message, in the order of the data; None for 1."""
        return self._as_given(self.graphs.edge_weight)

    def _as_given(self, values: Tensor | None) -> Tensor | None:
        """One row per edge of `graphs.edge_index`, in the order of the data."""
        return None if values is None else torch.empty_like(values).index_copy(0, self.graphs.column, values)

    @property
    def y(self) -> Tensor | None:
        return self.graphs.y

    @property
    def node_multiplicity(self) -> Tensor | None:
        """How often each node counts in norms over nodes: None for once each; 0 for the padding of a padded batch."""
        return None

    @property
    def seeds(self) -> Tensor | None:
        """One random seed per network of an ensemble for this step, `[S]`; None for torch's own generator."""
        return None

    @property
    def networks(self) -> int:
        """How many networks the bag is for; each has its own rows."""
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
        counts = f"{counted(self.num_graphs, 'graph')}, {counted(self.num_subgraphs, 'subgraph')}"
        rows = f"{counted(self.num_pairs, 'pair')} in {counted(self.num_rows, 'row')}"
        full = self.sampled_from
        more = "" if full is None else f", and {counted(full.nbytes, 'byte')} of the whole bag"
        return f"Bag({kind}, policy={self.policy!r}: {counts}, {rows}, {counted(self.nbytes, 'byte')}{more})"

    # -- some of its graphs or subgraphs -------------------------------------------------------------------------

    def __getitem__(self, ids: Ids) -> "Bag":
        """The bags of the graphs `ids`, in that order, as one bag."""
        with plain_tensors():
            chosen = graph_ids(ids, len(self), self.device, "bag")
            return replace(
                self,
                graphs=self.graphs.take(chosen),
                selection=self.selection.take(chosen, self.graphs),
                rows=self.rows.take(chosen, self.graphs, self.selection),
                sampled_from=None if self.sampled_from is None else self.sampled_from[chosen],
            )

    if TYPE_CHECKING:
        # Python iterates over the graphs by their index. With this method a bag of one graph would be an iterable that
        # holds itself, in which libraries that look for tensors (Lightning) would go round for ever.
        def __iter__(self) -> Iterator["Bag"]: ...

    def only(self, mask: Tensor) -> "Bag":
        """The bag of the subgraphs where `mask`, one truth value per subgraph, is true; at least one of each graph."""
        selection, rows = self.selection.only(mask), self.rows.only(mask, self.graphs)
        return replace(self, selection=selection, rows=rows, sampled_from=None)

    def resample(self, generator: torch.Generator | None = None) -> "Bag":
        """A new random selection of subgraphs, for the bag of a `Sampled` policy, or of another that is random."""
        random_source(generator)
        if not isinstance(self.policy, Sampled):
            if isinstance(self.policy, Policy) and self.policy.random:
                choice = self.literal_choice
                return Bag.of(self.graphs, self.policy, self.num_layers, literal=choice, generator=generator)
            raise ValueError(f"Expected the bag of a random policy (got {self.policy!r}). Wrap the policy in Sampled.")
        full = self.sampled_from
        if full is None:
            selection = self.policy.checked(self.graphs, generator)
            return Bag._stored(self.graphs, selection, self.num_layers, self.literal_choice, self.policy)
        mask = self.policy.sample(full.selection.num_subgraphs, generator)
        return replace(full.only(mask), policy=self.policy, sampled_from=full)

    def subgraph(self, i: int) -> Data:
        """Subgraph i (numbered through all graphs; -1 is the last) as PyG data; `mark` says which nodes are marked."""
        return Subgraph.of(self.graphs, self.selection, i).data(self.graphs, marks=self.marked)

    def subgraphs(self) -> Iterator[Data]:
        """All subgraphs of all graphs, as PyG data."""
        return (self.subgraph(i) for i in range(self.num_subgraphs))

    # -- the same bag on another device, with other rows, in a file, as a picture --------------------------------

    def to(self, device: torch.device | str) -> "Bag":
        """The bag on a device; itself if it is there already."""
        device = device_here(device, shapes_only=True)
        if device == self.device:
            return self
        full = None if self.sampled_from is None else self.sampled_from.to(device)
        moved = {}
        for name in ("graphs", "selection", "rows"):
            mine, of_full = getattr(self, name), getattr(self.sampled_from, name, None)
            # What both bags share is copied once.
            moved[name] = getattr(full, name) if mine is of_full else mine.to(device)
        return replace(self, **moved, sampled_from=full)

    @property
    def plain(self) -> bool:
        """Whether the bag is for one network and has no padding."""
        return True

    def skipping_padding(self) -> "Bag":
        """The bag for computations that neither read nor write padding rows; here there are none."""
        return self

    def drop_padding(self, predictions: Tensor) -> Tensor:
        """The predictions without those for padding graphs; here there are none."""
        return predictions

    def to_literal(self) -> "Bag":
        """The same bag with one row per pair."""
        if self.literal:
            return self
        bag = Bag._stored(self.graphs, self.selection, None, literal=True, policy=self.policy)
        full = self.sampled_from
        return bag if full is None else replace(bag, sampled_from=full.to_literal())

    def without_padding(self) -> "Bag":
        """The same graphs without padding, as a bag that is no sample."""
        return replace(self, sampled_from=None)

    def to_compact(self, num_layers: int) -> "Bag":
        """The same bag, compact, for that many layers."""
        num_layers = whole_number("num_layers", num_layers, 1, "Pass num_layers=4 for a model of 4 layers.")
        if self.num_layers == num_layers:
            return self
        bag = Bag._stored(self.graphs, self.selection, num_layers, False if self.strict else None, self.policy)
        full = self.sampled_from
        return bag if full is None else replace(bag, sampled_from=full.to_compact(num_layers))

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
        """Read a bag that `save` wrote; an error if it was not built from the source, policy and layers passed here.

        Args:
            path: the file.
            source: the graphs that the bag must be of.
            policy: the policy that it must be built with, or its name.
            num_layers: how many layers it must be exact for, at least.
        """
        return load_bag(Bag, Path(path), source=source, policy=policy, num_layers=num_layers)

    def draw(self, graph: int = 0, most: int = 12, path: str | Path | None = None) -> "Figure":
        """One graph and its subgraphs side by side (needs matplotlib): deleted edges dashed, marked nodes filled.

        Args:
            graph: which graph of the bag.
            most: how many of its subgraphs are drawn at most.
            path: the file to save the picture to; None for none.
        """
        return draw_bag(self.graphs, self.selection, self.policy, graph, most, None if path is None else Path(path))

    # -- what layers work on -------------------------------------------------------------------------------------

    def layer_view(self, t: int) -> LayerView:
        """The rows and edges that layer t works on; t = 0 is the input."""
        t = whole_number("a layer", t, 0, "Number layers from 1; 0 is the input.")
        if self.num_layers is not None and t > self.num_layers:
            raise ValueError(
                f"Expected a layer up to {self.num_layers}, which the bag is exact for (got {shown(t)}). Build it with "
                f"num_layers={shown(t)}, or with literal=True."
            )
        return self.layer_view_of_block(self.rows.block_of_layer(t))

    def layer_view_of_block(self, block: int) -> LayerView:
        """The layer view whose last block of rows is `block`."""
        if block not in self._layer_views:
            last = self.rows.last_block
            full = self.layer_view_of_block(last) if block < last else None
            self._layer_views[block] = LayerView(self.graphs, self.selection, self.rows, block, full)
        return self._layer_views[block]

    def layer_view_with_rows(self, rows: int, default: LayerView) -> LayerView:
        """The layer view that has so many rows; `default` if none has."""
        layers = range(1 if self.num_layers is None else self.num_layers + 1)
        return next((view for view in map(self.layer_view, layers) if view.num_rows == rows), default)

    @cached
    def by_graph(self) -> CSR:
        """The subgraphs by graph."""
        return CSR(self.selection.subgraph_graph, len(self), is_sorted=True)

    @cached
    def shared(self) -> SharedEdges:
        """The edges of the pooled adjacency matrix."""
        return SharedEdges(self.graphs, self.selection, self.literal)

    @cached_property
    def cache(self) -> dict[object, Any]:
        """What networks have computed from the bag and will need again, such as categories of `edge_attr`."""
        return {}


def _refuse_clashes(graphs: Graphs) -> None:
    for name in graphs.extra:
        if hasattr(Bag, name) or name in Bag.__dataclass_fields__:
            raise ValueError(
                f"Expected extra fields with names that a bag does not use itself (got {name!r}). Rename it, e.g. "
                f"data.my_{name} = data.{name}."
            )
