"""DCI (Eastwood & Williams 2018): does each skill component control one state factor, and the other way round?

Boosted trees predict every target from all codes; how much each code's splits gained is its importance, and the scores
are entropies of that matrix. The paper's direction predicts states from skills, its first release predicted skills from
states: both are here, the paper's first.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import lightgbm
import numpy as np

from dusdi.errors import UsageError
from dusdi.parallel import cores
from dusdi.types import WorldSpec, at_chance

NAMES = ("disentanglement", "completeness", "informativeness")
ARRAYS = ("importance", "accuracy", "chance")
HELD_OUT = 0.2  # share of the episodes that informativeness is measured on
FIT_ROWS = 10_000  # rows that the cells of a factor are fitted on
RESTARTS = 5  # k-means runs, of which the best is kept
LOOK = 1_000  # rows that are looked at first, since more of them than cells may be distinct
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
      accuracy: on held-out episodes, [targets].
      chance: the accuracy of always guessing the most frequent value, [targets]; 1 for a constant.
    """

    disentanglement: float
    completeness: float
    informativeness: float
    importance: np.ndarray
    accuracy: np.ndarray
    chance: np.ndarray

    @property
    def measured(self) -> bool:
        return bool(np.isfinite(self.importance).all())

    def to_json(self) -> dict[str, Any]:
        """The scores by name; None where they were not measured, since JSON has no NaN."""
        scores = {name: float(getattr(self, name)) if self.measured else None for name in NAMES}
        arrays = {name: getattr(self, name).tolist() if self.measured else None for name in ARRAYS}
        return {**scores, **arrays}


@dataclass(frozen=True, eq=False)
class DCI(Scores):
    """The paper's direction, with skill components as codes and state factors as targets, and the reverse one.

    Attributes:
      components: the names of the skill components, C of them.
      factors: the names of the controlled factors; there may be more or fewer than C.
      own_factors: the factor that each component is meant to control; None if that is not planned.
      states_to_skills: the direction of the first release, with importance [factors, components].
    """

    components: tuple[str, ...]
    factors: tuple[str, ...]
    own_factors: tuple[str, ...] | None
    states_to_skills: Scores

    def to_json(self) -> dict[str, Any]:
        names: dict[str, Any] = {"components": list(self.components), "factors": list(self.factors)}
        names["own_factors"] = None if self.own_factors is None else list(self.own_factors)
        return {**super().to_json(), **names, "states_to_skills": self.states_to_skills.to_json()}

    def table(self) -> str:
        """Both directions as a small text table."""
        lines = [" " * 16 + "".join(f"{name:>17}" for name in NAMES)]
        for label, scores in (
            ("skills to states", self),
            ("states to skills", self.states_to_skills),
        ):
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
    *,
    own_factors: Sequence[str] | None = None,
    advance: Callable[[int], None] = lambda done: None,
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
      own_factors: the factor that each component is meant to control, if any.
      advance: told how many targets of both directions are done.
    """
    skills, observations, episode = (
        np.asarray(skills),
        np.asarray(observations),
        np.asarray(episode),
    )
    _check(skills, observations, spec, episode, cells)
    factors = [observations[:, list(factor.indices)] for factor in spec.controlled]
    discrete = skills.ndim == 2
    components = [skills[:, i, None] if discrete else skills[:, i] for i in range(skills.shape[1])]
    held_out = _hold_out(episode, seed)

    fitted = itertools.count(1)

    def done() -> None:
        advance(next(fitted))

    states = _discretise_each(factors, cells, seed)
    forward = _direction(components, states, held_out, categorical=discrete, done=done)
    if discrete and max(len(np.unique(component)) for component in components) > MAX_CLASSES:
        backward = _unmeasured(len(factors), len(components))
    else:
        values = list(skills.T) if discrete else _discretise_each(components, cells, seed)
        backward = _direction(factors, values, held_out, categorical=False, done=done)
    return DCI(
        **vars(forward),
        components=tuple(f"z{i + 1}" for i in range(len(components))),
        factors=tuple(str(factor.name) for factor in spec.controlled),
        own_factors=None if own_factors is None else tuple(map(str, own_factors)),
        states_to_skills=backward,
    )


def summary(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The mean of several seeds' `DCI.to_json()`, `<score>_std` if there are several, and under `seeds` the results."""
    reverse = [result["states_to_skills"] for result in results]
    names = {name: results[0][name] for name in ("components", "factors", "own_factors")}
    means = {**_mean_scores(results), "states_to_skills": _mean_scores(reverse)}
    return {**means, **names, "seeds": list(results)}


