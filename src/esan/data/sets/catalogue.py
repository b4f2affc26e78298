"""The catalogue: the sets of the paper by name, and the published counts that a loaded set is checked against."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from esan.data.dataset import Dataset, Task
from esan.data.sets.expressivity import find_cexp, find_csl, find_exp
from esan.data.sets.folders import DataFolders, cache_folder, data_root
from esan.data.sets.ogb import ogb_set
from esan.data.sets.set_arrays import SetArrays
from esan.data.sets.tu_sets import tu_set
from esan.data.sets.verify import check_dataset
from esan.data.sets.zinc import find_zinc
from esan.data.splits import check_split
from esan.graphs import ATOMS, BONDS, Categories, Channels, OneHot


@dataclass(frozen=True)
class Entry:
    """A set of the catalogue.

    Attributes:
        find: reads its arrays, after a download if need be.
        task: what is to be predicted.
        graphs: how many there are.
        nodes: of all graphs together.
        edges: undirected edges of all graphs together.
        in_channels: what `x` holds.
        edge_channels: what `edge_attr` holds.
    """

    find: Callable[[DataFolders], SetArrays]
    task: Task
    graphs: int
    nodes: int
    edges: int
    in_channels: Channels = None
    edge_channels: Channels = None


def _classes(count: int) -> Task:
    return Task("classification", count)


CATALOGUE: dict[str, Entry] = {
    "csl": Entry(find_csl, _classes(10), 150, 6_150, 12_300, OneHot(5)),
    "exp": Entry(find_exp, _classes(2), 1_200, 53_336, 66_130, 1),
    "cexp": Entry(find_cexp, _classes(2), 1_200, 66_938, 83_736, 1),
    "mutag": Entry(tu_set("MUTAG"), _classes(2), 188, 3_371, 3_721, OneHot(7)),
    "ptc": Entry(tu_set("PTC"), _classes(2), 344, 8_792, 8_931, OneHot(19)),
    "ptc-mr": Entry(tu_set("PTC_MR"), _classes(2), 344, 4_915, 5_054, OneHot(18)),
    "proteins": Entry(tu_set("PROTEINS"), _classes(2), 1_113, 43_471, 81_044, OneHot(3)),
    "nci1": Entry(tu_set("NCI1"), _classes(2), 4_110, 122_747, 132_753, OneHot(37)),
    "nci109": Entry(tu_set("NCI109"), _classes(2), 4_127, 122_494, 132_604, OneHot(38)),
    "imdb-b": Entry(tu_set("IMDB-BINARY", degree=True), _classes(2), 1_000, 19_773, 96_531, OneHot(136)),
    "imdb-m": Entry(tu_set("IMDB-MULTI", degree=True), _classes(3), 1_500, 19_502, 98_903, OneHot(89)),
    "rdt-b": Entry(tu_set("REDDIT-BINARY"), _classes(2), 2_000, 859_254, 995_508),
    "zinc": Entry(find_zinc, Task("regression", 1), 12_000, 277_864, 298_985, Categories(28), Categories(4)),
    "ogbg-molhiv": Entry(ogb_set("ogbg-molhiv"), Task("labels", 1), 41_127, 1_049_163, 1_129_688, ATOMS, BONDS),
    "ogbg-moltox21": Entry(ogb_set("ogbg-moltox21"), Task("labels", 12), 7_831, 145_459, 151_095, ATOMS, BONDS),
}

#: What else sets are called: by PyG, by OGB, and in tables of papers.
ALIASES = {
    "zinc12k": "zinc",
    "zinc-12k": "zinc",
    "imdb-binary": "imdb-b",
    "imdb-multi": "imdb-m",
    "reddit-binary": "rdt-b",
    "reddit-b": "rdt-b",
    "molhiv": "ogbg-molhiv",
    "moltox21": "ogbg-moltox21",
}


def known_name(name: str) -> str | None:
    """The name in `names()` of a set, however it is written; None if there is no such set."""
    key = str(name).lower().replace("_", "-")
    key = ALIASES.get(key, key)
    return key if key in CATALOGUE else None


def load(
    name: str, root: str | Path | None = None, *, cache: str | Path | None = None, download: bool = True
) -> Dataset:
    """The set of that name, its counts compared with the published ones.

    Args:
        name: one of `names()`, in any case; `-` and `_` are the same, and ZINC12k, IMDB-BINARY or molhiv are known too.
        root: the folder that holds ZINC, TU, EXP, CEXP, CSL and OGB, else $ESAN_DATA, else the cache. Only read.
        cache: where downloads go, else $ESAN_CACHE, else .cache/esan in the user's home.
        download: whether to fetch what is in neither folder.
    """
    key = known_name(name)
    if key is None:
        near = difflib.get_close_matches(str(name).lower().replace("_", "-"), [*CATALOGUE, *ALIASES], 3)
        near = list(dict.fromkeys(ALIASES.get(other, other) for other in near))
        hint = f"Near: {', '.join(near)}. " if near else ""
        raise ValueError(
            f"Expected the name of a set (got {name!r}). {hint}Known: {', '.join(CATALOGUE)}; your own data: "
            "esan.data.own."
        )
    entry = CATALOGUE[key]
    found = entry.find(DataFolders(data_root(root, cache), cache_folder(cache), download))
    graphs = found.arrays.to_graphs(found.source)
    dataset = Dataset(
        name=key,
        graphs=graphs,
        task=entry.task,
        in_channels=entry.in_channels,
        edge_channels=entry.edge_channels,
        given=found.split,
        source=found.source,
    )
    check_dataset(dataset, graphs=entry.graphs, nodes=entry.nodes, edges=entry.edges)
    if found.split is not None:
        check_split(dataset, found.split)
    return dataset


def names() -> tuple[str, ...]:
    """The names that `load` knows."""
    return tuple(CATALOGUE)
