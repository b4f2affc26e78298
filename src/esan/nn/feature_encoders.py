"""Encoders of node and edge features, and the input of the first layer: encoded features after the marks."""

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from esan.bags import Bag, LayerView
from esan.bags.dedup import DedupLayerView
from esan.graphs import Graphs
from esan.graphs.feature_kinds import Categories, Channels, OneHot, check_channels
from esan.nn.execution.capabilities import stackable
from esan.ops.caching import plain_tensors
from esan.ops.device import is_capturing, is_gpu
from esan.ops.dispatch import is_plain, is_plain_table
from esan.ops.edges import EdgeTypeFeatures
from esan.ops.features import input_rows, lookup
from esan.ops.segments import CSR
from esan.ops.shape_errors import misfit


def encoder(channels: Channels, width: int, name: str) -> "FeatureEncoder":
    """The module that encodes features of that kind; `width` is that of embeddings, `name` is for errors."""
    check_channels(f"the channels of {name}", channels)
    out_channels = encoded_width(channels, width)
    if isinstance(channels, Categories):
        return Embeddings(channels.sizes, out_channels, name)
    if isinstance(channels, OneHot):
        return OneHotEncoder(out_channels, name)
    return Numbers(out_channels, name) if channels else Constant(None if channels is None else name)


def rename_key(state_dict: dict[str, Any], old: str, new: str) -> None:
    """Rename the entries of a state_dict whose names begin with `old`, as versions before 0.2 wrote them."""
    for key in [key for key in state_dict if key.startswith(old)]:
        state_dict[new + key.removeprefix(old)] = state_dict.pop(key)


def encoded_width(channels: Channels, width: int) -> int:
    """The width of encoded features of that kind; `width` is that of embeddings."""
    if isinstance(channels, Categories):
        return width
    if isinstance(channels, OneHot):
        return channels.size
    return channels or Constant.out_channels


class FeatureEncoder(nn.Module):
    """Rows of features → rows of width `out_channels`."""

    out_channels: int
    #: Whether it has no parameters and encodes each row by itself: then it serves several networks at once.
    row_wise = False

    def forward(self, value: Tensor | None, rows: int, like: Tensor) -> Tensor:
        """Encode `rows` rows; `like` has the dtype and device of the result, for encoders that read no features."""
        raise NotImplementedError

    def encode_types(
        self,
        value: Tensor | None,  # noqa: ARG002
        like: Tensor,  # noqa: ARG002
        max_types: int,  # noqa: ARG002
        type_cache: dict[Any, Tensor] | None = None,  # noqa: ARG002
    ) -> EdgeTypeFeatures | None:
        """The same with each possible value encoded once; None where these are too many, or the encoder was changed.

        Args:
            value: the features.
            like: as in `forward`.
            max_types: the largest number of possible values.
            type_cache: the types of the same rows that other encoders computed; updated.
        """
        return None


@stackable
class Constant(FeatureEncoder):
    """No features: every row is the number 1.

    Args:
        none_of: what the data must have no columns of, as `in_channels=0` says; None where it is left out instead.
    """

    out_channels = 1

    def __init__(self, none_of: str | None = None) -> None:
        super().__init__()
        self.none_of = none_of

    def forward(self, value: Tensor | None, rows: int, like: Tensor) -> Tensor:
        if self.none_of is not None and value is not None and value.numel():
            raise ValueError(
                f"Expected no columns of {self.none_of} for 0 channels (got shape {tuple(value.shape)}). Build the "
                f"model with the number of columns, or with None to leave {self.none_of} out."
            )
        return like.new_ones(rows, 1)


@stackable
class Nothing(FeatureEncoder):
    """No features, and no columns: for networks whose other features (degrees) are all that there is."""

    out_channels = 0

    def forward(self, value: Tensor | None, rows: int, like: Tensor) -> Tensor:  # noqa: ARG002
        return like.new_empty(rows, 0)


@stackable
class Numbers(FeatureEncoder):
    """Numbers as they are."""

    def __init__(self, out_channels: int, name: str) -> None:
        super().__init__()
        self.out_channels, self.name = out_channels, name

    def forward(self, value: Tensor | None, rows: int, like: Tensor) -> Tensor:  # noqa: ARG002
        value = _required(value, self.name)
        value = value[:, None] if value.dim() == 1 else value
        if value.dim() != 2 or value.size(1) != self.out_channels:
            raise ValueError(
                f"Expected {self.name} with {self.out_channels} numbers per row (got shape {tuple(value.shape)}). "
                "Build the model for the width of the data."
            )
        return value.to(like.dtype)

    def extra_repr(self) -> str:
        return f"{self.out_channels}"