class ComponentScores(NamedTuple):
    """What there is to say of one skill component; None where it was not measured.

    Attributes:
      component: its name.
      factor: the one it is meant to control, or else the one it matters most to.
      accuracy: of telling its value from the states.
      chance: of the best constant guess of its value.
      disentanglement: 1 if it matters to one factor only.
      factor_accuracy: of telling the factor from the skills.
      factor_chance: of the best constant guess of the factor; 1 if the factor is constant.
    """

    component: str
    factor: str
    accuracy: float | None
    chance: float | None
    disentanglement: float
    factor_accuracy: float
    factor_chance: float

    @property
    def at_chance(self) -> bool:
        """Whether the component does nothing that could be told from the states."""
        if self.accuracy is None or self.chance is None:
            return False
        return at_chance(self.accuracy, self.chance)


def component_scores(result: Mapping[str, Any]) -> list[ComponentScores]:
    """The scores of each component in a `DCI.to_json()` or a `summary`."""
    importance, factors = np.asarray(result["importance"]), result["factors"]
    plan, reverse = result["own_factors"], result["states_to_skills"]
    concentration = concentrations(importance)
    rows = []
    for i, name in enumerate(result["components"]):
        own = factors.index(plan[i]) if plan else int(importance[i].argmax())
        rows.append(
            ComponentScores(
                component=name,
                factor=factors[own],
                accuracy=reverse["accuracy"] and reverse["accuracy"][i],
                chance=reverse["chance"] and reverse["chance"][i],
                disentanglement=float(concentration[i]),
                factor_accuracy=result["accuracy"][own],
                factor_chance=result["chance"][own],
            )
        )
    return rows


def remarks(report: Mapping[str, Any]) -> list[str]:
    """What to know of the seeds in a `summary`: components at chance, factors that never change."""
    found = []
    for result in report["seeds"]:
        seed = f" in seed {result['seed']}" if len(report["seeds"]) > 1 else ""
        for row in component_scores(result):
            if row.at_chance:
                name, accuracy = f"{row.component} ({row.factor})", f"{row.accuracy:.2f}"
                found.append(
                    f"{name} is at chance{seed}: its value can hardly be told from the states "
                    f"({accuracy}, chance {row.chance:.2f}); docs/chance.md says what to do"
                )
        for name, chance in zip(result["factors"], result["chance"], strict=True):
            if chance == 1.0:
                found.append(f"factor {name} never changes{seed}: it counts as told, by no skill")
    return found


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
    points = np.where(
        constant, 0.0, (values - values.mean(axis=0)) / np.where(constant, 1.0, spread)
    )
    if len(np.unique(points[:LOOK], axis=0)) <= cells:
        distinct, labels = np.unique(points, axis=0, return_inverse=True)
        if len(distinct) <= cells:
            return labels.reshape(-1)
    rng = np.random.default_rng(seed)
    sample = points[rng.choice(len(points), min(len(points), FIT_ROWS), replace=False)]
    fits = [_k_means(sample, cells, rng) for _ in range(RESTARTS)]
    centres, _ = min(fits, key=lambda fit: fit[1])
    return _squared_distances(points, centres).argmin(axis=1)


