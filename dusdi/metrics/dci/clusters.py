"""Vector quantisation by k-means: it turns the entries of a factor into one class per row."""

from __future__ import annotations

import numpy as np

MAX_FIT_ROWS = 10_000  # rows that the centres are fitted on
RESTARTS = 5  # k-means runs for each entry, as far as they count
COUNTED_ENTRIES = 5  # of a factor, for which there are more runs
MAX_ITERATIONS = 100  # of Lloyd's algorithm
PROBE_ROWS = 1_000  # if these have more distinct values than bins, the rest need not be compared


def discretise(values: np.ndarray, bins: int, seed: int = 0) -> np.ndarray:
    """One label from 0 to `bins` − 1 for each row: [n, d] to int [n].

    Entries are standardised first, so that all of them count alike. If there are at most `bins`
    distinct rows, each of them gets a label of its own; otherwise k-means finds `bins` clusters.
    """
    points = _standardise(np.asarray(values, np.float64))
    if len(np.unique(points[:PROBE_ROWS], axis=0)) <= bins:
        distinct, labels = np.unique(points, axis=0, return_inverse=True)
        if len(distinct) <= bins:
            return labels.reshape(-1)
    rng = np.random.default_rng(seed)
    sample = points[rng.choice(len(points), min(len(points), MAX_FIT_ROWS), replace=False)]
    found = [_k_means(sample, bins, rng) for _ in range(fits(points.shape[1]))]
    centres, _ = min(found, key=lambda fit: fit[1])
    return _squared_distances(points, centres).argmin(axis=1)


def fits(entries: int) -> int:
    """How often k-means is fitted to so many entries; the tightest clusters are kept."""
    return RESTARTS * min(entries, COUNTED_ENTRIES)


def _standardise(values: np.ndarray) -> np.ndarray:
    """Entries with mean 0 and deviation 1; constant entries become 0."""
    spread = values.std(axis=0)
    constant = spread <= 1e-6 * np.abs(values).max(axis=0)  # the resolution of float32
    scaled = (values - values.mean(axis=0)) / np.where(constant, 1.0, spread)
    return np.where(constant, 0.0, scaled)


def _k_means(points: np.ndarray, bins: int, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Lloyd's algorithm from k-means++ centres: centres [bins, d] and their distortion."""
    centres = _first_centres(points, bins, rng)
    for _ in range(MAX_ITERATIONS):
        member = np.eye(bins)[_squared_distances(points, centres).argmin(axis=1)]
        count = member.sum(axis=0)[:, None]
        moved = np.where(count > 0.0, member.T @ points / np.maximum(count, 1.0), centres)
        if np.allclose(moved, centres, rtol=0.0, atol=1e-4):
            break
        centres = moved
    return centres, float(_squared_distances(points, centres).min(axis=1).mean())


def _first_centres(points: np.ndarray, bins: int, rng: np.random.Generator) -> np.ndarray:
    """The centres of k-means++: each next one is drawn by its squared distance to the others."""
    centres = points[rng.integers(len(points), size=1)]
    while len(centres) < bins:
        distance = _squared_distances(points, centres).min(axis=1)
        total = distance.sum()
        # With fewer distinct points than bins all distances become 0; then any point will do.
        chance = distance / total if total > 0.0 else None
        chosen = rng.choice(len(points), size=1, p=chance)
        centres = np.concatenate([centres, points[chosen]])
    return centres


def _squared_distances(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """[n, d] and [k, d] to [n, k]."""
    products = points @ centres.T
    squares = (points**2).sum(axis=1)[:, None] - 2.0 * products + (centres**2).sum(axis=1)
    return np.maximum(squares, 0.0)
