"""Node positions for drawing a graph: distances close to the number of hops, deterministic."""

import numpy as np
from numpy.typing import NDArray


def positions_by_hops(n: int, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """The position of each node, `[n, 2]`, centred, with the wider side from -1 to 1.

    A graph that looks the same from node v as from v + 1 (a cycle, a circulant skip link graph) is drawn as a
    ring. Others start from classical scaling, improved by stress majorisation (Gansner, Koren and North, 2004).

    Args:
        n: the number of nodes.
        edges: both ends of each edge, `[2, E]`.
    """
    if n == 1:
        return np.zeros((1, 2))
    if n > 2 and _is_circulant(n, edges):
        angle = np.pi / 2 - 2 * np.pi * np.arange(n) / n
        return np.stack([np.cos(angle), np.sin(angle)], 1)
    hops, weight = _hops(n, edges)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ hops**2 @ centre)
    position = vectors[:, -2:] * np.sqrt(np.clip(values[-2:], 1e-9, None))
    # Nodes with the same neighbours start at the same point, where the stress has no gradient.
    position = position + 0.02 * np.random.default_rng(0).standard_normal(position.shape)
    solve = np.linalg.pinv(np.diag(weight.sum(1)) - weight)
    for _ in range(150):
        distance = np.linalg.norm(position[:, None] - position, axis=-1)
        pull = -weight * hops / np.maximum(distance, 1e-9)
        np.fill_diagonal(pull, 0)
        np.fill_diagonal(pull, -pull.sum(1))
        position = solve @ pull @ position
    return _upright(position)


def _is_circulant(n: int, edges: NDArray[np.int64]) -> bool:
    """Whether v → v + 1 maps edges to edges."""
    turned = np.sort((edges + 1) % n, 0)
    return edges.shape[1] > 0 and {*map(tuple, turned.T.tolist())} == {*map(tuple, edges.T.tolist())}


def _hops(n: int, edges: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The wanted distance of every two nodes and how much it matters; components keep clear of one another."""
    joined = np.zeros((n, n), dtype=np.float32)
    joined[edges[0], edges[1]] = joined[edges[1], edges[0]] = 1
    hops = np.where(np.eye(n, dtype=bool), 0.0, np.inf)
    frontier, steps = np.eye(n, dtype=np.float32), 0
    while frontier.any():
        steps += 1
        further = (frontier @ joined > 0) & ~np.isfinite(hops)
        hops[further] = steps
        frontier = further.astype(np.float32)
    together = np.isfinite(hops)
    radius = np.where(together, hops, 0).max(1) / 2
    hops = np.where(together, hops, radius[:, None] + radius + 1)
    weight = np.where(together, 1.0, 0.1) / np.maximum(hops, 1) ** 2
    np.fill_diagonal(weight, 0)
    return hops, weight


def _upright(position: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centred, turned with the long side level, and scaled."""
    position = position - position.mean(0)
    position = position @ np.linalg.svd(position, full_matrices=False)[2].T
    position = position - (position.max(0) + position.min(0)) / 2
    return position / max(float(np.abs(position).max()), 1e-9)
