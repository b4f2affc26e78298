"""The tables that `esan reproduce` runs: titles, the recipe of each row, and the paper's number as printed."""

import re
from dataclasses import dataclass
from functools import cache

from esan.train.recipes.paper_values import PRINTED, cited_recipe


@dataclass(frozen=True)
class PaperNumber:
    """A number of the paper.

    Attributes:
        recipe: the name of the recipe that runs it.
        value: the mean; per cent for accuracy and ROC-AUC, seconds for times.
        std: the standard deviation; None where the paper has none.
        digits: after the point, as printed.
    """

    recipe: str
    value: float
    std: float | None
    digits: int

    @property
    def data(self) -> str:
        return self.recipe.partition("/")[0]

    def __str__(self) -> str:
        value = f"{self.value:.{self.digits}f}"
        return value if self.std is None else f"{value} ± {self.std:.{self.digits}f}"


@dataclass(frozen=True)
class Table:
    """A table that can be run: its title, and the tables of `esan.train.recipes.paper_values` that make it up."""

    title: str
    printed: tuple[str, ...]


TABLES: dict[str, Table] = {
    "zinc": Table("ZINC12k: mean absolute error (the paper's Table 3)", ("zinc",)),
    "csl": Table("CSL: accuracy, per cent (the paper's text)", ("csl",)),
    "exp": Table("EXP and CEXP: accuracy, per cent (the paper's Table 6)", ("rni",)),
    "tu": Table("TU datasets: accuracy, per cent (the paper's Tables 1, 4 and 10)", ("tu", "big-gin")),
    "ogb": Table("OGB: test ROC-AUC, per cent (the paper's Tables 2 and 5)", ("ogb",)),
    "sampling": Table("Sampled bags: per cent (the paper's Tables 7 and 8)", ("tu-sampled", "sampled", "csl")),
    "timing": Table("Seconds for one training epoch (the paper's Table 11)", ()),
}


def table_named(name: str) -> Table:
    """A table by its name."""
    if name not in TABLES:
        raise ValueError(f"Expected a table of the paper (got {name!r}). There are {', '.join(TABLES)}.")
    return TABLES[name]


@cache
def table_rows(name: str) -> tuple[PaperNumber, ...]:
    """The rows of a table, dataset by dataset, in the paper's order."""
    rows = [row for printed in table_named(name).printed for row in _printed(printed)]
    # What the paper says of CSL, it says of whole and of sampled bags.
    wanted = [row for row in rows if row.data != "csl" or ("%" in row.recipe) == (name == "sampling")]
    order = [data for printed in table_named(name).printed for data in PRINTED[printed].split("\n")[1].split()[1:]]
    return tuple(sorted(wanted, key=lambda row: order.index(row.data)))


@cache
def by_recipe() -> dict[str, PaperNumber]:
    """The paper's number for a recipe, by its name."""
    return {row.recipe: row for printed in reversed(PRINTED) for row in _printed(printed)}


def paper_number(recipe: str) -> PaperNumber | None:
    """The paper's number for a recipe; for a variant (`zinc/gin~lr=0.01`) on the same data that of what it changes."""
    return by_recipe().get(cited_recipe(recipe))


def _printed(table: str) -> list[PaperNumber]:
    head, *lines = [line.split() for line in PRINTED[table].strip().splitlines()]
    found = []
    for method, *cells in lines:
        for data, cell in zip(head[1:], cells, strict=True):
            if cell != "-":
                value, _, std = cell.partition("±")
                digits = len(std.partition(".")[2])
                # "The rest is perfect" is no standard deviation.
                found.append(PaperNumber(f"{data}/{method}", float(value), None if std == "0" else float(std), digits))
    return found


_SUBGRAPHS = re.compile(r"(dss?)-(\w+)-(\w+\+?)(\^?)(?:-(\d+%))?")
_CONVS = {"gin": "GIN", "graphconv": "GraphConv", "gcn": "GCN", "ppgn": "PPGN"}
_BASELINES = {"id": "{} + ID-GNN", "dropedge": "DropEdge ({})", "rni": "RNI ({})", "big": "BIG-{}"}


def method(recipe: str) -> str:
    """What the paper calls a recipe: "DSS-GNN (GIN) (EGO+)" for zinc/dss-gin-ego+; its own name if nothing."""
    name, _, changes = recipe.partition("/")[2].partition("~")
    found = _SUBGRAPHS.fullmatch(name)
    if found:
        model, conv, policy, hat, share = found.groups()
        words = f"{model.upper()}-GNN ({_CONVS.get(conv, conv)}) ({policy.upper()}{hat})" + (
            f" {share}" if share else ""
        )
    else:
        kind, _, conv = name.rpartition("-")
        if conv not in _CONVS or kind not in ("", *_BASELINES):
            return recipe
        words = _BASELINES.get(kind, "{}").format(_CONVS[conv])
    return f"{words} with {changes.replace(',', ', ')}" if changes else words
