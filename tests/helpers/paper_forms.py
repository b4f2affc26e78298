"""Small graphs with the features of the paper's data sets, and the networks of recipes for them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch_geometric.data import Data

from esan.data import Task
from esan.data.sets.catalogue import CATALOGUE
from esan.graphs import Categories, complete, cycle, disjoint_union, path, star
from esan.nn import SubgraphGNN
from esan.train import Recipe
from esan.train.model_spec import ModelSpec
from esan.train.recipes.catalogue import DEGREES


def tu_features(graph: Data) -> None:
    graph.x = torch.randint(7, (graph.num_nodes, 1))


def exp_features(graph: Data) -> None:
    graph.x = torch.randint(2, (graph.num_nodes, 1))


def molecule(atoms: tuple[int, ...], bonds: tuple[int, ...]) -> Callable[[Data], None]:
    def make(graph: Data) -> None:
        source, target = graph.edge_index
        graph.x = torch.stack([torch.randint(size, (graph.num_nodes,)) for size in atoms], 1)
        # Both directions of a bond are of one kind.
        low, high = torch.minimum(source, target), torch.maximum(source, target)
        graph.edge_attr = torch.stack([(low * 7 + high * 3) % size for size in bonds], 1)

    return make


@dataclass(frozen=True)
class Form:
    """The networks of a data set.

    Attributes:
        family: tu, csl, exp, zinc or ogb.
        width: of the input.
        atoms: the sizes of atom tables.
        bonds: the sizes of bond tables.
    """

    family: str
    width: int
    atoms: tuple[int, ...] = ()
    bonds: tuple[int, ...] = ()

    def graphs(self) -> list[Data]:
        """Five small graphs, with features like those of the data set."""
        made = [cycle(5), star(3), disjoint_union(cycle(3), path(3)), complete(4), path(4)]
        torch.manual_seed(3)
        add_features = exp_features if self.family == "exp" else tu_features
        for graph in made:
            (molecule(self.atoms, self.bonds) if self.atoms else add_features)(graph)
        return made

    def network(self, recipe: Recipe) -> SubgraphGNN:
        """The recipe's network for these molecules, or for the features of its data set."""
        entry = CATALOGUE[recipe.data]
        if not self.atoms:
            return ModelSpec(recipe, task_of(recipe), entry.in_channels, None).build()
        return ModelSpec(recipe, task_of(recipe), Categories(*self.atoms), Categories(*self.bonds)).build()


FORMS = {
    "mutag": Form("tu", 7),
    "imdb-b": Form("tu", DEGREES["imdb-b"]),
    "csl": Form("csl", DEGREES["csl"]),
    "exp": Form("exp", 1),
    "zinc": Form("zinc", 16, (28,), (4,)),
    "ogbg-moltox21": Form("ogb", 16, (5, 3, 2), (4, 3)),
}


def task_of(recipe: Recipe) -> Task:
    """The task of its data set; of many labels only three."""
    task = CATALOGUE[recipe.data].task
    return Task("labels", 3) if task.kind == "labels" else task
