"""`ModelSpec`: what a network is built from, so that it can be built again where the training data is not."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from esan.data import Dataset, Task
from esan.data.dataset import Classes
from esan.graphs import Categories, Channels, OneHot
from esan.graphs.feature_kinds import check_channels
from esan.memory_limits import refuse_beyond_memory
from esan.nn import GINConv, GINEConv, SubgraphGNN, ds_gnn, dss_gnn
from esan.nn.feature_encoders import NodeFeatures
from esan.nn.linear import Linear
from esan.nn.models.heads import TwoScores
from esan.plural import counted
from esan.train.baselines import RandomFeatures, WalkFeatures
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
        targets: the name of each target, that of its column in the training data; None where they had none.
        unused: the features that the training data came with and that the network does not read, "x" or "edge_attr":
            their only row, or None where the settings leave out whatever they are. None for the whole where it was not
            recorded, by version 0.1.
    """

    recipe: Recipe
    task: Task
    in_channels: Channels
    edge_channels: Channels
    classes: Classes | None = None
    targets: tuple[str, ...] | None = None
    unused: Mapping[str, tuple[float, ...] | None] | None = None

    @staticmethod
    def of(recipe: Recipe, dataset: Dataset) -> "ModelSpec":
        used = recipe.edge_features and recipe.conv in ("auto", *WITH_EDGES)
        edges = dataset.edge_channels if used else None
        unused = {name: None if left.asked else left.row for name, left in dataset.unused.items()}
        if not recipe.node_features:
            unused["x"] = None
        if not recipe.edge_features or (dataset.edge_channels is not None and not used):
            unused["edge_attr"] = None
        names = dataset.classes, dataset.targets
        return ModelSpec(recipe, dataset.task, dataset.in_channels, edges, *names, unused)

    @property
    def conv(self) -> str:
        """The base encoder by name."""
        chosen = "gin" if self.edge_channels is None else "gine"
        return chosen if self.recipe.conv == "auto" else self.recipe.conv

    def build(self) -> SubgraphGNN:
        """The network, its weights drawn from torch's own generator."""
        recipe = self.recipe
        if recipe.one_logit and self.task != Task("classification", 2):
            raise ValueError(
                f"Expected two classes for one_logit (got {self.task.kind} of {self.task.out_channels}). "
                "Set it to false."
            )
        # Each layer maps its width to itself at least once, each of the set encoder likewise.
        sets = recipe.set_layers * recipe.set_channels**2 if recipe.model == "ds" else 0
        weights = recipe.num_layers * recipe.hidden_channels**2 + sets
        what = f"a network of {recipe.num_layers:,} layers of width {recipe.hidden_channels:,}"
        refuse_beyond_memory((8 if recipe.double else 4) * weights, what, "Set smaller num_layers or hidden_channels.")
        marked, width = recipe.policy.marked, recipe.hidden_channels
        channels = self.in_channels if recipe.node_features else None
        given = NodeFeatures(channels, width, False, recipe.degrees)
        if recipe.walk_features:
            given.encoder = WalkFeatures(given.encoder, recipe.walk_features)
            given.out_channels += recipe.walk_features
        features: NodeFeatures | None = None
        if recipe.random_features:
            features = RandomFeatures(given, width, recipe.random_features, marked)
        common: dict[str, Any] = {
            "conv": self._conv(),
            "edge_channels": self.edge_channels,
            "marked": marked,
            "degrees": None if recipe.random_features else recipe.degrees or None,
            "readout": recipe.readout,
            "set_encoder": "mean" if recipe.model == "gnn" else recipe.set_encoder,
            "set_channels": recipe.set_channels,
            "set_layers": recipe.set_layers,
            "head": recipe.head,
            "jk": recipe.jk,
            "norm": None if recipe.norm == "none" else recipe.norm,
            "last_act": recipe.last_act,
            "dropout": recipe.dropout,
        }
        if recipe.model == "dss":
            # PPGN pools the adjacency along with the features: it has none to choose.
            shared = {} if self.conv == "ppgn" else {"adjacency": recipe.adjacency}
            common |= {"bag_pool": recipe.bag_pool} | shared
        make = dss_gnn if recipe.model == "dss" else ds_gnn
        # Features of a baseline's own kind come to the first layer as so many numbers.
        if features is not None:
            channels = features.out_channels - 2 * marked
        elif recipe.walk_features:
            channels = given.encoder.out_channels
        model = make(channels, width, recipe.num_layers, 1 if recipe.one_logit else self.task.out_channels, **common)
        if features is not None:
            model.features = features
        elif recipe.walk_features:
            model.features.encoder = given.encoder
        if recipe.one_logit:
            layers = model.head if isinstance(model.head, nn.Sequential) else [model.head]
            model.head = nn.Sequential(*layers, TwoScores())
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
            "targets": None if self.targets is None else list(self.targets),
            "unused": None
            if self.unused is None
            else {name: None if row is None else list(row) for name, row in self.unused.items()},
        }

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "ModelSpec":
        recipe, task = Recipe.from_dict(values["recipe"]), Task(**values["task"])
        classes = None if values["classes"] is None else tuple(values["classes"])
        if classes is not None and not all(type(label) in (int, str) for label in classes):
            raise TypeError(f"Expected whole numbers or words as classes (got {classes!r:.60}). Train again.")
        return ModelSpec(
            recipe,
            task,
            _channels(values["in_channels"]),
            _channels(values["edge_channels"]),
            classes,
            _target_names(values.get("targets"), task),
            _unused(values.get("unused")),
        )


def _target_names(values: Any, task: Task) -> tuple[str, ...] | None:
    if values is None:
        return None
    count = 1 if task.kind == "classification" else task.out_channels
    if len(values) != count or not all(isinstance(name, str) for name in values):
        raise TypeError(f"Expected a name for each of {counted(count, 'target')} (got {values!r:.60}). Train again.")
    return tuple(values)


def _unused(values: Any) -> dict[str, tuple[float, ...] | None] | None:
    if values is None:
        return None
    rows = {name: None if row is None else tuple(row) for name, row in values.items()}
    if not all(isinstance(number, int | float) for row in rows.values() for number in row or ()):
        raise TypeError(f"Expected rows of numbers as unused features (got {values!r:.60}). Train again.")
    return rows


def _plain(channels: Channels) -> Any:
    if isinstance(channels, Categories):
        return {"categories": list(channels.sizes)}
    return {"one_hot": channels.size} if isinstance(channels, OneHot) else channels


def _channels(value: Any) -> Channels:
    if isinstance(value, dict):
        return Categories(*value["categories"]) if "categories" in value else OneHot(value["one_hot"])
    check_channels("channels", value)
    return value
