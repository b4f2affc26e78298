"""`Recipe`: the frozen settings of a run, from data to selection rule; read from and written to TOML."""

import difflib
import itertools
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from esan.policies import Policy, Sampled, Whole, policy_named
from esan.train.files import write_text
from esan.train.toml import to_toml

#: What the fields that choose among names may hold.
CHOICES: dict[str, tuple[str, ...]] = {
    "model": ("ds", "dss", "gnn"),
    "conv": ("gin", "gine", "gine-ogb", "graphconv", "gcn", "ppgn"),
    "jk": ("cat", "last"),
    "readout": ("sum", "mean", "max"),
    "set_encoder": ("deepsets", "invariant-deepsets", "mean", "max"),
    "bag_pool": ("mean", "sum", "max", "others"),
    "adjacency": ("original", "max", "sum"),
    "norm": ("batch_norm", "layer_norm", "none"),
    "schedule": ("step", "plateau", "constant"),
    "split": ("given", "folds", "scaffold", "random"),
    "select": ("mean-valid", "best-valid", "best-loss", "last"),
}
#: The least that the fields which are whole numbers may be.
LEAST: dict[str, int] = dict.fromkeys(
    ("layers", "width", "set_channels", "set_layers", "votes", "batch_size", "epochs", "period", "seeds"), 1
) | {"folds": 2}
_NAME = re.compile(r"[\w+^%=.,~@() -]+(/[\w+^%=.,~@() -]+)*")


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a run gives, besides the fold and the seed.

    Args:
        data: a name of the catalogue (`esan.data.load`).
        name: what the run folder is called; a changed recipe (`variant`) gets a name of its own.
        model: "ds", "dss", or "gnn", the base encoder on the graph itself.
        conv: the base encoder, as in `esan.ds_gnn`.
        policy: the policy by name, as in `esan.policy_named`; "identity" for model "gnn".
        fraction: the part of each bag that a sample has; 1 for whole bags.
        votes: of sampled bags, how many samples vote on a prediction.
        layers: message-passing layers.
        width: of the rows.
        jk: which layers are read.
        readout: over the nodes of a subgraph.
        set_encoder: over the subgraphs.
        set_channels: width of the set encoder.
        set_layers: its layers.
        bag_pool: of DSS, what subgraphs share of each node.
        adjacency: of DSS, the edges along which they share it.
        norm: after each convolution.
        dropout: after each layer.
        train_eps: whether ε of GIN and GINE is learned.
        edge_features: whether edge features that the data has are used by convolutions that can.
        drop_edge: the part of the edges that is deleted while training (DropEdge).
        random_features: the part of the input features that is random (RNI).
        walk_features: how many counts of closed walks join the node features (ID-GNN, fast).
        batch_size: graphs a step.
        lr: the first learning rate of Adam.
        schedule: "step", "plateau" or "constant".
        factor: what the learning rate is multiplied by.
        period: of "step", every how many epochs.
        patience: of "plateau", after how many epochs without better validation loss.
        min_lr: of "plateau", training stops once the learning rate is below.
        epochs: at most.
        stop_after: stop after so many epochs without better validation; 0 for never.
        scale_targets: of regression, whether the network sees targets of mean 0 and deviation 1.
        split: "given" with the data, "folds" (stratified), "scaffold" or "random".
        folds: of "folds", how many.
        split_seed: draws the folds or the random split.
        select: which epoch counts: "mean-valid", the one of best mean validation over all folds; "best-valid", each
            run's best; "best-loss", each run's least validation loss; "last", where training stopped.
        seeds: how many seeds the whole protocol has. Not compared, as the grid: it does not change what a run gives.
        grid: what is tuned: tables of values a field, each of which stands for all combinations of its values.
    """

    data: str
    name: str = ""
    model: str = "dss"
    conv: str = "gin"
    policy: str = "EGO+(2)"
    fraction: float = 1.0
    votes: int = 5
    layers: int = 4
    width: int = 64
    jk: str = "cat"
    readout: str = "mean"
    set_encoder: str = "mean"
    set_channels: int = 64
    set_layers: int = 2
    bag_pool: str = "mean"
    adjacency: str = "original"
    norm: str = "batch_norm"
    dropout: float = 0.0
    train_eps: bool = False
    edge_features: bool = True
    drop_edge: float = 0.0
    random_features: float = 0.0
    walk_features: int = 0
    batch_size: int = 32
    lr: float = 0.001
    schedule: str = "constant"
    factor: float = 0.5
    period: int = 50
    patience: int = 20
    min_lr: float = 1e-5
    epochs: int = 100
    stop_after: int = 0
    scale_targets: bool = False
    split: str = "given"
    folds: int = 10
    split_seed: int = 0
    select: str = "best-valid"
    seeds: int = field(default=1, compare=False)
    grid: tuple[Mapping[str, tuple[Any, ...]], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for known in fields(self):
            if known.name != "grid":
                object.__setattr__(self, known.name, _checked(known.name, getattr(self, known.name)))
        if not self.name:
            object.__setattr__(self, "name", f"{Path(self.data).stem}/{self.model}-{self.conv}-{self.policy.lower()}")
        if not _NAME.fullmatch(self.name) or ".." in self.name:
            raise ValueError(
                f"Expected a name that can be a folder (got {self.name!r}). Use letters, digits and / between parts."
            )
        object.__setattr__(self, "grid", _checked_grid(self.grid))
        if isinstance(sampled := policy_named(self.policy), Sampled):
            raise ValueError(
                f"Expected a policy without its sample (got {self.policy!r}). Set fraction = {sampled.fraction}."
            )
        if self.drop_edge and not isinstance(self.selected, Whole):
            raise ValueError(
                f"Expected the identity policy with drop_edge (got {self.policy!r}). "
                "It deletes edges of the graph itself: set drop_edge = 0.0."
            )
        if self.model == "gnn" and not isinstance(self.selected, Whole):
            raise ValueError(
                f"Expected the identity policy for model 'gnn' (got {self.policy!r}). "
                "Use model 'ds' or 'dss' for subgraphs, or policy = \"identity\"."
            )

    @property
    def selected(self) -> Policy:
        """The policy, sampled if the recipe says so."""
        policy = policy_named(self.policy)
        return policy if self.fraction == 1 else Sampled(policy, self.fraction)

    @property
    def base(self) -> str:
        """The name without what was changed since: what the paper's table calls it."""
        return self.name.partition("~")[0]

    def variant(self, **changes: Any) -> "Recipe":
        """The same recipe with other values, under a name that says which: `zinc/gin~lr=0.01,epochs=3`."""
        unknown = sorted(set(changes) - set(FIELDS))
        if unknown:
            raise ValueError(_unknown(unknown))
        if "name" in changes:
            return replace(self, **changes)
        changed = replace(self, **changes)
        before = dict(part.split("=", 1) for part in self.name.partition("~")[2].split(",") if "=" in part)
        here = {key: _short(getattr(changed, key)) for key in changes if getattr(changed, key) != getattr(self, key)}
        here.pop("grid", None)
        suffix = ",".join(f"{key}={value}" for key, value in (before | here).items())
        return replace(changed, name=f"{self.base}~{suffix}" if suffix else self.base)

    def configurations(self) -> "tuple[Recipe, ...]":
        """A recipe for every point of the grid, without grids of their own; the recipe itself if there is none."""
        bare = replace(self, grid=())
        points = [
            dict(zip(table, values, strict=True))
            for table in self.grid
            for values in itertools.product(*table.values())
        ]
        return tuple(bare.variant(**point) for point in points) or (bare,)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and TOML."""
        return asdict(self) | {"grid": [{k: list(v) for k, v in table.items()} for table in self.grid]}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "Recipe":
        unknown = sorted(set(values) - set(FIELDS))
        if unknown:
            raise ValueError(_unknown(unknown))
        if "data" not in values:
            raise ValueError('Expected a recipe to name its data (got none). Add a line such as data = "zinc".')
        return Recipe(**values)

    def save(self, path: str | Path) -> None:
        """Write it as TOML, whole or not at all."""
        write_text(Path(path), to_toml(self.to_dict()))

    @staticmethod
    def load(path: str | Path) -> "Recipe":
        """Read a TOML file; a recipe without a name gets that of the file."""
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"Expected a recipe at {path} (got no file there). Check the path.")
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"Expected TOML in {path} (got a file that is not: {error}). Correct that line.") from None
        try:
            return Recipe.from_dict({"name": path.stem} | values)
        except (ValueError, TypeError) as error:
            raise type(error)(f"{error} The recipe is {path}.") from None

    def override(self, settings: list[str]) -> "Recipe":
        """The recipe with settings such as "lr=0.01" of a command line."""
        changes = {}
        for setting in settings:
            name, equals, text = setting.partition("=")
            if not equals:
                raise ValueError(f"Expected a setting FIELD=VALUE (got {setting!r}). Write e.g. lr=0.01.")
            changes[name.strip()] = _value(text.strip())
        return self.variant(**changes)


FIELDS: dict[str, Any] = {known.name: known.default for known in fields(Recipe)}


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:  # a word without quotes, as one types it in a shell
        return text


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return re.sub(r"[^\w+^%.@()-]", "", text)


def _unknown(names: list[str]) -> str:
    near = [match for name in names for match in difflib.get_close_matches(name, FIELDS, 1)]
    hint = f" Did you mean {', '.join(near)}?" if near else ""
    return f"Expected fields of a recipe (got {', '.join(names)}).{hint} Known: {', '.join(FIELDS)}."


def _checked(name: str, value: Any) -> Any:
    """The value in the type of its field, or an error that names the field."""
    wanted = str if name == "data" else type(FIELDS[name])
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not wanted:
        words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}[wanted]
        raise TypeError(f"Expected {name} to be {words} (got {value!r}). The default is {FIELDS[name]!r}.")
    if name in CHOICES and value not in CHOICES[name]:
        raise ValueError(f"Expected {name} to be one of {', '.join(CHOICES[name])} (got {value!r}).")
    if isinstance(value, int) and not isinstance(value, bool) and value < (least := LEAST.get(name, 0)):
        raise ValueError(f"Expected {name} of at least {least} (got {value}). The default is {FIELDS[name]!r}.")
    if isinstance(value, float):
        _check_range(name, value)
    return value


def _check_range(name: str, value: float) -> None:
    """Learning rates are above 0, parts of something are in [0, 1) or (0, 1]."""
    if name in ("lr", "min_lr"):
        good, words = 0 < value < math.inf, "above 0"
    elif name in ("fraction", "factor"):
        good, words = 0 < value <= 1, "in (0, 1]"
    else:
        good, words = 0 <= value < 1, "in [0, 1)"
    if not good:
        raise ValueError(f"Expected {name} {words} (got {value}). The default is {FIELDS[name]!r}.")


def _checked_grid(grid: Any) -> tuple[dict[str, tuple[Any, ...]], ...]:
    tables = [grid] if isinstance(grid, Mapping) else list(grid) if isinstance(grid, list | tuple) else None
    if tables is None or not all(isinstance(table, Mapping) for table in tables):
        raise TypeError(
            f"Expected tables of values as a grid (got {grid!r}). Write e.g. lr = [0.01, 0.001] in [[grid]]."
        )
    unknown = sorted({name for table in tables for name in table} - set(FIELDS))
    if unknown:
        raise ValueError(_unknown(unknown))
    if not all(isinstance(values, list | tuple) and values for table in tables for values in table.values()):
        raise TypeError(
            f"Expected a list of values for every field of a grid (got {grid!r}). Write lr = [0.01, 0.001]."
        )
    return tuple({name: tuple(_checked(name, v) for v in values) for name, values in t.items()} for t in tables)
