"""The usual way on real sets: every subgraph made one by one, the disjoint union of a graph's bag collated by PyG.

Networks and batches are those of the recipes `zinc/*` and `nci1/*`; nothing of it is the library's, save the numbers of
layers, widths and batch sizes.
"""

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINConv, GINEConv
from torch_geometric.utils import k_hop_subgraph, scatter

POLICIES = ("ED", "ND", "EGO", "EGO+")


class Union(Data):
    """The subgraphs of one graph as one graph; PyG's collation counts nodes, subgraphs and edges on."""

    def __inc__(self, key: str, value: object, *args: object) -> object:
        if key in ("original", "graph_edge_index"):
            return self.graph_nodes
        if key == "part":
            return self.num_subgraphs
        return super().__inc__(key, value, *args)

    def __cat_dim__(self, key: str, value: object, *args: object) -> object:
        return 1 if key == "graph_edge_index" else super().__cat_dim__(key, value, *args)


def union(data: Data, policy: str | None, hops: int) -> Union:
    """All subgraphs of a graph, one after another; without a policy the graph itself."""
    n, edge_index = data.num_nodes, data.edge_index
    edge_masks, marks = [], []
    if policy is None:
        edge_masks = [torch.ones(edge_index.size(1), dtype=torch.bool)]
    elif policy == "ED":
        for u, v in edge_index[:, edge_index[0] < edge_index[1]].t():
            gone = ((edge_index[0] == u) & (edge_index[1] == v)) | ((edge_index[0] == v) & (edge_index[1] == u))
            edge_masks.append(~gone)
        edge_masks = edge_masks or [torch.ones(edge_index.size(1), dtype=torch.bool)]
    else:
        for v in range(n):
            if policy == "ND":
                edge_masks.append((edge_index[0] != v) & (edge_index[1] != v))
            else:
                edge_masks.append(k_hop_subgraph(v, hops, edge_index, num_nodes=n)[3])
            marks.append(torch.arange(n) == v)
    m = len(edge_masks)
    edges = [edge_index[:, keep] + i * n for i, keep in enumerate(edge_masks)]
    attr = None if data.edge_attr is None else torch.cat([data.edge_attr[keep] for keep in edge_masks])
    made = Union(
        x=data.x.repeat(m, *[1] * (data.x.dim() - 1)),
        edge_index=torch.cat(edges, 1),
        original=torch.arange(n).repeat(m),
        part=torch.arange(m).repeat_interleave(n),
        num_subgraphs=m,
        graph_nodes=n,
        graph_edge_index=edge_index,
        y=data.y,
        num_nodes=n * m,
    )
    if attr is not None:
        made.edge_attr, made.graph_edge_attr = attr, data.edge_attr
    if policy == "EGO+":
        made.mark = torch.cat(marks)
    return made


def _mlp(inner: int, outer: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inner, outer), nn.BatchNorm1d(outer), nn.ReLU(), nn.Linear(outer, outer))


class Conv(nn.Module):
    """GINE with bond embeddings where there are bonds, else GIN."""

    def __init__(self, inner: int, outer: int, bonds: int) -> None:
        super().__init__()
        self.bonds = nn.Embedding(bonds, inner) if bonds else None
        self.conv = GINEConv(_mlp(inner, outer), train_eps=True) if bonds else GINConv(_mlp(inner, outer))

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> Tensor:
        if self.bonds is None:
            return self.conv(x, edge_index)
        return self.conv(x, edge_index, self.bonds(edge_attr))


class Network(nn.Module):
    """DS-GNN, or with `shares` DSS-GNN; the plain GNN is DS-GNN over the graph alone.

    Args:
        atoms: categories of nodes, embedded on ZINC, 0/1 vectors on NCI1.
        bonds: categories of edges, 0 for none.
        width: of the layers.
        layers: how many.
        out: width of a prediction.
        marked: whether the nodes carry marks.
        shares: whether subgraphs share what they know.
        every: whether all layers are read, or the last.
        sets: "mean", "phi-rho" or "deepsets", over the subgraphs.
    """

    def __init__(
        self,
        atoms: int,
        bonds: int,
        width: int,
        layers: int,
        out: int,
        marked: bool,
        shares: bool,
        every: bool,
        sets: str,
        set_width: int,
        readout: str,
    ) -> None:
        super().__init__()
        self.atoms = nn.Embedding(atoms, width) if bonds else None
        self.categories, self.every, self.readout = atoms, every, readout
        first = (width if bonds else atoms) + 2 * marked
        widths = [first] + [width] * layers
        self.convs = nn.ModuleList(Conv(i, width, bonds) for i in widths[:-1])
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers))
        self.shared = nn.ModuleList(Conv(i, width, bonds) for i in widths[:-1]) if shares else None
        self.shared_norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers)) if shares else None
        read = width * (layers if every else 1)
        self.sets = sets
        if sets == "phi-rho":
            self.phi, self.rho = nn.Linear(read, set_width), nn.Linear(set_width, set_width)
            read = set_width
        if sets == "deepsets":
            sizes = [read, set_width, set_width]
            self.own = nn.ModuleList(nn.Linear(i, set_width) for i in sizes[:-1])
            self.pooled = nn.ModuleList(nn.Linear(i, set_width, bias=False) for i in sizes[:-1])
            read = set_width
        self.head = nn.Sequential(nn.Linear(read, 2 * read), nn.ReLU(), nn.Linear(2 * read, out))

    def forward(self, batch: Batch) -> Tensor:
        if self.atoms is not None:
            x = self.atoms(batch.x.reshape(-1))
        else:
            x = nn.functional.one_hot(batch.x.reshape(-1), self.categories).float()
        if "mark" in batch:
            x = torch.cat([torch.stack([batch.mark, ~batch.mark], 1).float(), x], 1)
        attr = batch.edge_attr.reshape(-1) if "edge_attr" in batch else None
        graph_attr = batch.graph_edge_attr.reshape(-1) if "graph_edge_attr" in batch else None
        layers = []
        for t, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            h = norm(conv(x, batch.edge_index, attr))
            if self.shared is not None and self.shared_norms is not None:
                mean = scatter(x, batch.original, reduce="mean")
                h = h + self.shared_norms[t](self.shared[t](mean, batch.graph_edge_index, graph_attr))[batch.original]
            x = torch.relu(h)
            layers.append(x)
        read = torch.cat(layers, 1) if self.every else layers[-1]
        vectors = scatter(read, batch.part, reduce=self.readout)
        graph = torch.repeat_interleave(batch.num_subgraphs)
        if self.sets == "deepsets":
            for own, pooled in zip(self.own, self.pooled, strict=True):
                vectors = nn.functional.elu(own(vectors) + pooled(scatter(vectors, graph, reduce="mean"))[graph])
        if self.sets == "phi-rho":
            vectors = nn.functional.elu(self.phi(vectors))
        one = scatter(vectors, graph, reduce="mean")
        return self.head(nn.functional.elu(self.rho(one)) if self.sets == "phi-rho" else one)
