"""Graphs laid end to end in arrays → `Graphs`, with the checks of every other source."""

from dataclasses import dataclass

import numpy as np
import torch
from torch_geometric.data import Batch

from esan.graphs import Graphs, read


@dataclass
class Laid:
    """Graphs end to end, nodes numbered in each graph from 0, both directions of every edge.

    Attributes:
        num_nodes: nodes of each graph, `[G]`.
        num_arcs: columns of `edge_index` of each graph, `[G]`.
        edge_index: sources and targets, `[2, A]`.
        x: node features, `[N, ...]`.
        edge_attr: features of the columns, `[A, ...]`.
        y: targets, a line a graph.
    """

    num_nodes: np.ndarray
    num_arcs: np.ndarray
    edge_index: np.ndarray
    x: np.ndarray | None = None
    edge_attr: np.ndarray | None = None
    y: np.ndarray | None = None

    def degree(self) -> np.ndarray:
        """How many columns leave each node, `[N]`."""
        start = np.cumsum(self.num_nodes) - self.num_nodes
        return np.bincount(self.edge_index[0] + np.repeat(start, self.num_arcs), minlength=int(self.num_nodes.sum()))

    def graphs(self, where: str) -> Graphs:
        """The collection; `where` names the source in errors."""
        nodes, arcs = self.num_nodes.astype(np.int64), self.num_arcs.astype(np.int64)
        edge_index = self.edge_index.astype(np.int64)
        n, a, g = int(nodes.sum()), int(arcs.sum()), nodes.size
        for name, value, lines in (
            ("num_arcs", arcs, g),
            ("edge_index", edge_index.T, a),
            ("x", self.x, n),
            ("edge_attr", self.edge_attr, a),
            ("y", self.y, g),
        ):
            if value is not None and value.shape[0] != lines:
                raise ValueError(
                    f"Expected {lines} lines of {name} (got {value.shape[0]} in {where}). "
                    "The file is cut short or damaged; fetch it again."
                )
        if nodes.size == 0 or nodes.min() < 1:
            raise ValueError(f"Expected graphs with at least one node (got none in {where}). Leave such graphs out.")
        of_arc = np.repeat(np.arange(g), arcs)
        outside = (edge_index < 0).any(0) | (edge_index >= nodes[of_arc]).any(0)
        if outside.any():
            bad = int(outside.argmax())
            raise ValueError(
                f"Expected node numbers from 0 to {nodes[of_arc[bad]] - 1} in graph {of_arc[bad]} "
                f"(got the edge {tuple(edge_index[:, bad].tolist())} in {where}). The file is damaged; fetch it again."
            )
        ptr = np.append(0, np.cumsum(nodes))
        batch = Batch(edge_index=torch.from_numpy(edge_index + ptr[of_arc]), ptr=torch.from_numpy(ptr))
        batch.num_nodes = n
        for name in ("x", "edge_attr", "y"):
            value = getattr(self, name)
            if value is not None:
                batch[name] = torch.from_numpy(np.ascontiguousarray(value))
        try:
            return read(batch)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None


def column(values: np.ndarray) -> np.ndarray:
    """Category numbers as PyG holds them: one column of 64-bit integers."""
    return values.reshape(-1, 1).astype(np.int64)
