"""Where nodes are drawn: known drawings of known graphs, molecules as chemists draw them, else springs."""

import re
from math import atan2, cos, hypot, pi, sin, sqrt

import networkx as nx

from esan.graphs import Graphs
from esan.graphs.readers.molecule import SMILES, atom_places
from esan.graphs.readers.one_graph import GraphLike

Point = tuple[float, float]

#: Stress is minimised for components up to this size; larger ones get springs, which are faster.
_MOST_STRESS = 90
#: How far the lines of a board are bent, so that a long edge does not hide the short ones on its line.
_BEND = 0.34
_GRID = re.compile(r"(?P<name>rook|shrikhande|grid|torus|ladder)(?:\((?P<numbers>[\d, ]+)\))?")


def places(graphs: Graphs, graph: int, thing: GraphLike | None = None) -> list[Point]:
    """A place for each node, within the unit square and as large as it fits.

    Args:
        graphs: the collection.
        graph: which graph of it.
        thing: what the graph was made from; a text tells which drawing is known.
    """
    text = thing.replace(" ", "") if isinstance(thing, str) else ""
    n = int(graphs.num_nodes[graph])
    known = _known(text)
    if known is not None and len(known) == n:
        return fitted(known)
    start = int(graphs.node_start[graph])
    whole = nx.Graph()
    whole.add_nodes_from(range(n))
    whole.add_edges_from((graphs.edges[:, graphs.edge_graph == graph] - start).t().tolist())
    return fitted(_by_components(whole))


def fitted(points: list[Point]) -> list[Point]:
    """The points, moved and scaled into the unit square, around its centre."""
    xs, ys = zip(*points, strict=True)
    span = max(max(xs) - min(xs), max(ys) - min(ys)) or 1.0
    left = 0.5 - (max(xs) + min(xs)) / (2 * span)
    low = 0.5 - (max(ys) + min(ys)) / (2 * span)
    return [(round(x / span + left, 4), round(y / span + low, 4)) for x, y in points]


def _known(text: str) -> list[Point] | None:
    if text.startswith(SMILES):
        return atom_places(text)
    if text == "decalin":
        left, right = _ring(6, (0.0, 0.0), 1.0, 30), _ring(6, (sqrt(3), 0.0), 1.0, 30)
        # Nodes 4 and 5 are shared: the right side of the left ring.
        return [left[1], left[2], left[3], left[4], left[5], left[0], right[4], right[5], right[0], right[1]]
    if text == "bicyclopentyl":
        side = 2 * sin(pi / 5)
        one, two = _ring(5, (0.0, 0.0), 1.0, 0), _ring(5, (2 + side, 0.0), 1.0, 180)
        return [one[1], one[2], one[3], one[4], one[0], two[0], two[1], two[2], two[3], two[4]]
    match = _GRID.fullmatch(text)
    if match is None:
        return None
    numbers = [int(part) for part in (match["numbers"] or "").split(",") if part]
    if any(number > 200 for number in numbers):
        return None
    if match["name"] == "ladder" and len(numbers) == 1:
        return [(float(i), float(j)) for j in range(2) for i in range(numbers[0])]
    if match["name"] in ("rook", "shrikhande"):
        side = numbers[0] if numbers else 4
        return _board(side, side, _BEND)
    if len(numbers) == 2:
        return _board(numbers[0], numbers[1], 0.0 if match["name"] == "grid" else _BEND)
    return None


def _ring(n: int, centre: Point, radius: float, turn: float) -> list[Point]:
    angles = [turn * pi / 180 + 2 * pi * i / n for i in range(n)]
    return [(centre[0] + radius * cos(angle), centre[1] + radius * sin(angle)) for angle in angles]


def _board(rows: int, columns: int, bend: float) -> list[Point]:
    """A grid whose rows and columns are arcs."""

    def bow(i: int, count: int) -> float:
        middle = (count - 1) / 2
        return bend * (1 - ((i - middle) / middle) ** 2) if middle else 0.0

    return [(c + bow(r, rows), r + bow(c, columns)) for r in range(rows) for c in range(columns)]


def _by_components(whole: nx.Graph) -> list[Point]:
    """Components in rows, the width of each by its size."""
    parts = [sorted(part) for part in nx.connected_components(whole)]
    parts.sort(key=lambda part: part[0])
    radius = [0.62 * sqrt(len(part)) if len(part) > 1 else 0.3 for part in parts]
    widest = max(2 * max(radius), 1.25 * sqrt(sum((2 * r + 0.6) ** 2 for r in radius)))
    place: dict[int, Point] = {}
    left = low = height = 0.0
    for part, r in zip(parts, radius, strict=True):
        if left and left + 2 * r > widest:
            left, low, height = 0.0, low + height + 0.7, 0.0
        for node, (x, y) in zip(part, _component(whole.subgraph(part), part), strict=True):
            place[node] = (left + r * (1 + x), low + r * (1 + y))
        left, height = left + 2 * r + 0.7, max(height, 2 * r)
    return [place[v] for v in range(len(whole))]


def _component(part: nx.Graph, nodes: list[int]) -> list[Point]:
    """One component within the circle of radius 1: a ring where turning it by one node maps it onto itself."""
    n = len(nodes)
    if n == 1:
        return [(0.0, 0.0)]
    if n > 2 and _is_circulant(part, nodes):
        return _ring(n, (0.0, 0.0), 1.0, 90)
    ring = dict(zip(nodes, _ring(n, (0.0, 0.0), 1.0, 90), strict=True))
    # A graph of the same nodes in this order: the drawing does not depend on how edges were listed.
    ordered = nx.Graph()
    ordered.add_nodes_from(nodes)
    ordered.add_edges_from(sorted(tuple(sorted(edge)) for edge in part.edges()))
    if n <= _MOST_STRESS:
        spots = nx.kamada_kawai_layout(ordered, pos=ring)
    else:
        spots = nx.spring_layout(ordered, pos=ring, seed=0, iterations=80)
    points = [(float(spots[v][0]), float(spots[v][1])) for v in nodes]
    x0, y0 = (sum(point[axis] for point in points) / n for axis in (0, 1))
    reach = max(hypot(x - x0, y - y0) for x, y in points) or 1.0
    return _lying([((x - x0) / reach, (y - y0) / reach) for x, y in points])


def _lying(points: list[Point]) -> list[Point]:
    """The points, turned so that their longer side lies flat; as they are where no side is longer."""
    xx, yy, xy = (sum(p[a] * p[b] for p in points) for a, b in ((0, 0), (1, 1), (0, 1)))
    if hypot(xx - yy, 2 * xy) < 0.2 * (xx + yy):
        return points
    turn = -0.5 * atan2(2 * xy, xx - yy)
    return [(x * cos(turn) - y * sin(turn), x * sin(turn) + y * cos(turn)) for x, y in points]


def _is_circulant(part: nx.Graph, nodes: list[int]) -> bool:
    after = dict(zip(nodes, nodes[1:] + nodes[:1], strict=True))
    return part.number_of_edges() > 0 and all(part.has_edge(after[u], after[v]) for u, v in part.edges())
