"""Recipes by name: every row of the paper's tables, and other recipes that such names describe."""

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from esan.checks import shown
from esan.data import Task
from esan.data.sets.catalogue import CATALOGUE
from esan.policies import Augmented, EdgeDeletion, NodeDeletion, Policy, Sampled, Whole, policy_named
from esan.train.recipes.paper_values import PRINTED, cited_recipe, paper_values, table_recipes
from esan.train.recipes.recipe import Recipe
from esan.train.runs.summary import MeanStd

TU = ("mutag", "ptc", "proteins", "nci1", "nci109", "imdb-b", "imdb-m", "rdt-b")
#: Which protocol each set has.
FAMILIES = dict.fromkeys(TU, "tu") | {
    "exp": "rni",
    "cexp": "rni",
    "csl": "csl",
    "ogbg-molhiv": "ogb",
    "ogbg-moltox21": "ogb",
    "zinc": "zinc",
}
#: The hops of ego-networks; 2 on all other sets.
HOPS = {"zinc": 3, "csl": 4}
#: Sets whose node features are the degrees in each subgraph, one-hot, with so many columns.
DEGREES = {"imdb-b": 136, "imdb-m": 136, "csl": 6}
#: Sets of social networks, on which plain GIN is 64 wide, as its authors have it.
SOCIAL = ("imdb-b", "imdb-m", "rdt-b")
#: Widths of GIN with about as many parameters as the paper's best network on each set.
BIG_WIDTHS = {"mutag": 49, "proteins": 37, "nci1": 78, "nci109": 50}

#: What all protocols share, where a recipe has another default.
_ALL = {"schedule": "constant", "patience": 20, "stop_after": 0, "scale_targets": False, "train_eps": False}
_FOLDS = {"split": "folds", "select": "mean-valid", "epochs": 350, "schedule": "step", "period": 50}
_TU = _FOLDS | {"lr": 0.01, "batch_size": 32, "edge_features": False, "set_channels": 32}
_SMALL_STEPS = {"lr": (0.01, 0.001)}
#: What the protocol of each family sets, whatever the network.
PROTOCOLS: dict[str, dict[str, Any]] = {
    "tu": _TU | {"num_layers": 4, "hidden_channels": 32},
    "rni": _TU | {"num_layers": 6, "hidden_channels": 32, "lr": 0.001},
    "csl": _TU | {"folds": 5, "num_layers": 4, "hidden_channels": 32, "lr": 0.001, "batch_size": 16},
    "ogb": {"epochs": 100, "num_layers": 5, "hidden_channels": 300, "set_channels": 32}
    | {"split": "given", "select": "best-valid", "seeds": 10, "train_eps": True, "embeddings": "xavier", "tf32": True},
    "zinc": {"batch_size": 128, "schedule": "plateau", "epochs": 400, "select": "last", "seeds": 10, "train_eps": True}
    | {"split": "given", "set_channels": 96, "set_layers": 1},
}
#: What each family tunes, whatever the network.
GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "tu": _SMALL_STEPS | {"batch_size": (32, 128), "hidden_channels": (16, 32)},
    "rni": _SMALL_STEPS | {"batch_size": (32, 128)},
    "csl": _SMALL_STEPS | {"batch_size": (8, 16), "hidden_channels": (32, 64), "num_layers": (4, 8)},
    "ogb": {"lr": (0.001, 0.0001)},
    "zinc": {},
}
_METHOD = re.compile(
    r"(?P<model>dss?)-(?P<conv>[a-z]+)-(?P<policy>.+)|(?:(?P<baseline>dropedge|rni|id|big)-)?(?P<base>[a-z]+)"
)
_CONVS = ("gin", "graphconv", "gcn", "ppgn")
_BASELINES: dict[str | None, dict[str, Any]] = {
    None: {},
    "dropedge": {"drop_edge": 0.2},
    "rni": {"random_features": 0.5},
    "id": {"walk_features": 10},
    "big": {},
}