class Fit(NamedTuple):
    """How well a target is predicted, and from what.

    Attributes:
      gain: what each input gained, summing to 1, or all 0 where nothing was learned.
      accuracy: on the held-out rows.
      chance: on the same rows, of always guessing what is most frequent in the others.
    """

    gain: np.ndarray
    accuracy: float
    chance: float


def importances(
    inputs: np.ndarray,
    targets: np.ndarray,
    held_out: np.ndarray,
    *,
    categorical: bool,
    binned: lightgbm.Dataset | None = None,
) -> Fit:
    """Predicts a target by boosted trees.

    Args:
      inputs: [n, f].
      targets: int [n].
      held_out: bool [n], the rows to test on; the trees are grown on the others.
      categorical: whether the inputs are names of values rather than quantities.
      binned: what `bin_inputs` made of the same inputs, to save time; its label is overwritten.
    """
    values, labels = np.unique(targets, return_inverse=True)
    train, test = labels[~held_out], labels[held_out]
    chance = float(np.mean(test == np.bincount(train).argmax()))
    if (train == train[0]).all():
        return Fit(np.zeros(inputs.shape[1]), chance, chance)
    data = bin_inputs(inputs, held_out, categorical=categorical) if binned is None else binned
    data.set_label(train)
    parameters = {**_tree_parameters(len(train)), "num_class": len(values)}
    model = lightgbm.train(parameters, data, num_boost_round=ROUNDS)
    guesses = np.asarray(model.predict(inputs[held_out], num_threads=1)).argmax(axis=1)
    gain = model.feature_importance("gain")
    return Fit(gain / (gain.sum() or 1.0), float(np.mean(guesses == test)), chance)


def bin_inputs(inputs: np.ndarray, held_out: np.ndarray, *, categorical: bool) -> lightgbm.Dataset:
    """The inputs [n, f] that trees are grown on, as trees see them; made once for many targets."""
    train = inputs[~held_out]
    columns = list(range(inputs.shape[1])) if categorical else []
    return lightgbm.Dataset(train, categorical_feature=columns, params=_tree_parameters(len(train)))


def _tree_parameters(rows: int) -> dict[str, Any]:
    return {**BOOSTING, "min_data_in_leaf": max(20, int(LEAF_SHARE * rows))}


def _direction(
    codes: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    held_out: np.ndarray,
    *,
    categorical: bool,
    done: Callable[[], None],
) -> Scores:
    """Scores codes [n, d] against targets [n]; what the entries of a code gained is summed."""
    inputs = np.concatenate(codes, axis=1)
    owner = np.repeat(np.arange(len(codes)), [code.shape[1] for code in codes])
    own = threading.local()  # a thread fits one target after the other to the same binned inputs

    def fit(target: np.ndarray) -> Fit:
        if not hasattr(own, "binned"):
            own.binned = bin_inputs(inputs, held_out, categorical=categorical)
        return importances(inputs, target, held_out, categorical=categorical, binned=own.binned)

    fits = []
    for found in _each(fit, targets):
        fits.append(found)
        done()
    importance = np.zeros((len(codes), len(targets)))
    np.add.at(importance, owner, np.stack([found.gain for found in fits], axis=1))
    accuracy = np.array([found.accuracy for found in fits])
    return Scores(
        disentanglement=disentanglement(importance),
        completeness=completeness(importance),
        informativeness=float(np.mean(accuracy)),
        importance=importance,
        accuracy=accuracy,
        chance=np.array([found.chance for found in fits]),
    )


def _each(function: Callable[[np.ndarray], Any], arrays: Sequence[np.ndarray]) -> Iterator[Any]:
    """What a function gives for each array, on all cores."""
    with ThreadPoolExecutor(len(cores())) as pool:
        yield from pool.map(function, arrays)


def _discretise_each(codes: Sequence[np.ndarray], cells: int, seed: int) -> list[np.ndarray]:
    return list(_each(lambda code: discretise(code, cells, seed), codes))


