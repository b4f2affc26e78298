"""`Recipe`: the frozen settings of a training, from the dataset to the rule that chooses the epoch; also as TOML."""

import itertools
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from esan.checks import shown
from esan.data.sets.catalogue import known_name
from esan.policies import EgoNets, Policy, Sampled, Whole
from esan.train.recipes.legacy_fields import RENAMED, from_earlier
from esan.train.recipes.recipe_fields import checked, checked_grid, parsed, plain, refuse_unknown, short
from esan.train.recipes.toml_text import to_toml
from esan.train.runs.run_files import write_text

#: Characters of a folder's name at most, as file systems have it.
_LONGEST = 200
#: Configurations of a grid at most: each is a folder of runs.
_MOST_CONFIGURATIONS = 100_000
_NAME = re.compile(r"[\w+^%=.,~@() -]+(/[\w+^%=.,~@() -]+)*")


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a run gives, besides the fold and the seed.

    The defaults suit data of your own, and are those of `esan.fit`; the recipes of the paper set theirs.

    Args:
        data: a name of the catalogue (`esan.data.load`), or the path of a user's own data (`esan.data.own`).
        name: what the run folder is called; a changed recipe (`variant`) gets a name of its own.
        model: "ds", "dss", or "gnn", the base encoder on the graph itself.
        conv: the base encoder, as in `esan.ds_gnn`; "auto" for "gine" where edge features are used, else "gin".
        policy: how subgraphs are selected, or its name (`esan.policy_named`), which is what files hold; the identity
            for model "gnn".
        votes: of sampled bags, how many samples vote on a prediction.
        num_layers: message-passing layers.
        hidden_channels: width of the rows.
        jk: which layers are read.
        readout: over the nodes of a subgraph.
        set_encoder: over the subgraphs.
        set_channels: width of the set encoder.
        set_layers: its layers.
        bag_pool: of DSS, what subgraphs share of each node.
        adjacency: of DSS, the edges along which they share it.
        norm: after each convolution.
        last_act: whether the last layer ends with its activation too; OGB's own networks do without.
        head: "mlp", "linear" or "narrowing", as in `esan.ds_gnn`.
        one_logit: whether a network for two classes gives one number, trained by binary cross entropy, not two scores.
        recalibrate_norms: whether, before the predictions of each epoch, the running statistics of batch norms are
            computed again from the training graphs, under the weights of that epoch.
        recalibrate_batch: in batches of how many graphs; 0 for those of training.
        embeddings: how embeddings of categories are drawn: "normal" as torch draws them, "xavier" as OGB's encoders do.
        double: whether the network computes in double precision, which the fused kernels of a GPU do not.
        tf32: whether products of layers wider than 128 round their factors to TF32 on a GPU.
        dropout: after each layer.
        train_eps: whether ε of GIN and GINE is learned.
        node_features: whether node features that the data has are used.
        degrees: columns of the one-hot degree of each node in its subgraph, as further features; 0 for none.
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
        task: of own data, "classification", "regression" or "labels"; empty to have it read off the targets.
        smiles: of a table, the column of SMILES; empty for the one that is called so.
        targets: of a table, the columns of targets, with commas between, or a list of them; empty for all others.
        labels: for graphs without targets, a text file with one label per line; empty for those that the graphs have.
        skip_unreadable: of a table, whether rows that cannot be read are left out with a warning.
        skip_missing: of a table, whether rows without one of their targets are left out with a warning.
        split: "auto" (the one that comes with the data; without one, a tenth of the graphs validates and a tenth tests,
            stratified by class), "given" (with the data), "folds" (stratified), "scaffold" or "random".
        folds: of "folds", how many.
        split_seed: draws the folds, the random split, or the tenths of "auto".
        select: which epoch counts: "mean-valid", the one of best mean validation over all folds; "best-valid", each
            run's best; "best-loss", each run's least validation loss; "last", where training stopped.
        seeds: how many seeds the whole protocol has. Not compared, as the grid: it does not change what a run gives.
        grid: what is tuned: tables of values a field, each of which stands for all combinations of its values.
    """

    data: str
    name: str = ""
    model: str = "dss"
    conv: str = "auto"
    policy: Policy = EgoNets(hops=2, marked=True)  # noqa: RUF009 - frozen
    votes: int = 5
    num_layers: int = 4
    hidden_channels: int = 64
    jk: str = "cat"
    readout: str = "mean"
    set_encoder: str = "mean"
    set_channels: int = 64
    set_layers: int = 2
    bag_pool: str = "mean"
    adjacency: str = "original"
    norm: str = "batch_norm"
    last_act: bool = True
    head: str = "mlp"
    one_logit: bool = False
    recalibrate_norms: bool = False
    recalibrate_batch: int = 0
    embeddings: str = "normal"
    double: bool = False
    tf32: bool = False
    dropout: float = 0.0
    train_eps: bool = True
    node_features: bool = True
    degrees: int = 0
    edge_features: bool = True
    drop_edge: float = 0.0
    random_features: float = 0.0
    walk_features: int = 0
    batch_size: int = 32
    lr: float = 0.001
    schedule: str = "plateau"
    factor: float = 0.5
    period: int = 50
    patience: int = 10
    min_lr: float = 1e-5
    epochs: int = 200
    stop_after: int = 40
    scale_targets: bool = True
    task: str = ""
    smiles: str = ""
    targets: str = ""
    labels: str = ""
    skip_unreadable: bool = False
    skip_missing: bool = False
    split: str = "auto"
    folds: int = 10
    split_seed: int = 0
    select: str = "best-loss"
    seeds: int = field(default=1, compare=False)
    grid: tuple[Mapping[str, tuple[Any, ...]], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for known in fields(self):
            if known.name != "grid":
                object.__setattr__(self, known.name, checked(known.name, getattr(self, known.name), known.default))
        if not self.name:
            conv = "" if self.conv == "auto" else f"{self.conv}-"
            method = f"{self.model}-{conv}{short(self.policy).lower()}"
            object.__setattr__(self, "name", f"{Path(self.data).stem}/{method}")
        if not _NAME.fullmatch(self.name) or ".." in self.name or max(map(len, self.name.split("/"))) > _LONGEST:
            raise ValueError(
                f"Expected a name that can be a folder (got {shown(self.name)}). Use letters, digits and / between "
                f"parts of at most {_LONGEST} characters."
            )
        object.__setattr__(self, "grid", checked_grid(self.grid, FIELDS))
        if self.schedule == "plateau" and self.lr < self.min_lr:
            raise ValueError(
                f"Expected lr of at least min_lr, {self.min_lr}, where schedule 'plateau' stops (got {self.lr}). "
                'Set a smaller min_lr, or schedule = "constant".'
            )
        if self.drop_edge and not isinstance(self.policy, Whole):
            raise ValueError(
                f"Expected the identity policy with drop_edge (got {short(self.policy)!r}). "
                "It deletes edges of the graph itself: set drop_edge = 0.0."
            )
        if self.model == "gnn" and not isinstance(self.policy, Whole):
            raise ValueError(
                f"Expected the identity policy for model 'gnn' (got {short(self.policy)!r}). "
                "Use model 'ds' or 'dss' for subgraphs, or policy = \"identity\"."
            )

    @property
    def num_votes(self) -> int:
        """How many passes over the graphs a prediction takes: `votes` of sampled bags, one of whole ones."""
        return self.votes if isinstance(self.policy, Sampled) else 1

    @property
    def recalibrated_over(self) -> int:
        """Graphs a batch that statistics of norms are recalibrated over; 0 if they are not."""
        return (self.recalibrate_batch or self.batch_size) if self.recalibrate_norms else 0

    @property
    def base(self) -> str:
        """The name without what was changed since: what the paper's table calls it."""
        return self.name.partition("~")[0]

    def variant(self, **changes: Any) -> "Recipe":
        """The same recipe with other values, under a name that says which: `zinc/gin~epochs=3,lr=0.01`.

        The name is the same in whatever order, and however many steps, values are changed.
        """
        refuse_unknown(changes, FIELDS)
        if "name" in changes:
            return replace(self, **changes)
        changed = replace(self, **changes)
        parts = (part.split("=", 1) for part in self.name.partition("~")[2].split(",") if "=" in part)
        before = {RENAMED.get(key, key): value for key, value in parts}
        here = {key: short(getattr(changed, key)) for key in changes if getattr(changed, key) != getattr(self, key)}
        here.pop("grid", None)
        suffix = ",".join(f"{key}={value}" for key, value in sorted((before | here).items()))
        return replace(changed, name=f"{self.base}~{suffix}" if suffix else self.base)

    def configurations(self) -> "tuple[Recipe, ...]":
        """A recipe for every point of the grid, without grids of their own; the recipe itself if there is none."""
        count = sum(math.prod(map(len, table.values())) for table in self.grid)
        if count > _MOST_CONFIGURATIONS:
            raise ValueError(
                f"Expected at most {_MOST_CONFIGURATIONS:,} configurations of a grid (got {shown(count)}). Try fewer "
                "values, or fewer fields at a time."
            )
        bare = replace(self, grid=())
        points = [
            dict(zip(table, values, strict=True))
            for table in self.grid
            for values in itertools.product(*table.values())
        ]
        return tuple(bare.variant(**point) for point in points) or (bare,)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and TOML."""
        values = {known.name: plain(getattr(self, known.name)) for known in fields(self)}
        return values | {"grid": [{k: list(map(plain, v)) for k, v in table.items()} for table in self.grid]}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "Recipe":
        """The recipe of plain values; names that earlier versions wrote are read as what they are called now."""
        if not isinstance(values, Mapping):
            raise TypeError(f"Expected the fields of a recipe by name (got {shown(values)}). Pass a dict.")
        values = from_earlier(values, FIELDS["policy"])
        refuse_unknown(values, FIELDS)
        if "data" not in values:
            raise ValueError('Expected a recipe to name its data (got none). Add a line such as data = "zinc".')
        return Recipe(**values)

    def save(self, path: str | Path) -> None:
        """Write it as TOML, whole or not at all."""
        write_text(Path(path), to_toml(self.to_dict()))

    @staticmethod
    def load(path: str | Path, settings: Sequence[str] = ()) -> "Recipe":
        """Read a TOML file; a recipe without a name gets that of the file.

        Paths in it are relative to the current folder or, where there is nothing, to the folder of the file.

        Args:
            path: the file.
            settings: changes such as "lr=0.01", as in `override`; they may replace values that would be refused.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"Expected a recipe at {path} (got no file there). Check the path.")
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        # Brackets in brackets exhaust the parser's stack; a number of thousands of digits is a ValueError of Python.
        except (ValueError, RecursionError) as error:
            why = "brackets nested too deeply" if isinstance(error, RecursionError) else error
            raise ValueError(f"Expected TOML in {path} (got a file that is not: {why}). Correct that line.") from None
        changes = settings_of(settings)
        refuse_unknown(changes, FIELDS)
        beside = {key: _found(values[key], path.parent) for key in ("data", "labels") if key in values}
        values = {"name": path.stem} | values | beside
        try:
            recipe = Recipe.from_dict(values)
        except (ValueError, TypeError) as error:
            refused: Exception = error
            if changes:
                try:
                    return _repaired(values, changes)
                except (ValueError, TypeError) as still:
                    refused = still
            raise ValueError(f"{refused} The recipe is {path}.") from None
        return recipe.variant(**changes)

    def override(self, settings: Sequence[str]) -> "Recipe":
        """The recipe with settings such as "lr=0.01" of a command line."""
        return self.variant(**settings_of(settings))


