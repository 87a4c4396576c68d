"""The formulas of DCI: scores of a matrix of importances R, non-negative, [codes, targets]."""

from __future__ import annotations

import numpy as np


def disentanglement(importance: np.ndarray) -> float:
    """How far each code matters to one target only, from 0 to 1."""
    # Eastwood & Williams 2018: D = Σ_i ρ_i (1 − H_K(P_i)), with K targets,
    # P_ij = R_ij / Σ_k R_ik and the weights ρ_i = Σ_j R_ij / Σ_kj R_kj.
    return _weighted_concentration(np.asarray(importance, np.float64))


def completeness(importance: np.ndarray) -> float:
    """How far each target depends on one code only, from 0 to 1."""
    # Eastwood & Williams 2018: C_j = 1 − H_D(P̃_j), with D codes and P̃_ij = R_ij / Σ_k R_kj.
    # Targets are weighted by their total importance, as codes are in D.
    return _weighted_concentration(np.asarray(importance, np.float64).T)


def concentrations(rows: np.ndarray) -> np.ndarray:
    """1 − the entropy of each normalised row, in units of the largest entropy; 0 for an empty row.

    A row with a single column has no entropy, so it counts 1 if there is anything in it.
    """
    if rows.shape[1] == 1:
        return (rows[:, 0] > 0.0).astype(float)
    totals = rows.sum(axis=1, keepdims=True)
    shares = rows / np.where(totals > 0.0, totals, 1.0)
    logarithms = np.log(np.where(shares > 0.0, shares, 1.0))
    entropy = -(shares * logarithms).sum(axis=1) / np.log(rows.shape[1])
    return np.where(totals[:, 0] > 0.0, 1.0 - entropy, 0.0)


def _weighted_concentration(rows: np.ndarray) -> float:
    """The mean concentration of the rows, weighted by their totals; 0 if all rows are empty."""
    totals = rows.sum(axis=1)
    if totals.sum() == 0.0:
        return 0.0
    return float(np.clip(np.average(concentrations(rows), weights=totals), 0.0, 1.0))
