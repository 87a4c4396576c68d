"""DCI (Eastwood & Williams 2018): does each skill component control one state factor, and the other way round?

Boosted trees predict every target from all codes; how much each code's splits gained is its importance, and the scores
are entropies of that matrix. The paper's direction predicts states from skills, its first release predicted skills from
states: both are here, the paper's first.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np

from dusdi.errors import UsageError
from dusdi.types import WorldSpec

NAMES = ("disentanglement", "completeness", "informativeness")
HELD_OUT = 0.2  # share of the episodes that informativeness is measured on
FIT_ROWS = 10_000  # rows that the cells of a factor are fitted on
RESTARTS = 5  # k-means runs, of which the best is kept
ROUNDS = 50
LEAF_SHARE = 0.01  # least share of the rows in a leaf: 16 windows of the paper's 50 steps, whose rows are alike
MAX_CLASSES = 64  # boosting grows a tree per class and round

# Ordinary small trees: deep enough for interactions of components, too small to learn skill windows by heart.
# Threads go to targets, not into a tree, where every split waits for all of them: ten times slower on busy cores.
BOOSTING = {
    "objective": "multiclass",
    "learning_rate": 0.1,
    "num_leaves": 8,
    "max_bin": 63,
    "seed": 0,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}


@dataclass(frozen=True, eq=False)
class Scores:
    """One direction of the metric; all NaN if it was not measured.

    Attributes:
      disentanglement: 1 if each code matters to one target only.
      completeness: 1 if each target depends on one code only.
      informativeness: accuracy on held-out episodes, mean over the targets.
      importance: [codes, targets]; each column sums to 1, or to 0 where nothing was learned.
    """

    disentanglement: float
    completeness: float
    informativeness: float
    importance: np.ndarray

    @property
    def measured(self) -> bool:
        return bool(np.isfinite(self.importance).all())

    def to_json(self) -> dict[str, Any]:
        """The scores by name; None where they were not measured, since JSON has no NaN."""
        scores = {name: float(getattr(self, name)) if self.measured else None for name in NAMES}
        return {**scores, "importance": self.importance.tolist() if self.measured else None}


@dataclass(frozen=True, eq=False)
class DCI(Scores):
    """The paper's direction, with skill components as codes and state factors as targets, and the reverse one.

    Attributes:
      components: the names of the skill components, C of them.
      factors: the names of the controlled factors; there may be more or fewer than C.
      states_to_skills: the direction of the first release, with importance [factors, components].
    """

    components: tuple[str, ...]
    factors: tuple[str, ...]
    states_to_skills: Scores

    def to_json(self) -> dict[str, Any]:
        names = {"components": list(self.components), "factors": list(self.factors)}
        return {**super().to_json(), **names, "states_to_skills": self.states_to_skills.to_json()}

    def table(self) -> str:
        """Both directions as a small text table."""
        lines = [" " * 16 + "".join(f"{name:>17}" for name in NAMES)]
        for label, scores in (("skills to states", self), ("states to skills", self.states_to_skills)):
            texts = [f"{getattr(scores, name):.3f}" if scores.measured else "-" for name in NAMES]
            lines.append(label + "".join(f"{text:>17}" for text in texts))
        return "\n".join(lines)


def dci(
    skills: np.ndarray,
    observations: np.ndarray,
    spec: WorldSpec,
    episode: np.ndarray,
    cells: int,
    seed: int = 0,
) -> DCI:
    """Measures how far skill components and controlled factors correspond one to one.

    With a single component, completeness is 1 by definition and disentanglement 0: compare methods with as many
    components as factors. A constant factor is always predicted, so it adds an accuracy of 1 and no importance. If a
    component takes more than `MAX_CLASSES` values (DIAYN), states to skills is not measured and is NaN: boosting that
    many classes takes hours, and most skills would occur in a single window.

    Args:
      skills: in force on arriving in each row's observation, int [n, C], or float [n, C, M] if continuous.
      observations: [n, D].
      spec: tells the controlled factors.
      episode: int [n], the rollout of each row; whole rollouts are held out, since neighbouring rows are alike.
      cells: how many values each factor, and each continuous component, is discretised to.
      seed: of the cells and of the choice of episodes.
    """
    skills, observations, episode = np.asarray(skills), np.asarray(observations), np.asarray(episode)
    _check(skills, observations, spec, episode, cells)
    factors = [observations[:, list(factor.indices)] for factor in spec.controlled]
    discrete = skills.ndim == 2
    components = [skills[:, i, None] if discrete else skills[:, i] for i in range(skills.shape[1])]
    held_out = _hold_out(episode, seed)

    states = [discretise(factor, cells, seed) for factor in factors]
    forward = _direction(components, states, held_out, categorical=discrete)
    if discrete and max(len(np.unique(component)) for component in components) > MAX_CLASSES:
        backward = Scores(np.nan, np.nan, np.nan, np.full((len(factors), len(components)), np.nan))
    else:
        values = [c[:, 0] if discrete else discretise(c, cells, seed) for c in components]
        backward = _direction(factors, values, held_out, categorical=False)
    return DCI(
        forward.disentanglement,
        forward.completeness,
        forward.informativeness,
        forward.importance,
        components=tuple(f"z{i + 1}" for i in range(len(components))),
        factors=tuple(factor.name for factor in spec.controlled),
        states_to_skills=backward,
    )


def summary(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The mean of several seeds' `DCI.to_json()`, `<score>_std` if there are several, and under `seeds` the results."""
    reverse = [result["states_to_skills"] for result in results]
    return {**_mean_scores(results), "states_to_skills": _mean_scores(reverse), "seeds": list(results)}