def _unknown(name: str) -> ValueError:
    near = difflib.get_close_matches(name, names(), 3)
    hint = f"Near: {', '.join(near)}." if near else "They are <data>/<method>, e.g. zinc/dss-gin-ego+."
    return ValueError(
        f"Expected the name of a recipe or a TOML file (got {shown(name)}). {hint} esan train --list shows all."
    )


@cache
def named(name: str) -> Recipe:
    """The recipe called `<data>/<method>`, with values from the middle of what the paper tunes, and its grid.

    A method is `dss-gin-ego+`: ds or dss, a base encoder (gin, graphconv, gcn or ppgn) and a policy as
    `esan.policy_named` reads it (`ego+^` is the augmented one, `nd-5%` a sample); a base encoder alone, `gin`; or a
    baseline of one: `dropedge-gin`, `rni-gin`, `id-gin`, `big-gin`.
    """
    data, _, method = name.partition("/")
    match = _METHOD.fullmatch(method)
    if data not in FAMILIES or match is None or (match["conv"] or match["base"]) not in _CONVS:
        raise _unknown(name)
    model, family = match["model"] or "gnn", FAMILIES[data]
    conv = match["conv"] or match["base"]
    values: dict[str, Any] = {"data": data, "name": name, "model": model} | _ALL | PROTOCOLS[family]
    values |= (
        _encoder_fields(family, conv)
        | _readout_fields(family, model, conv)
        | _input_fields(data)
        | _BASELINES[match["baseline"]]
    )
    if model == "gnn" and conv == "gin" and data in SOCIAL:
        values["hidden_channels"] = 64
    try:
        policy = Whole() if model == "gnn" else policy_named(match["policy"], hops=HOPS.get(data, 2))
    except ValueError:
        raise _unknown(name) from None
    values["policy"] = policy
    if data == "csl" and isinstance(policy_of(policy), EdgeDeletion | NodeDeletion):
        # CSL(41, 9) and CSL(41, 12) differ after 5 rounds of refinement of edge-deleted bags only, and after 4 of
        # node-deleted ones; the paper's other choice is 4 layers.
        values["num_layers"] = 8
        whole, edges = not isinstance(policy, Sampled), isinstance(policy_of(policy), EdgeDeletion)
        # What subgraphs share is nearly the same for all nodes, and norms over near constants need statistics that do
        # not lag. What samples of node-deleted subgraphs share varies enough.
        values["recalibrate_norms"] = model == "dss" and (whole or edges)
        # Bags that are whole look alike for two layers: what four norms one after another, each over constants, make
        # of rounding in single precision is as large as what follows.
        values["double"] = model == "dss" and whole
        # What subgraphs share depends on the class alone: the mean of a batch says which classes are in it. So all
        # training graphs are one.
        values["recalibrate_batch"] = 120 if values["double"] else 0
    if match["baseline"] == "big":
        values["hidden_channels"] = _big_width(data, conv)
    other = match["baseline"] == "big" or (conv != "gin" and family == "tu") or (model == "gnn" and data in SOCIAL)
    fixed = {"hidden_channels"} if other else set()
    fixed |= {"batch_size"} if data == "rdt-b" else set()
    return Recipe(**values, grid=_grid(family, model, fixed))


def find_recipe(text: str, settings: Sequence[str] = ()) -> Recipe:
    """The recipe of a TOML file, or of that name, with settings such as "lr=0.01" of a command line."""
    if text.endswith(".toml"):
        return Recipe.load(text, settings)
    if Path(text).is_file():
        raise ValueError(
            f"Expected the name of a recipe or a TOML file (got {text!r}, which is a file of another kind). To train "
            f"on it, write data = {json.dumps(text)} into a file that ends in .toml, or call esan.fit({text!r})."
        )
    return named(text).override(settings)