@stackable
class OneHotEncoder(FeatureEncoder):
    """A category number → a 0/1 vector."""

    def __init__(self, size: int, name: str) -> None:
        super().__init__()
        self.out_channels, self.name = size, name

    def forward(self, value: Tensor | None, rows: int, like: Tensor) -> Tensor:  # noqa: ARG002
        column = _columns(_required(value, self.name), (self.out_channels,), self.name)[:, 0]
        return F.one_hot(column, self.out_channels).to(like.dtype)

    def encode_types(
        self, value: Tensor | None, like: Tensor, max_types: int, type_cache: dict[Any, Tensor] | None = None
    ) -> EdgeTypeFeatures | None:
        if self.out_channels > max_types or not is_plain(self, OneHotEncoder):
            return None
        edge_type = _edge_types(_required(value, self.name), (self.out_channels,), self.name, type_cache)
        return EdgeTypeFeatures(torch.eye(self.out_channels, dtype=like.dtype, device=like.device), edge_type)


@stackable
class Embeddings(FeatureEncoder):
    """Category numbers → the sum of the embeddings of all columns."""

    def __init__(self, sizes: tuple[int, ...], width: int, name: str) -> None:
        super().__init__()
        self.out_channels, self.sizes, self.name = width, sizes, name
        self.tables = nn.ModuleList(nn.Embedding(size, width) for size in sizes)

    def forward(self, value: Tensor | None, rows: int, like: Tensor) -> Tensor:  # noqa: ARG002
        columns = _columns(_required(value, self.name), self.sizes, self.name)
        total = self._looked_up(0, columns)
        for place in range(1, len(self.sizes)):
            total = total + self._looked_up(place, columns)
        return total

    def encode_types(
        self,
        value: Tensor | None,
        like: Tensor,  # noqa: ARG002
        max_types: int,
        type_cache: dict[Any, Tensor] | None = None,
    ) -> EdgeTypeFeatures | None:
        plain = is_plain(self, Embeddings) and is_plain(self.tables, nn.ModuleList)
        if math.prod(self.sizes) > max_types or not plain or not all(map(is_plain_table, self.tables)):
            return None
        total, *others = (table.weight for table in self.tables)
        for table in others:
            # All sums of a row so far and one of this table; the type counts the tables as digits.
            total = (total.unsqueeze(-2) + table.unsqueeze(-3)).flatten(-3, -2)  # type: ignore[operator]
        return EdgeTypeFeatures(total, _edge_types(_required(value, self.name), self.sizes, self.name, type_cache))  # type: ignore[arg-type]

    def _looked_up(self, place: int, columns: Tensor) -> Tensor:
        table: nn.Embedding = self.tables[place]  # type: ignore[assignment]
        return (
            lookup(table.weight, columns[:, place].contiguous()) if is_plain_table(table) else table(columns[:, place])
        )


def _required(value: Tensor | None, name: str) -> Tensor:
    if value is None:
        raise ValueError(f"Expected graphs with {name} (got none). Add it to the data, or build the model without it.")
    return value


def _columns(value: Tensor, sizes: tuple[int, ...], name: str) -> Tensor:
    columns = value[:, None] if value.dim() == 1 else value
    if columns.dim() != 2 or columns.size(1) != len(sizes):
        raise ValueError(
            f"Expected {name} with {len(sizes)} category numbers per row (got shape {tuple(value.shape)}). "
            f"Build the model with Categories of as many sizes as there are columns."
        )
    if columns.is_floating_point() and not is_capturing() and not bool((columns == columns.round()).all()):
        raise ValueError(f"Expected {name} to hold category numbers (got fractions). Use a plain number of channels.")
    columns = columns.long()
    # On a GPU this check would synchronise in every step; there the embedding itself checks.
    if columns.numel() and not is_gpu(columns.device):
        low, high = columns.amin(0), columns.amax(0)
        if bool((low < 0).any()) or bool((high >= torch.tensor(sizes)).any()):
            raise ValueError(
                f"Expected {name} below {sizes} in each column (got up to {high.tolist()}, down to {low.tolist()}). "
                + ("Number categories from 0." if bool((low < 0).any()) else "Build the model with more categories.")
            )
    return columns


