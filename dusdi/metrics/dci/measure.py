"""From skills and observations to DCI scores, in both directions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dusdi.errors import UsageError
from dusdi.metrics.dci.clusters import discretise
from dusdi.metrics.dci.result import DCI, Scores, scores_of, unmeasured
from dusdi.metrics.dci.trees import Fit, fit_targets, map_in_threads
from dusdi.types import WorldSpec

HELD_OUT = 0.2  # share of the episodes that accuracies are measured on
MAX_CLASSES = 64  # boosting grows one tree per class and round


class ComponentColumns(NamedTuple):
    """Where a skill component is found among the columns of the skills.

    Attributes:
      name: what people call it.
      columns: its columns; a categorical component has one.
      categories: how many values a categorical component has; None if it is continuous.
    """

    name: str
    columns: slice
    categories: int | None


def dci(
    skills: np.ndarray,
    observations: np.ndarray,
    spec: WorldSpec,
    episode: np.ndarray,
    bins: int,
    seed: int = 0,
    *,
    components: Sequence[ComponentColumns | tuple[str, slice, int | None]] | None = None,
    own_factors: Sequence[str] | None = None,
    advance: Callable[[int], None] = lambda done: None,
) -> DCI:
    """Measures how far skill components and controlled factors correspond one to one.

    From skills to states, a categorical component is a category for the trees, and a continuous
    one is as many numbers as it has columns, whose gains are summed. The targets are the factors,
    each discretised into `bins` classes by k-means on its standardised entries. From states to
    skills, the targets are the values of categorical components; a continuous component is
    discretised into `bins` classes as a factor is, all its columns together. Its accuracy is
    then that of predicting the class, and depends on the number of bins.

    With a single component, completeness is 1 by definition, and disentanglement tells only how
    much less than all factors it moves: compare methods that have as many components as factors.
    If a categorical component takes more than `MAX_CLASSES` values (DIAYN), states to skills is not
    measured and is NaN: boosting so many classes takes hours, and most of them would occur in one
    skill only.

    Args:
      skills: the skill in force on arriving in each row's observation, [n, W].
      observations: [n, D].
      spec: says which factors are controlled.
      episode: int [n], the episode of each row. Whole episodes are held out to measure accuracies
        on, since neighbouring rows are alike.
      bins: how many classes a factor, and a continuous component, is discretised into.
      seed: of the clusters and of the choice of episodes.
      components: the columns of each component, a (name, slice, categories) each. By default each
        column is a categorical component, named z1, z2, …; then the skills must be integers.
      own_factors: the factor that each component is meant to control, if any.
      advance: called with the number of targets of both directions that are done.
    """
    skills = np.asarray(skills)
    observations = np.asarray(observations)
    episode = np.asarray(episode)
    _check_shapes(skills, observations, spec, episode)
    _check_values(skills, observations, episode, bins)
    parts = _each_column(skills) if components is None else _as_columns(components)
    _check_components(skills, parts)
    data = _Data(
        components=[skills[:, part.columns] for part in parts],
        categorical=[part.categories is not None for part in parts],
        factors=[observations[:, list(factor.indices)] for factor in spec.controlled],
        held_out=_hold_out(episode, seed),
        bins=bins,
        seed=seed,
    )
    count = itertools.count(1)

    def done() -> None:
        advance(next(count))

    forward = _skills_to_states(data, done)
    backward = _states_to_skills(data, done)
    return DCI(
        **vars(forward),
        components=tuple(part.name for part in parts),
        factors=tuple(str(factor.name) for factor in spec.controlled),
        own_factors=None if own_factors is None else tuple(map(str, own_factors)),
        states_to_skills=backward,
    )


class _Data(NamedTuple):
    """What is measured.

    Attributes:
      components: the columns of each skill component, [n, d].
      categorical: whether each component is categorical.
      factors: the entries of each controlled factor, [n, d].
      held_out: bool [n], the rows that accuracies are measured on.
      bins: how many classes what is continuous is discretised into.
      seed: of the clusters.
    """

    components: list[np.ndarray]
    categorical: list[bool]
    factors: list[np.ndarray]
    held_out: np.ndarray
    bins: int
    seed: int

    def discretise(self, values: np.ndarray) -> np.ndarray:
        return discretise(values, self.bins, self.seed)


def _skills_to_states(data: _Data, done: Callable[[], None]) -> Scores:
    """Predicts the class of each factor from all components."""
    owners = _owners(data.components)
    categorical = [column for column, owner in enumerate(owners) if data.categorical[owner]]
    targets = list(map_in_threads(data.discretise, data.factors))
    inputs = np.concatenate(data.components, axis=1)
    fits = fit_targets(inputs, targets, data.held_out, categorical=categorical)
    return scores_of(_counted(fits, done), owners, len(data.components))


def _states_to_skills(data: _Data, done: Callable[[], None]) -> Scores:
    """Predicts the value, or the class, of each component from all factors."""
    kinds = list(zip(data.components, data.categorical, strict=True))
    values = [component for component, categorical in kinds if categorical]
    if any(len(np.unique(value)) > MAX_CLASSES for value in values):
        return unmeasured(len(data.factors), len(data.components))

    def classes(kind: tuple[np.ndarray, bool]) -> np.ndarray:
        component, categorical = kind
        return component[:, 0] if categorical else data.discretise(component)

    targets = list(map_in_threads(classes, kinds))
    inputs = np.concatenate(data.factors, axis=1)
    fits = fit_targets(inputs, targets, data.held_out, categorical=())
    return scores_of(_counted(fits, done), _owners(data.factors), len(data.factors))


def _owners(codes: Sequence[np.ndarray]) -> np.ndarray:
    """The code that each column belongs to, if codes [n, d] are put side by side."""
    return np.repeat(np.arange(len(codes)), [code.shape[1] for code in codes])


def _counted(fits: Iterator[Fit], done: Callable[[], None]) -> list[Fit]:
    """The fits as a list; `done` is called after each."""
    found = []
    for fit in fits:
        found.append(fit)
        done()
    return found


def _hold_out(episode: np.ndarray, seed: int) -> np.ndarray:
    """The rows of a fifth of the episodes, at least one: bool [n]."""
    episodes = np.unique(episode)
    count = max(1, round(HELD_OUT * len(episodes)))
    chosen = np.random.default_rng(seed).permutation(episodes)[:count]
    return np.isin(episode, chosen)


def _each_column(skills: np.ndarray) -> list[ComponentColumns]:
    """Every column as a categorical component."""
    if not np.issubdtype(skills.dtype, np.integer):
        raise UsageError(
            f"skills of {skills.dtype} may be continuous: name the columns of each component, or "
            "pass integers if all of them are categorical"
        )
    categories = int(skills.max()) + 1
    indices = range(skills.shape[1])
    return [ComponentColumns(f"z{i + 1}", slice(i, i + 1), categories) for i in indices]


def _as_columns(
    components: Sequence[ComponentColumns | tuple[str, slice, int | None]],
) -> list[ComponentColumns]:
    parts = [ComponentColumns(*component) for component in components]
    return [part._replace(name=str(part.name)) for part in parts]


def _check_shapes(
    skills: np.ndarray, observations: np.ndarray, spec: WorldSpec, episode: np.ndarray
) -> None:
    if skills.ndim != 2 or not skills.size or not np.issubdtype(skills.dtype, np.number):
        raise UsageError(
            f"skills are numbers of shape [n, W], not {skills.dtype} {list(skills.shape)}"
        )
    expected = (len(skills), spec.observation_size)
    if observations.shape != expected or episode.shape != expected[:1]:
        raise UsageError(
            f"for {len(skills)} skills in {spec.name!r} the observations should be "
            f"{list(expected)} and episode {list(expected[:1])}, not {list(observations.shape)} "
            f"and {list(episode.shape)}"
        )


def _check_components(skills: np.ndarray, parts: Sequence[ComponentColumns]) -> None:
    """Raises a `UsageError` if the columns of a component don't hold what it says."""
    for part in parts:
        values = skills[:, part.columns]
        width = values.shape[1]
        if not width or (part.categories is not None and width != 1):
            wanted = "at least one column" if part.categories is None else "one column"
            raise UsageError(f"component {part.name!r} should have {wanted}, not {width}")
        if part.categories is None:
            continue
        whole = (values == np.floor(values)).all()
        in_range = ((values >= 0) & (values < part.categories)).all()
        if not whole or not in_range:
            raise UsageError(
                f"component {part.name!r} is categorical, so its values should be the whole "
                f"numbers 0 to {part.categories - 1}"
            )


def _check_values(
    skills: np.ndarray, observations: np.ndarray, episode: np.ndarray, bins: int
) -> None:
    if not np.isfinite(observations).all() or not np.isfinite(skills).all():
        raise UsageError(
            "observations or skills are not finite, so their DCI means nothing; look at the rollout"
        )
    if len(np.unique(episode)) < 2:
        raise UsageError(
            "DCI needs rows from at least two episodes, some to learn from and some to test on"
        )
    if bins < 2:
        raise UsageError(
            f"a factor discretised into {bins} bins says nothing; use at least 2 bins, for "
            "instance as many as a skill component has values"
        )
