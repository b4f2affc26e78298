"""Which categories the training graphs have; a warning for graphs with others, whose embeddings are untrained."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from esan.checks import whole_number
from esan.graphs import Categories, Channels, Graphs, OneHot
from esan.plural import counted
from esan.train.model_spec import ModelSpec

#: The categories in each column of "x" and of "edge_attr".
SeenCategories: TypeAlias = Mapping[str, tuple[tuple[int, ...], ...]]
#: Categories that a warning lists.
_LISTED = 10


@dataclass(frozen=True, eq=False)
class _CategoryRows:
    """Categories of nodes or edges, `[rows, columns]`, and the graph of each row."""

    name: str
    sizes: tuple[int, ...]
    rows: Tensor
    graph: Tensor


def seen_categories(model_spec: ModelSpec, graphs: Graphs, ids: Tensor) -> SeenCategories:
    """The categories that these graphs have, of the features that a network reads as categories."""
    chosen = torch.zeros(len(graphs), dtype=torch.bool)
    chosen[ids] = True
    found = {}
    for part in _categories(model_spec, graphs):
        rows = part.rows[chosen[part.graph]]
        found[part.name] = tuple(
            tuple(torch.bincount(column, minlength=size).nonzero()[:, 0].tolist())
            for column, size in zip(rows.T, part.sizes, strict=True)
        )
    return found


def warn_unseen(model_spec: ModelSpec, seen: SeenCategories | None, graphs: Graphs, stacklevel: int) -> None:
    """Warn once if some of these graphs have categories that no training graph had.

    Args:
        model_spec: of the network.
        seen: the categories of the training graphs; None where they were not recorded, which says nothing.
        graphs: that are predicted for.
        stacklevel: the caller that the warning is about, as of `warnings.warn`.
    """
    strange = torch.zeros(len(graphs), dtype=torch.bool)
    listed = []
    for part in _categories(model_spec, graphs) if seen is not None else ():
        known_of_columns = (seen or {}).get(part.name, ())
        for number, (column, size, known) in enumerate(zip(part.rows.T, part.sizes, known_of_columns, strict=False)):
            unknown = torch.ones(size, dtype=torch.bool)
            unknown[list(known)] = False
            there = unknown[column]
            if not bool(there.any()):
                continue
            strange[part.graph[there]] = True
            names = column[there].unique().tolist()
            some = ", ".join(map(str, names[:_LISTED])) + (", ..." if len(names) > _LISTED else "")
            where = f" (column {number})" if len(part.sizes) > 1 else ""
            listed.append(f"{some} of {part.name}{where}")
    if listed:
        count = int(strange.sum())
        have = "has" if count == 1 else "have"
        warnings.warn(
            f"{count:,} of {counted(len(graphs), 'graph')} {have} categories that no training graph had: "
            f"{'; '.join(listed)}. What the network does with them was drawn, not learned: do not rely on these "
            "predictions, or train on graphs that have them.",
            stacklevel=stacklevel + 1,
        )


def read_seen(values: Any) -> SeenCategories | None:
    """From plain values; TypeError, ValueError or AttributeError for anything else."""
    if values is None:
        return None
    return {
        str(name): tuple(
            tuple(whole_number("a category", number, 0, "Train again.") for number in column) for column in columns
        )
        for name, columns in values.items()
    }


def _categories(model_spec: ModelSpec, graphs: Graphs) -> Iterator[_CategoryRows]:
    channels = model_spec.in_channels if model_spec.recipe.node_features else None
    if (sizes := _sizes(channels)) and graphs.x is not None:
        # Counts of walks may stand behind them.
        rows = graphs.x.reshape(graphs.x.size(0), -1)[:, : len(sizes)].long()
        yield _CategoryRows("x", sizes, rows.cpu(), graphs.node_graph.cpu())
    if (sizes := _sizes(model_spec.edge_channels)) and graphs.edge_attr is not None:
        rows = graphs.edge_attr.reshape(graphs.edge_attr.size(0), -1).long()
        yield _CategoryRows("edge_attr", sizes, rows.cpu(), graphs.node_graph[graphs.edge_index[0]].cpu())


def _sizes(channels: Channels) -> tuple[int, ...]:
    if isinstance(channels, Categories):
        return channels.sizes
    return (channels.size,) if isinstance(channels, OneHot) else ()