def disentanglement(importance: np.ndarray) -> float:
    """How far each code matters to one target only; importance is non-negative, [codes, targets]."""
    # Eastwood & Williams 2018: D = Σ_i ρ_i (1 − H_K(P_i)), P_ij = R_ij / Σ_k R_ik, ρ_i = Σ_j R_ij / Σ_kj R_kj
    return _concentration(np.asarray(importance, np.float64))


def completeness(importance: np.ndarray) -> float:
    """How far each target depends on one code only; importance is non-negative, [codes, targets]."""
    # Eastwood & Williams 2018: C_j = 1 − H_D(P̃_j), P̃_ij = R_ij / Σ_k R_kj, D codes; weighted by target as D is by code
    return _concentration(np.asarray(importance, np.float64).T)


def discretise(values: np.ndarray, cells: int, seed: int = 0) -> np.ndarray:
    """One label per row of a factor's entries, by vector quantisation: [n, d] to int [n].

    Every entry counts alike, being standardised first. Up to `cells` distinct rows keep a label each.
    """
    values = np.asarray(values, np.float64)
    spread = values.std(axis=0)
    constant = spread <= 1e-6 * np.abs(values).max(axis=0)  # what float32 can't tell from constant
    points = np.where(constant, 0.0, (values - values.mean(axis=0)) / np.where(constant, 1.0, spread))
    distinct, labels = np.unique(points, axis=0, return_inverse=True)
    if len(distinct) <= cells:
        return labels.reshape(-1)
    rng = np.random.default_rng(seed)
    sample = points[rng.choice(len(points), min(len(points), FIT_ROWS), replace=False)]
    fits = [_k_means(sample, cells, rng) for _ in range(RESTARTS)]
    centres, _ = min(fits, key=lambda fit: fit[1])
    return _squared_distances(points, centres).argmin(axis=1)


def importances(inputs: np.ndarray, targets: np.ndarray, held_out: np.ndarray, *, categorical: bool) -> tuple[np.ndarray, float]:
    """Predicts a target by boosted trees: what each input gained, summing to 1 or all 0, and the held-out accuracy.

    Args:
      inputs: [n, f].
      targets: int [n].
      held_out: bool [n], the rows to test on; the trees are grown on the others.
      categorical: whether the inputs are names of values rather than quantities.
    """
    values, labels = np.unique(targets, return_inverse=True)
    train, test = labels[~held_out], labels[held_out]
    if (train == train[0]).all():
        return np.zeros(inputs.shape[1]), float(np.mean(test == train[0]))
    leaf = max(20, int(LEAF_SHARE * len(train)))
    parameters = {**BOOSTING, "num_class": len(values), "min_data_in_leaf": leaf}
    columns = list(range(inputs.shape[1])) if categorical else []
    data = lightgbm.Dataset(inputs[~held_out], train, categorical_feature=columns, params=parameters)
    model = lightgbm.train(parameters, data, num_boost_round=ROUNDS)
    guesses = np.asarray(model.predict(inputs[held_out], num_threads=1)).argmax(axis=1)
    gain = model.feature_importance("gain")
    return gain / (gain.sum() or 1.0), float(np.mean(guesses == test))


