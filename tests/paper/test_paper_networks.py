"""The paper's networks: their parameter counts, and that recipes compute what plain PyG computes on all subgraphs.

The reference is written from the description of each network alone. It materialises every subgraph (`bag.subgraph`),
puts all of them side by side in one disjoint union, and uses PyG's convolutions and torch's norms. Weights are copied.
"""

from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINConv, GINEConv, GraphConv
from torch_geometric.utils import degree, scatter

from esan.bags import Bag
from esan.data.sets.catalogue import CATALOGUE
from esan.nn import SubgraphGNN
from esan.train import Recipe, named, paper_table
from esan.train.model_spec import WITH_EDGES, ModelSpec
from esan.train.recipes.catalogue import DEGREES
from paper_forms import FORMS

#: The table of the paper: parameters of GIN and of the best ESAN network on each set.
GIN = {
    "mutag": 8_296,
    "ptc": 8_692,
    "proteins": 8_164,
    "nci1": 9_286,
    "nci109": 9_319,
    "imdb-b": 39_305,
    "imdb-m": 40_091,
}
ESAN: list[tuple[str, dict[str, int], int]] = [
    ("mutag/dss-gin-ego+", {"hidden_channels": 32}, 18_625),
    ("ptc/dss-gin-ego+", {"hidden_channels": 16}, 5_601),
    ("proteins/ds-gin-nd", {"hidden_channels": 16, "set_channels": 32}, 10_865),
    ("nci1/ds-gin-nd", {"hidden_channels": 32, "set_channels": 64}, 47_137),
    ("nci109/dss-gin-nd", {"hidden_channels": 32}, 20_481),
    ("imdb-b/ds-gin-ego+", {"hidden_channels": 32, "set_channels": 32}, 33_729),
    ("imdb-m/dss-gin-ed", {"hidden_channels": 32}, 26_883),
]


def built(recipe: Recipe) -> SubgraphGNN:
    entry = CATALOGUE[recipe.data]
    edges = entry.edge_channels if recipe.conv in WITH_EDGES else None
    return ModelSpec(recipe, entry.task, entry.in_channels, edges).build()


def parameters(recipe: Recipe) -> int:
    return sum(weight.numel() for weight in built(recipe).parameters())


@pytest.mark.parametrize(("data", "count"), GIN.items())
def test_parameters_of_gin(data: str, count: int) -> None:
    assert parameters(named(f"{data}/gin")) == count


@pytest.mark.parametrize(("name", "sizes", "count"), ESAN)
def test_parameters_of_the_best_network(name: str, sizes: dict[str, int], count: int) -> None:
    recipe = named(name)
    assert parameters(recipe.variant(**sizes)) == count
    # The sizes are among those that the paper tunes.
    assert all(size in recipe.grid[0].get(field, (getattr(recipe, field),)) for field, size in sizes.items())


def test_networks_for_zinc_stay_below_their_budget() -> None:
    for recipe in paper_table("zinc"):
        assert all(parameters(point) < 100_000 for point in recipe.configurations()), recipe.name


# -- the reference ---------------------------------------------------------------------------------------------------


class Union:
    """All subgraphs of all graphs as one disjoint union, and the graphs themselves."""

    def __init__(self, bag: Bag, graphs: list[Data], recipe: Recipe) -> None:
        parts = list(bag.subgraphs())
        for part in parts:
            part.x = self._features(part, recipe)
        self.batch, self.whole = Batch.from_data_list(parts), Batch.from_data_list(graphs)
        self.graph_of = bag.selection.subgraph_graph
        starts = bag.graphs.node_start[self.graph_of]
        sizes = bag.graphs.num_nodes[self.graph_of]
        self.node = torch.cat([torch.arange(int(n)) + int(s) for s, n in zip(starts, sizes, strict=True)])

    @staticmethod
    def _features(part: Data, recipe: Recipe) -> Tensor:
        if recipe.data in ("zinc", "ogbg-moltox21"):
            return part.x
        if recipe.data in DEGREES:
            x = F.one_hot(degree(part.edge_index[1], part.num_nodes).long(), DEGREES[recipe.data]).double()
        elif recipe.data == "exp":
            x = part.x.double()
        else:
            x = F.one_hot(part.x[:, 0], 7).double()
        return torch.cat([part.mark[:, None].double(), 1 - part.mark[:, None].double(), x], 1) if "mark" in part else x


def mlp(i: int, hidden: int, o: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(i, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, o))


