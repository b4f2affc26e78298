"""Graphs laid end to end in arrays → `Graphs`, with the checks of every other source."""

from dataclasses import dataclass

import numpy as np
import torch
from torch_geometric.data import Batch

from esan.graphs import Graphs, read
from esan.graphs.readers.arrays import GraphArrays, whole


@dataclass
class Laid(GraphArrays):
    """Graphs end to end, as arrays."""

    def degree(self) -> np.ndarray:
        """How many columns leave each node, `[N]`."""
        start = np.cumsum(self.num_nodes) - self.num_nodes
        return np.bincount(self.edge_index[0] + np.repeat(start, self.num_arcs), minlength=int(self.num_nodes.sum()))

    def graphs(self, where: str) -> Graphs:
        """The collection; `where` names the source in errors."""
        self.check(where)
        nodes, edge_index = self.num_nodes, self.edge_index
        of_arc = np.repeat(np.arange(nodes.size), self.num_arcs)
        ptr = np.append(0, np.cumsum(nodes))
        batch = Batch(edge_index=torch.from_numpy(edge_index + ptr[of_arc]), ptr=torch.from_numpy(ptr))
        batch.num_nodes = int(nodes.sum())
        for name in ("x", "edge_attr", "y"):
            value = getattr(self, name)
            if value is not None:
                batch[name] = torch.from_numpy(value)
        try:
            return read(batch)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{where}: {error}") from None


def column(values: np.ndarray, where: str = "the arrays") -> np.ndarray:
    """Category numbers as PyG holds them: one column of 64-bit integers."""
    return whole(values, "categories", where).reshape(-1, 1)
