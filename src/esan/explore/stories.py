"""Six stories: a choice to look at, with what to see in it; each claim is tested with `esan.wl`."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class PageView:
    """One view of a page.

    Attributes:
        graphs: the graphs, by name.
        test: the test.
        policy: the policy, None for a test of whole graphs.
        round: the round that is shown first.
        panel: the part of the page that is opened: "subgraphs", "colours", "shared" or "bag".
        layer: the layer of the compact bag that is shown first.
        separated: what the test says of the two graphs; None for one graph.
        says: the words on the button that leads here.
    """

    graphs: tuple[str, ...]
    test: str
    policy: str | None
    round: int = 0
    panel: str = "subgraphs"
    layer: int = 0
    separated: bool | None = None
    says: str = ""


@dataclass(frozen=True)
class Story:
    """A view that teaches one thing.

    Attributes:
        key: its name in links.
        title: its name on the page.
        text: what to look at, in one or two sentences.
        look: the view.
        others: views to compare it with.
    """

    key: str
    title: str
    text: str
    look: PageView
    others: tuple[PageView, ...] = field(default=())


_CYCLES = ("cycle(6)", "2xcycle(3)")
_SKIPS = ("csl(12,3)", "csl(12,5)")
_SQUARES = ("rook", "shrikhande")
_TREES = ("path(4)", "star(3)")
_RINGS = ("decalin", "bicyclopentyl")

STORIES = (
    Story(
        "cycles",
        "One ring or two",
        "Every node has two neighbours, so 1-WL sees one colour. Delete any edge and step to round 2: next to the gap "
        "the ring has nodes that saw a 1 and a 2, and the triangles have none.",
        PageView(_CYCLES, "ds", "ED", 2, separated=True, says="Without an edge"),
        (PageView(_CYCLES, "1", None, separated=False, says="1-WL fails"),),
    ),
    Story(
        "skips",
        "Too near to see",
        "Within one hop every node of both circulant graphs sees the same star, so EGO(1) finds nothing however many "
        "rounds it takes. One more hop shows the cycles that differ.",
        PageView(_SKIPS, "ds", "EGO(1)", separated=False, says="EGO(1) fails"),
        (PageView(_SKIPS, "ds", "EGO(2)", 1, separated=True, says="EGO(2) succeeds"),),
    ),
    Story(
        "squares",
        "Beyond 3-WL",
        "Rook's graph and the Shrikhande graph are strongly regular with equal parameters, so 2-FWL, which is as "
        "strong as 3-WL, is blind. Without one edge, plain colours part them in round 3.",
        PageView(_SQUARES, "ds", "ED", 3, separated=True, says="Without an edge"),
        (PageView(_SQUARES, "2-fwl", None, separated=False, says="2-FWL fails"),),
    ),
    Story(
        "shared",
        "What copies share",
        "Each subgraph is a single edge, and all look alike, so DS-WL sees nothing. DSS-WL also compares the copies of "
        "a node across subgraphs: select a node, and see what its copies and its neighbours' copies share.",
        PageView(_TREES, "dss", "SE", 1, "shared", separated=True, says="DSS-WL succeeds"),
        (PageView(_TREES, "ds", "SE", 1, "shared", separated=False, says="DS-WL fails"),),
    ),
    Story(
        "molecules",
        "Two molecules",
        "Decalin and bicyclopentyl have the same atoms and the same bonds at every atom, and 1-WL takes them for one. "
        "Delete a bond and follow the colours to round 3: the rings of six and of five come apart.",
        PageView(_RINGS, "ds", "ED", 3, separated=True, says="Without a bond"),
        (PageView(_RINGS, "1", None, 2, separated=False, says="1-WL fails"),),
    ),
    Story(
        "compact",
        "A bag that grows",
        "Deleting a node changes only what is near it, so a compact bag stores few of the 576 pairs. Move the layer: "
        "each one adds the pairs one hop farther, and the rest is still read from one row per node.",
        PageView(("cycle(24)",), "dss", "ND", 0, "bag", layer=2),
    ),
)