def _direction(codes: Sequence[np.ndarray], targets: Sequence[np.ndarray], held_out: np.ndarray, *, categorical: bool) -> Scores:
    """Scores codes [n, d] against targets [n]; what the entries of a code gained is summed."""
    inputs = np.concatenate(codes, axis=1)
    owner = np.repeat(np.arange(len(codes)), [code.shape[1] for code in codes])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        fits = list(pool.map(lambda target: importances(inputs, target, held_out, categorical=categorical), targets))
    importance = np.zeros((len(codes), len(targets)))
    np.add.at(importance, owner, np.stack([gain for gain, _ in fits], axis=1))
    accuracy = float(np.mean([accuracy for _, accuracy in fits]))
    return Scores(disentanglement(importance), completeness(importance), accuracy, importance)


def _mean_scores(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and sample standard deviation of each score, and the mean importance; None if a seed was not measured."""
    matrices = [result["importance"] for result in results]
    scores: dict[str, Any] = {"importance": None if None in matrices else np.mean(matrices, axis=0).tolist()}
    for name in NAMES:
        values = [result[name] for result in results]
        measured = None not in values
        scores[name] = float(np.mean(values)) if measured else None
        if len(values) > 1:
            scores[f"{name}_std"] = float(np.std(values, ddof=1)) if measured else None
    return scores


def _concentration(rows: np.ndarray) -> float:
    """1 − entropy of each normalised row, as a share of the greatest possible, weighted by the row's total."""
    totals = rows.sum(axis=1)
    if totals.sum() == 0.0:
        return 0.0
    if rows.shape[1] == 1:
        return 1.0
    used, totals = rows[totals > 0.0], totals[totals > 0.0]
    shares = used / totals[:, None]
    entropy = -(shares * np.log(np.where(shares > 0.0, shares, 1.0))).sum(axis=1) / np.log(rows.shape[1])
    return float(np.clip(np.average(1.0 - entropy, weights=totals), 0.0, 1.0))


def _k_means(points: np.ndarray, cells: int, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Lloyd's algorithm from k-means++ seeds: centres [cells, d] and their distortion."""
    centres = points[rng.integers(len(points), size=1)]
    while len(centres) < cells:
        distance = _squared_distances(points, centres).min(axis=1)
        chance = distance / distance.sum() if distance.sum() > 0.0 else None  # None: too few distinct points, take any
        centres = np.concatenate([centres, points[rng.choice(len(points), size=1, p=chance)]])
    for _ in range(100):
        member = np.eye(cells)[_squared_distances(points, centres).argmin(axis=1)]
        count = member.sum(axis=0)[:, None]
        moved = np.where(count > 0.0, member.T @ points / np.maximum(count, 1.0), centres)
        if np.allclose(moved, centres, rtol=0.0, atol=1e-4):
            break
        centres = moved
    return centres, float(_squared_distances(points, centres).min(axis=1).mean())


def _squared_distances(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    products = points @ centres.T
    return np.maximum((points**2).sum(axis=1)[:, None] - 2.0 * products + (centres**2).sum(axis=1), 0.0)


def _hold_out(episode: np.ndarray, seed: int) -> np.ndarray:
    """The rows of a fifth of the episodes, at least one: bool [n]."""
    episodes = np.unique(episode)
    chosen = np.random.default_rng(seed).permutation(episodes)[: max(1, round(HELD_OUT * len(episodes)))]
    return np.isin(episode, chosen)


def _check(skills: np.ndarray, observations: np.ndarray, spec: WorldSpec, episode: np.ndarray, cells: int) -> None:
    discrete = skills.ndim == 2 and np.issubdtype(skills.dtype, np.integer)
    continuous = skills.ndim == 3 and np.issubdtype(skills.dtype, np.floating)
    if not discrete and not continuous:
        raise UsageError(f"skills are integers [n, C] or floats [n, C, M], not {skills.dtype} {list(skills.shape)}")
    expected = (len(skills), spec.observation_size)
    if observations.shape != expected or episode.shape != expected[:1]:
        raise UsageError(
            f"for {len(skills)} skills in {spec.name!r} the observations should be {list(expected)} and episode "
            f"{list(expected[:1])}, not {list(observations.shape)} and {list(episode.shape)}"
        )
    if not np.isfinite(observations).all() or not np.isfinite(skills).all():
        raise UsageError("observations or skills are not finite, so their DCI means nothing; look at the rollout")
    if len(np.unique(episode)) < 2:
        raise UsageError("DCI needs rows from at least two episodes, some to learn from and some to test on")
    if cells < 2:
        raise UsageError(f"a factor of {cells} cells can't tell anything; use at least 2, say one per skill value")