class Convolution(nn.Module):
    """GIN (ε fixed at 0), GINE (ε learned, bond embedding of the input's width) or GraphConv, and its BatchNorm."""

    def __init__(self, family: str, i: int, o: int, bonds: tuple[int, ...]) -> None:
        super().__init__()
        self.conv: nn.Module
        if family == "graphconv":
            self.conv = GraphConv(i, o)
        elif family in ("zinc", "ogb"):
            self.conv = GINEConv(mlp(i, o * (2 if family == "ogb" else 1), o), train_eps=True)
            self.bonds = nn.ModuleList(nn.Embedding(size, i) for size in bonds)
        else:
            self.conv = GINConv(mlp(i, o, o))
        self.norm = nn.BatchNorm1d(o)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> Tensor:
        if isinstance(self.conv, GINEConv):
            assert edge_attr is not None
            columns = edge_attr[:, None] if edge_attr.dim() == 1 else edge_attr
            return self.norm(self.conv(x, edge_index, sum(t(columns[:, i]) for i, t in enumerate(self.bonds))))
        return self.norm(self.conv(x, edge_index))


class Reference(nn.Module):
    """The network of a recipe as the paper has it; `family` is tu, csl, exp, zinc, ogb or graphconv."""

    def __init__(
        self, recipe: Recipe, family: str, inside: int, atoms: tuple[int, ...], bonds: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.family, self.model, w = family, recipe.model, recipe.hidden_channels
        self.marked = recipe.policy.marked
        self.atoms = nn.ModuleList(nn.Embedding(size, w) for size in atoms)
        widths = [inside] + [w] * recipe.num_layers
        pairs = list(pairwise(widths))
        self.inside = nn.ModuleList(Convolution(family, i, o, bonds) for i, o in pairs)
        self.shared = nn.ModuleList(Convolution(family, i, o, bonds) for i, o in pairs if recipe.model == "dss")
        read = w if recipe.model == "dss" or family == "ogb" else inside + recipe.num_layers * w
        c, out = recipe.set_channels, 3 if family == "ogb" else 1
        out = 10 if family == "csl" else out
        self.own, self.pooled = nn.ModuleList(), nn.ModuleList()
        if recipe.model == "ds" and family == "zinc":
            self.phi, self.rho = nn.Linear(read, c), nn.Linear(c, c)
        elif recipe.model == "ds":
            self.own = nn.ModuleList([nn.Linear(read, c), nn.Linear(c, c)])
            self.pooled = nn.ModuleList([nn.Linear(read, c), nn.Linear(c, c)])
        width = c if recipe.model == "ds" else read
        if recipe.model == "gnn" and family == "graphconv":
            parts = [nn.Linear(width, width), nn.ELU(), nn.Linear(width, width // 2), nn.ELU()]
            self.head = nn.Sequential(*parts, nn.Linear(width // 2, out))
        elif recipe.model == "gnn":
            self.head = nn.Sequential(nn.Linear(width, out))
        else:
            self.head = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, out))

    def forward(self, union: Union) -> Tensor:
        batch, whole, nodes = union.batch, union.whole, int(union.whole.num_nodes)
        subgraphs = union.graph_of.numel()
        x = batch.x
        if len(self.atoms):
            x = sum(table(x[:, i]) for i, table in enumerate(self.atoms))
            if self.marked:
                x = torch.cat([batch.mark[:, None].to(x), 1 - batch.mark[:, None].to(x), x], 1)
        given = [x]
        for t, inside in enumerate(self.inside):
            h = inside(x, batch.edge_index, batch.edge_attr)
            if self.model == "dss":
                pooled = scatter(x, union.node, 0, nodes, "mean")
                h = h + self.shared[t](pooled, whole.edge_index, whole.edge_attr)[union.node]
            last = t == len(self.inside) - 1 and self.family == "ogb" and self.model != "dss"
            x = h if last else F.relu(h)
            given.append(x)
        x = given[-1] if self.model == "dss" or self.family == "ogb" else torch.cat(given, 1)
        mean = self.model == "dss" or self.family == "ogb"
        x = scatter(x, batch.batch, 0, subgraphs, "mean" if mean else "sum")
        if self.model == "ds" and self.family == "zinc":
            x = F.elu(self.phi(x))
        for own, pooled in zip(self.own, self.pooled, strict=True):
            x = F.elu(own(x) + pooled(scatter(x, union.graph_of, 0, reduce="mean"))[union.graph_of])
        x = scatter(x, union.graph_of, 0, reduce="mean")
        if self.model == "ds" and self.family == "zinc":
            x = F.elu(self.rho(x))
        return self.head(x)


def partners(model: Any, reference: Reference) -> list[tuple[Any, Any]]:
    """Modules of the recipe's network and of the reference that hold the same weights."""
    found: list[tuple[Any, Any]] = []
    if len(reference.atoms):
        found += zip(model.features.encoder.tables, reference.atoms, strict=True)
    for t, layer in enumerate(model.encoder.layers):
        branches: list[tuple[Any, Any, Any]] = [(layer.inside, layer.norm, reference.inside[t])]
        if reference.model == "dss":
            branches.append((layer.shared, layer.shared_norm, reference.shared[t]))
        for conv, norm, plain in branches:
            found.append((norm, plain.norm))
            if isinstance(plain.conv, GraphConv):
                found += [(conv.lin_rel, plain.conv.lin_rel), (conv.lin_root, plain.conv.lin_root)]
                continue
            found += [
                (conv.mlp.first, plain.conv.nn[0]),
                (conv.mlp.norm, plain.conv.nn[1]),
                (conv.mlp.second, plain.conv.nn[3]),
            ]
            if isinstance(plain.conv, GINEConv):
                found += zip(conv.edge_encoder.encoder.tables, plain.bonds, strict=True)
    if hasattr(reference, "phi"):
        found += [(model.set_encoder.phi[0], reference.phi), (model.set_encoder.rho[0], reference.rho)]
    if len(reference.own):
        found += zip(model.set_encoder.own, reference.own, strict=True)
        found += zip(model.set_encoder.bag, reference.pooled, strict=True)
    heads = [[m for m in net.head.modules() if isinstance(m, nn.Linear)] for net in (model, reference)]
    return found + list(zip(*heads, strict=True))


def epsilons(model: Any, reference: Reference) -> list[tuple[Tensor, Tensor]]:
    """ε of GINE in both, where it is learned."""
    convs = [(layer.inside, plain.conv) for layer, plain in zip(model.encoder.layers, reference.inside, strict=True)]
    if reference.model == "dss":
        convs += [(layer.shared, p.conv) for layer, p in zip(model.encoder.layers, reference.shared, strict=True)]
    return [(mine.eps, plain.eps) for mine, plain in convs if isinstance(plain, GINEConv)]


METHODS = ("gin", "ds-gin-nd", "ds-gin-ego+", "dss-gin-ed", "dss-gin-ego+")
CASES = [(data, method) for data in FORMS if data != "imdb-b" for method in METHODS] + [
    ("mutag", "graphconv"),
    ("mutag", "ds-graphconv-nd"),
    ("mutag", "dss-graphconv-ego+"),
    ("imdb-b", "ds-gin-ego+"),
    ("csl", "ds-gin-ego"),
    ("mutag", "ds-gin-ego+^"),
]


@pytest.mark.parametrize("literal", [True, False])
@pytest.mark.parametrize(("data", "method"), CASES)
def test_a_recipe_is_the_papers_network(data: str, method: str, literal: bool) -> None:
    """Outputs, gradients and running statistics are those of the reference, on literal and on compact bags."""
    recipe = named(f"{data}/{method}").variant(hidden_channels=16, dropout=0.0, double=True)
    form = FORMS[data]
    family = "graphconv" if recipe.conv == "graphconv" else form.family
    graphs = form.graphs()
    torch.manual_seed(0)
    model = form.network(recipe)
    reference = Reference(recipe, family, form.width + 2 * recipe.policy.marked, form.atoms, form.bonds).double()
    with torch.no_grad():
        for mine, plain in partners(model, reference):
            plain.load_state_dict(mine.state_dict())
        for mine, plain in epsilons(model, reference):
            plain.copy_(mine.fill_(0.1))
    assert sum(p.numel() for p in model.parameters()) == sum(p.numel() for p in reference.parameters())

    bag = Bag.of(graphs, recipe.policy, model.num_layers + model.encoder.lookahead, literal=literal)
    union = Union(bag, graphs, recipe)
    for mode in (True, False):
        model.train(mode), reference.train(mode)
        scores, expected = model(bag), reference(union)
        if recipe.one_logit:
            assert not scores[:, 0].any()
            y = torch.arange(len(graphs)) % 2
            binary = F.binary_cross_entropy_with_logits(expected[:, 0], y.double())
            torch.testing.assert_close(F.cross_entropy(scores, y), binary, rtol=1e-8, atol=1e-10)
            scores = scores[:, 1:]
        torch.testing.assert_close(scores, expected, rtol=1e-7, atol=1e-9)
        if mode:
            weight = torch.randn_like(expected)
            (scores * weight).sum().backward()
            (expected * weight).sum().backward()
    for mine, plain in partners(model, reference):
        for name, theirs in plain.named_parameters():
            own = dict(mine.named_parameters())[name]
            torch.testing.assert_close(own.grad, theirs.grad, rtol=1e-6, atol=1e-8)
        for name, theirs in plain.named_buffers():
            torch.testing.assert_close(dict(mine.named_buffers())[name], theirs, rtol=1e-7, atol=1e-9)
    for mine, plain in epsilons(model, reference):
        torch.testing.assert_close(mine.grad, plain.grad, rtol=1e-6, atol=1e-8)