@cache
def names() -> tuple[str, ...]:
    """The names of all recipes of the paper's tables, and of the baselines on the same sets."""
    more = [f"{data}/{kind}" for data in FAMILIES for kind in ("gcn", "dropedge-gin", "rni-gin", "id-gin")]
    more += [f"{data}/big-gin" for data in BIG_WIDTHS]
    return tuple(dict.fromkeys([name for rows in table_recipes().values() for name in rows] + sorted(more)))


def paper_table(table: str) -> tuple[Recipe, ...]:
    """The recipes of a table of the paper: "tu", "tu-sampled", "ogb", "rni", "sampled", "big-gin", "zinc", "csl"."""
    if table not in PRINTED:
        raise ValueError(f"Expected a table of the paper (got {table!r}). Known: {', '.join(PRINTED)}.")
    return tuple(named(name) for name in table_recipes()[table])


def paper_value(recipe: Recipe | str) -> MeanStd | None:
    """What the paper reports for a recipe, in the units of records; None where it reports nothing.

    A recipe with other values than the named one (`zinc/gin~lr=0.01`) is held against the number of that one, but not
    if it has other data.
    """
    return paper_values().get(cited_recipe(recipe if isinstance(recipe, str) else recipe.name))


def policy_of(policy: Policy) -> Policy:
    """The policy inside of samples and augmentations."""
    return policy_of(policy.policy) if isinstance(policy, Sampled | Augmented) else policy


def _encoder_fields(family: str, conv: str) -> dict[str, Any]:
    """What the base encoder is called in this family, and the sizes that go with it."""
    if family == "tu" and conv == "graphconv":
        return {"conv": conv, "num_layers": 3, "hidden_channels": 64}
    edges = {"zinc": {"gin": "gine"}, "ogb": {"gin": "gine-ogb"}}
    return {"conv": edges.get(family, {}).get(conv, conv)} | ({"num_layers": 3} if conv == "ppgn" else {})


def _input_fields(data: str) -> dict[str, Any]:
    """Which node features there are, and how many logits the head has."""
    degrees = {"node_features": False, "degrees": DEGREES[data]} if data in DEGREES else {}
    return degrees | {"one_logit": CATALOGUE[data].task == Task("classification", 2)}


def _readout_fields(family: str, model: str, conv: str) -> dict[str, Any]:
    """The layers that are read, readout, set encoder, head, and what comes after a layer."""
    if model == "dss":
        return {"jk": "last", "readout": "mean", "set_encoder": "mean"}
    if conv == "ppgn":
        return {"jk": "cat", "readout": "sum", "set_encoder": "deepsets"}
    if family == "ogb":
        # OGB's own networks: dropout after every layer, and no ReLU after the last.
        common = {"jk": "last", "dropout": 0.5, "last_act": False}
        if model == "gnn":
            return common | {"readout": "mean", "head": "linear"}
        return common | {"readout": "sum" if conv == "gcn" else "mean", "set_encoder": "deepsets"}
    common = {"jk": "cat-input", "readout": "sum"}
    if model == "gnn":
        return common | {"head": "narrowing" if conv == "graphconv" else "linear"}
    return common | {"set_encoder": "invariant-deepsets" if family == "zinc" else "deepsets"}


def _grid(family: str, model: str, fixed: set[str]) -> tuple[Mapping[str, tuple[Any, ...]], ...]:
    tuned = {name: values for name, values in GRIDS[family].items() if name not in fixed}
    if model == "ds" and family != "zinc":
        tuned |= {"set_channels": (32, 64)}
    return (tuned,) if tuned else ()


def _big_width(data: str, conv: str) -> int:
    if data not in BIG_WIDTHS or conv != "gin":
        raise ValueError(
            f"Expected big-gin on one of {', '.join(BIG_WIDTHS)} (got {conv} on {data}). "
            "Set hidden_channels in a recipe of your own."
        )
    return BIG_WIDTHS[data]
