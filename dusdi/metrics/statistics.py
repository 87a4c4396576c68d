"""How sure one can be of numbers that come from a few seeds.

Interquartile means, stratified bootstrap intervals and the probability of improvement are those of
Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", 2021. Values
are arrays whose last axis is seeds, one array for each task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import trim_mean

RESAMPLES = 2_000  # that an interval is made of
ENOUGH_SEEDS = 5  # with fewer, intervals are far too narrow: a test measures how far
PERCENTILES = (2.5, 97.5)  # the ends of an interval of 95 %

Statistic = Callable[..., Any]


class Estimate(NamedTuple):
    """A number, and the 95 % interval around it; None if a task has a single seed."""

    value: float
    interval: tuple[float, float] | None

    def is_above(self, other: Estimate) -> bool:
        """Returns whether the intervals are apart, and this one is the higher."""
        if self.interval is None or other.interval is None:
            return False
        low, high = self.interval[0], other.interval[1]
        return low > high and not math.isclose(low, high)  # rounding is no difference


def interquartile_mean(*tasks: ArrayLike) -> Any:
    """Returns the mean of the values of all tasks without the lowest and the highest quarter.

    A quarter is rounded down to whole values: of 5 values, the middle 3 count.
    """
    return trim_mean(np.concatenate(tasks, axis=-1), 0.25, axis=-1)


def probability_of_improvement(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> Any:
    """Returns the mean over tasks of P(X > Y) + P(X = Y) / 2.

    X is a seed of the first method and Y one of the second, drawn independently of each other.
    """
    chances = []
    for ours, theirs in zip(first, second, strict=True):
        difference = np.asarray(ours)[..., :, None] - np.asarray(theirs)[..., None, :]
        chances.append((np.sign(difference) / 2 + 0.5).mean(axis=(-2, -1)))
    return np.mean(chances, axis=0)


def bootstrap_interval(
    statistic: Statistic, *tasks: ArrayLike, resamples: int = RESAMPLES
) -> tuple[Any, Any] | None:
    """Returns the ends of a 95 % percentile interval; None if a task has less than two seeds.

    Seeds are drawn with replacement within each task, never across tasks (strata). Draws are the
    same in every call, so that tables can be made again.

    Args:
      statistic: a function of an array for each task, that works along the last axis.
      tasks: arrays [..., S] of S seeds.
      resamples: how often to draw.
    """
    samples = [np.asarray(task) for task in tasks]
    if any(sample.shape[-1] < 2 for sample in samples):
        return None
    rng = np.random.default_rng(0)
    counts = [sample.shape[-1] for sample in samples]
    draws = [rng.integers(count, size=(resamples, count)) for count in counts]
    drawn = [sample[..., draw] for sample, draw in zip(samples, draws, strict=True)]
    low, high = np.percentile(statistic(*drawn), PERCENTILES, axis=-1)
    return low, high


def estimate(statistic: Statistic, *tasks: ArrayLike) -> Estimate:
    """Returns the statistic of the seeds that there are, with its interval."""
    return Estimate(statistic(*tasks), bootstrap_interval(statistic, *tasks))


def estimate_improvement(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> Estimate:
    """Returns the probability of improvement; seeds of both methods are drawn for its interval."""

    def statistic(*tasks: ArrayLike) -> Any:
        return probability_of_improvement(tasks[: len(first)], tasks[len(first) :])

    return estimate(statistic, *first, *second)
