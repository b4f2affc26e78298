"""`Advice`: what each test with each policy makes of a collection of graphs, and the cheapest that suffices."""

from dataclasses import asdict, dataclass

from esan.plural import counted


@dataclass(frozen=True)
class Option:
    """What one test with one policy makes of a collection.

    Attributes:
        test: "1", "ds" or "dss".
        policy: the policy by its short name, or as `repr` writes it where it has none; "" for 1-WL.
        classes: how many classes it divides the graphs into.
        confused: how many pairs of graphs it leaves in one class; isomorphic ones are always among them.
        split: how many of the pairs that 1-WL confuses it splits.
        lost: how many of the pairs that 1-WL splits it confuses (DS-WL may, with a bag that omits the graph).
        confused_labels: how many pairs with *different labels* it leaves in one class; None without labels.
        error_floor: no network that is bounded by this test can be wrong by less on these graphs: the share of
            graphs for whole numbers as labels, the mean absolute error for real ones; None without labels.
        pairs: (node, subgraph) pairs of all bags.
        rows: rows that the compact bags store for them, which is what a network works on.
        seconds: how long the test took here.
    """

    test: str
    policy: str
    classes: int
    confused: int
    split: int
    lost: int
    confused_labels: int | None
    error_floor: float | None
    pairs: int
    rows: int
    seconds: float

    @property
    def name(self) -> str:
        return "1-WL" if self.test == "1" else f"{self.test.upper()}-WL {self.policy}"

    @property
    def left(self) -> int:
        """How many pairs that matter it leaves confused: those with different labels, or all without labels."""
        return self.confused if self.confused_labels is None else self.confused_labels


@dataclass(frozen=True)
class SkippedPolicy:
    """A policy that was not tested, since its bags were too large.

    Attributes:
        policy: the policy, written as in `Option`.
        pairs: (node, subgraph) pairs that all its bags would have.
    """

    policy: str
    pairs: int


@dataclass(frozen=True)
class Advice:
    """What `advise` found.

    Attributes:
        graphs: how many graphs there are.
        num_layers: the depth that rows were counted for.
        options: 1-WL first, then DS-WL and DSS-WL with each policy.
        skipped: policies whose bags were too large to test.
        best: the cheapest option, in rows, among those that leave the fewest pairs confused: pairs with different
            labels, or any where there are no labels.
    """

    graphs: int
    num_layers: int
    options: tuple[Option, ...]
    skipped: tuple[SkippedPolicy, ...]
    best: Option

    @property
    def needs_subgraphs(self) -> bool:
        """Whether anything tested here beats 1-WL on these graphs."""
        return self.best.test != "1"

    @property
    def text(self) -> str:
        """The advice in words."""
        plain, best = self.options[0], self.best
        kind = "" if plain.confused_labels is None else " with different labels"
        if not self.needs_subgraphs:
            again = "and no policy tested here splits one more" if plain.left else "so nothing is left to split"
            return f"1-WL suffices: it confuses {_counted(plain.left)}{kind}, {again}. A plain network will do."
        rest = f"{_counted(best.left)} left, which no policy tested here splits" if best.left else "none is left"
        verb = (
            "splits as many as any policy tested here, at the lowest cost"
            if best.left
            else "is the cheapest that suffices"
        )
        return (
            f"1-WL confuses {_counted(plain.left)}{kind}; {best.name} {verb}: {rest}, for "
            f"{best.rows / plain.rows:.1f} times the rows of the plain graphs."
        )

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {**asdict(self), "needs_subgraphs": self.needs_subgraphs, "text": self.text}


def _counted(pairs: int) -> str:
    return f"{counted(pairs, 'pair')} of graphs"