def _unmeasured(codes: int, targets: int) -> Scores:
    nothing = np.full(targets, np.nan)
    return Scores(np.nan, np.nan, np.nan, np.full((codes, targets), np.nan), nothing, nothing)


def _mean_scores(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation of each score, mean arrays; None if a seed was not measured."""
    scores: dict[str, Any] = {}
    for name in ARRAYS:
        arrays = [result[name] for result in results]
        scores[name] = None if None in arrays else np.mean(arrays, axis=0).tolist()
    for name in NAMES:
        values = [result[name] for result in results]
        measured = None not in values
        scores[name] = float(np.mean(values)) if measured else None
        if len(values) > 1:
            scores[f"{name}_std"] = float(np.std(values, ddof=1)) if measured else None
    return scores


def concentrations(rows: np.ndarray) -> np.ndarray:
    """1 − entropy of each normalised row, as a share of the greatest; 0 for an empty row."""
    if rows.shape[1] == 1:
        return (rows[:, 0] > 0.0).astype(float)
    totals = rows.sum(axis=1, keepdims=True)
    shares = rows / np.where(totals > 0.0, totals, 1.0)
    logarithms = np.log(np.where(shares > 0.0, shares, 1.0))
    entropy = -(shares * logarithms).sum(axis=1) / np.log(rows.shape[1])
    return np.where(totals[:, 0] > 0.0, 1.0 - entropy, 0.0)


def _concentration(rows: np.ndarray) -> float:
    """The rows' concentrations, weighted by the row's total."""
    totals = rows.sum(axis=1)
    if totals.sum() == 0.0:
        return 0.0
    return float(np.clip(np.average(concentrations(rows), weights=totals), 0.0, 1.0))


def _k_means(points: np.ndarray, cells: int, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Lloyd's algorithm from k-means++ seeds: centres [cells, d] and their distortion."""
    centres = points[rng.integers(len(points), size=1)]
    while len(centres) < cells:
        distance = _squared_distances(points, centres).min(axis=1)
        chance = (
            distance / distance.sum() if distance.sum() > 0.0 else None
        )  # None: too few distinct points, take any
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
    return np.maximum(
        (points**2).sum(axis=1)[:, None] - 2.0 * products + (centres**2).sum(axis=1), 0.0
    )


def _hold_out(episode: np.ndarray, seed: int) -> np.ndarray:
    """The rows of a fifth of the episodes, at least one: bool [n]."""
    episodes = np.unique(episode)
    chosen = np.random.default_rng(seed).permutation(episodes)[
        : max(1, round(HELD_OUT * len(episodes)))
    ]
    return np.isin(episode, chosen)


def _check(
    skills: np.ndarray, observations: np.ndarray, spec: WorldSpec, episode: np.ndarray, cells: int
) -> None:
    discrete = skills.ndim == 2 and np.issubdtype(skills.dtype, np.integer)
    continuous = skills.ndim == 3 and np.issubdtype(skills.dtype, np.floating)
    if not discrete and not continuous:
        raise UsageError(
            f"skills are integers [n, C] or floats [n, C, M], not {skills.dtype} {list(skills.shape)}"
        )
    expected = (len(skills), spec.observation_size)
    if observations.shape != expected or episode.shape != expected[:1]:
        raise UsageError(
            f"for {len(skills)} skills in {spec.name!r} the observations should be {list(expected)} and episode "
            f"{list(expected[:1])}, not {list(observations.shape)} and {list(episode.shape)}"
        )
    if not np.isfinite(observations).all() or not np.isfinite(skills).all():
        raise UsageError(
            "observations or skills are not finite, so their DCI means nothing; look at the rollout"
        )
    if len(np.unique(episode)) < 2:
        raise UsageError(
            "DCI needs rows from at least two episodes, some to learn from and some to test on"
        )
    if cells < 2:
        raise UsageError(
            f"a factor of {cells} cells can't tell anything; use at least 2, say one per skill value"
        )