def _edge_types(value: Tensor, sizes: tuple[int, ...], name: str, type_cache: dict[Any, Tensor] | None) -> Tensor:
    """Category numbers, of several columns as the digits of one number, from the cache if they are there."""
    type_cache = {} if type_cache is None else type_cache
    # The version changes when the tensor is written to.
    key = sizes, None if value.is_inference() else value._version
    if key not in type_cache:
        with plain_tensors():
            columns = _columns(value, sizes, name)
            edge_type = columns[:, 0]
            for place, size in enumerate(sizes[1:], start=1):
                edge_type = edge_type * size + columns[:, place]
            type_cache[key] = edge_type.contiguous()
    return type_cache[key]


#: Rows that are checked at once.
_AT_ONCE = 2**14


def checked_degree(degree: Tensor, columns: int) -> Tensor:
    """Degrees below the number of columns; higher ones are an error, but on a GPU, where reading them would wait."""
    highest = 0 if is_gpu(degree.device) or not degree.numel() else int(degree.max())
    if highest >= columns:
        raise ValueError(
            f"Expected degrees below {columns} (got {highest}). Build the model with degrees={highest + 1}."
        )
    return degree.clamp(max=columns - 1)


@stackable
class NodeFeatures(nn.Module):
    """The input of a network, one row per row of a bag: marks, encoded node features, degrees in the subgraph.

    Args:
        in_channels: what `x` holds.
        width: of embeddings.
        marked: whether the bag marks nodes: marked [1, 0], others [0, 1].
        degrees: columns of the one-hot degree that a node has in its subgraph, for degrees below that number; None for
            none. With `in_channels=None` they are the only features; else they follow the encoded ones.
    """

    def __init__(self, in_channels: Channels, width: int, marked: bool, degrees: int | None = None) -> None:
        super().__init__()
        self.encoder = Nothing() if degrees and not in_channels else encoder(in_channels, width, "x")
        self.marked, self.degrees = marked, degrees or None
        #: How many columns a row has; also that of what a user puts in the encoder's place.
        self.out_channels = 2 * marked + self.encoder.out_channels + (degrees or 0)

    @property
    def lookahead(self) -> int:
        """How many layers earlier than usual the rows show that an edge is missing: degrees show it in the input."""
        return 1 if self.degrees else 0

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        rename_key(state_dict, f"{prefix}lines.", f"{prefix}encoder.")
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    @torch.no_grad()
    def check(self, graphs: Graphs) -> None:
        """Raise for features of nodes that cannot be encoded: on a GPU a step does not check them."""
        encoder = copy.deepcopy(self.encoder).cpu()
        for some in () if graphs.x is None else graphs.x.split(_AT_ONCE):
            encoder(some.cpu(), some.size(0), torch.empty(0))
        # A subgraph has no edges that its graph has not.
        if self.degrees and graphs.degree.numel():
            checked_degree(graphs.degree.cpu(), self.degrees)

    def forward(self, bag: Bag, view: LayerView | DedupLayerView, like: Tensor, width: int | None = None) -> Tensor:
        """The rows of a view.

        Args:
            bag: the graphs.
            view: which rows.
            like: a tensor of the dtype and device of the result.
            width: that of the result, padded with zeros.
        """
        width = width or self.out_channels
        marked = view.marked if self.marked else None
        if not self.degrees:
            return input_rows(self._checked(self.encoded(bag, like), bag), view.by_node, marked, width)
        assert isinstance(view, LayerView)
        # Each degree is looked up as if it were a node whose features are its one-hot vector.
        table = torch.eye(self.degrees, dtype=like.dtype, device=like.device)
        by_degree = CSR(checked_degree(view.degree, self.degrees), self.degrees)
        by_degree.row_ranges = view.by_node.row_ranges
        if isinstance(self.encoder, Nothing):
            return input_rows(table, by_degree, marked, width)
        before = self.out_channels - self.degrees
        rows = input_rows(self._checked(self.encoded(bag, like), bag), view.by_node, marked, before)
        return torch.cat([rows, input_rows(table, by_degree, None, width - before)], 1)

    def encoded(self, bag: Bag, like: Tensor) -> Tensor:
        """The encoded features of the nodes: once per node, and then expanded, never once per pair."""
        return self.encoder(bag.graphs.x, bag.graphs.node_graph.numel(), like)

    def _checked(self, encoded: Tensor, bag: Bag) -> Tensor:
        nodes, width = bag.graphs.node_graph.numel(), self.out_channels - 2 * self.marked - (self.degrees or 0)
        if encoded.size(0) != nodes or encoded.size(-1) != width:
            raise misfit(f"encoded features of {nodes:,} nodes, with {width} columns", f"{[*encoded.shape]}")
        return encoded

    def extra_repr(self) -> str:
        return f"marked={self.marked}" + (f", degrees={self.degrees}" if self.degrees else "")
