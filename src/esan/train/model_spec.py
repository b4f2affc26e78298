"""`ModelSpec`: what a network is built from, so that it can be built again where the training data is not."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from esan.data import Dataset, Task
from esan.data.dataset import Classes
from esan.graphs import Categories, Channels, OneHot
from esan.graphs.channels import check_channels
from esan.limits import refuse_beyond_memory
from esan.nn import GINConv, GINEConv, SubgraphGNN, ds_gnn, dss_gnn
from esan.nn.features import encoder
from esan.nn.linear import Linear
from esan.train.recipes.baselines import RandomLines, WalkLines
from esan.train.recipes.recipe import Recipe

#: The base encoders that read edge features.
WITH_EDGES = ("auto", "gine", "gine-ogb", "gcn", "ppgn")


@dataclass(frozen=True)
class ModelSpec:
    """A recipe, and what it must know of the data.

    Attributes:
        recipe: the settings.
        task: what is predicted.
        in_channels: what `x` holds, walk counts left out.
        edge_channels: what `edge_attr` holds; None where it is not used.
        classes: what the user calls the classes, where not 0, 1, ...: other numbers, or words.
    """

    recipe: Recipe
    task: Task
    in_channels: Channels
    edge_channels: Channels
    classes: Classes | None = None

    @staticmethod
    def of(recipe: Recipe, dataset: Dataset) -> "ModelSpec":
        used = recipe.edge_features and recipe.conv in WITH_EDGES
        edges = dataset.edge_channels if used else None
        return ModelSpec(recipe, dataset.task, dataset.in_channels, edges, dataset.classes)

    @property
    def conv(self) -> str:
        """The base encoder by name: for "auto", the one that suits the edge features."""
        if self.recipe.conv != "auto":
            return self.recipe.conv
        return "gin" if self.edge_channels is None else "gine"

    def build(self) -> SubgraphGNN:
        """The network, its weights drawn from torch's own generator."""
        recipe = self.recipe
        # Each layer maps its width to itself at least once, each of the set encoder likewise.
        weights = recipe.layers * recipe.width**2 + recipe.set_layers * recipe.set_channels**2 * (recipe.model == "ds")
        what = f"a network of {recipe.layers:,} layers of width {recipe.width:,}"
        refuse_beyond_memory((8 if recipe.double else 4) * weights, what, "Set smaller layers or width.")
        given = encoder(self.in_channels, recipe.width, "x")
        lines = WalkLines(given, recipe.walk_features) if recipe.walk_features else given
        if recipe.random_features:
            lines = RandomLines(lines, recipe.width, recipe.random_features)
        plain = lines is given
        common: dict[str, Any] = {
            "conv": self._conv(),
            "edge_channels": self.edge_channels,
            "marked": recipe.selected.marked,
            "readout": recipe.readout,
            "set_encoder": "mean" if recipe.model == "gnn" else recipe.set_encoder,
            "set_channels": recipe.set_channels,
            "set_layers": recipe.set_layers,
            "jk": recipe.jk,
            "norm": None if recipe.norm == "none" else recipe.norm,
            "dropout": recipe.dropout,
        }
        if recipe.model == "dss":
            # PPGN pools the adjacency along with the features: it has none to choose.
            shared = {} if self.conv == "ppgn" else {"adjacency": recipe.adjacency}
            common |= {"bag_pool": recipe.bag_pool} | shared
        make = dss_gnn if recipe.model == "dss" else ds_gnn
        # Features of a baseline's own kind come to the first layer as so many numbers.
        channels = self.in_channels if plain else lines.out_channels
        model = make(channels, recipe.width, recipe.layers, self.task.out_channels, **common)
        if not plain:
            model.features.encoder = lines
        if recipe.head == "linear":
            model.head = Linear(next(model.head.parameters()).size(1), self.task.out_channels)
        if not recipe.last_act:
            model.encoder.layers[-1].act = nn.Identity()
        for module in model.modules():
            if isinstance(module, nn.Embedding) and recipe.embeddings == "xavier":
                nn.init.xavier_uniform_(module.weight)
            if isinstance(module, Linear):
                module.tf32 = recipe.tf32
        return model.double() if recipe.double else model

    def _conv(self) -> str | Callable[[int, int], nn.Module]:
        """The base encoder; by name where ε is what it is by default."""
        conv, edges, learned = self.conv, self.edge_channels, self.recipe.train_eps
        if conv == "gin" and learned:
            return lambda i, o: GINConv(i, o, train_eps=True)
        if conv in ("gine", "gine-ogb") and not learned:
            return lambda i, o: GINEConv(i, o, edges, expansion=2 if conv == "gine-ogb" else 1, train_eps=False)
        return conv

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "recipe": self.recipe.to_dict(),
            "task": {"kind": self.task.kind, "out_channels": self.task.out_channels, "metric": self.task.metric},
            "in_channels": _plain(self.in_channels),
            "edge_channels": _plain(self.edge_channels),
            "classes": None if self.classes is None else list(self.classes),
        }

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "ModelSpec":
        recipe, task = Recipe.from_dict(values["recipe"]), Task(**values["task"])
        classes = None if values["classes"] is None else tuple(values["classes"])
        if classes is not None and not all(type(label) in (int, str) for label in classes):
            raise TypeError(f"Expected whole numbers or words as classes (got {classes!r:.60}). Train again.")
        return ModelSpec(
            recipe, task, _channels(values["in_channels"]), _channels(values["edge_channels"]), classes=classes
        )


def _plain(channels: Channels) -> Any:
    if isinstance(channels, Categories):
        return {"categories": list(channels.sizes)}
    return {"one_hot": channels.size} if isinstance(channels, OneHot) else channels


def _channels(value: Any) -> Channels:
    if isinstance(value, dict):
        return Categories(*value["categories"]) if "categories" in value else OneHot(value["one_hot"])
    check_channels("channels", value)
    return value