def settings_of(settings: Sequence[str]) -> dict[str, Any]:
    """The fields and values of settings such as "lr=0.01"."""
    changes = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"Expected a setting FIELD=VALUE (got {setting!r}). Write e.g. lr=0.01.")
        changes[name.strip()] = parsed(text.strip())
    return changes


def _repaired(values: Mapping[str, Any], changes: Mapping[str, Any]) -> Recipe:
    """A recipe of values that are refused without these changes, named as `Recipe.variant` names it."""
    recipe = Recipe.from_dict({**values, **changes})
    shown = {key: short(getattr(recipe, key)) for key in changes if key not in ("grid", "name")}
    suffix = ",".join(f"{key}={value}" for key, value in sorted(shown.items()))
    return recipe if "name" in changes or not suffix else replace(recipe, name=f"{recipe.name}~{suffix}")


def _found(text: Any, folder: Path) -> Any:
    """A path as it is if it leads somewhere, else from the folder, if it does from there."""
    if not isinstance(text, str) or not text:
        return text
    try:
        if Path(text).exists() or not (folder / text).exists():
            return text
    except (OSError, ValueError):  # too long for the name of a file, or with a zero in it
        return text
    return text if known_name(text) is not None else str(folder / text)


FIELDS: dict[str, Any] = {known.name: known.default for known in fields(Recipe)}


def differences(wanted: Recipe, found: Recipe) -> str:
    """The first four differences of two recipes in words: "lr 0.01, not 0.001"."""
    mine, its = wanted.to_dict(), found.to_dict()
    differ = [f"{k} {its[k]!r}, not {v!r}" for k, v in mine.items() if k not in ("grid", "seeds") and its[k] != v]
    return "; ".join(differ[:4]) + (f" and {len(differ) - 4} more" if len(differ) > 4 else "")
