"""Statistics of a few seeds: values worked out by hand, and intervals that hold the truth."""

import warnings

import numpy as np
import pytest

from dusdi.metrics.statistics import (
    Estimate,
    bootstrap_interval,
    estimate,
    estimate_improvement,
    interquartile_mean,
    probability_of_improvement,
)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.0], 7.0),
        ([1, 2, 9], 4.0),  # a quarter of three values is less than one
        ([100, 2, 4, -50], 3.0),  # (2 + 4) / 2
        ([0, 1, 2, 6, 1000], 3.0),  # (1 + 2 + 6) / 3
        ([-9, -8, 1, 2, 3, 6, 80, 90], 3.0),  # (1 + 2 + 3 + 6) / 4
    ],
)
def test_the_interquartile_mean_is_that_of_the_middle_half(values, expected):
    assert interquartile_mean(values) == expected


def test_over_tasks_the_middle_half_is_that_of_all_values():
    # Of 0, 1, 2, 3, 10, 20, 30, 40 the middle half is 2, 3, 10, 20.
    assert interquartile_mean([0, 1, 20, 30], [2, 3, 10, 40]) == 35 / 4


def test_the_probability_of_improvement_counts_pairs():
    # Of 3 × 2 pairs the first is higher in (3, 2), (5, 2), (5, 4), and equal in none.
    assert probability_of_improvement([[1, 3, 5]], [[2, 4]]) == 3 / 6
    # (2, 1) is higher, (2, 2) a tie, (1, 1) a tie, (1, 2) lower: (1 + 2 / 2) / 4
    assert probability_of_improvement([[1, 2]], [[1, 2]]) == 0.5
    # Mann and Whitney's U of the first, over 2 · 3: 4 beats all of 1, 2, 3, and 2 beats 1, ties 2
    assert probability_of_improvement([[2, 4]], [[1, 2, 3]]) == pytest.approx(4.5 / 6)


def test_the_probability_of_improvement_is_the_mean_of_tasks_with_any_number_of_seeds():
    first = [[10, 20], [0, 0, 0, 0]]
    second = [[1, 2, 3], [5, -1]]
    assert probability_of_improvement(first, second) == (1.0 + 0.5) / 2  # pooled pairs: 10 / 14
    assert probability_of_improvement(second, first) == (0.0 + 0.5) / 2


def test_intervals_of_few_values_are_known_by_hand():
    # Means of two draws are 0, 1, 2 with probabilities 1/4, 1/2, 1/4.
    assert bootstrap_interval(interquartile_mean, [0.0, 2.0]) == (0.0, 2.0)
    # Of five draws k are 9, and of the middle three k - 1. The mean of these is 6 for k = 3, and
    # P(k > 3) = 0.007 < 2.5 % < P(k > 2) = 0.058.
    assert bootstrap_interval(interquartile_mean, [0.0, 0.0, 0.0, 0.0, 9.0]) == (0.0, 6.0)


def test_seeds_are_drawn_within_tasks():
    """Tasks differ by a thousand, their seeds by 2: drawn across tasks, means would differ more."""
    low, high = bootstrap_interval(interquartile_mean, [0.0, 2.0], [1000.0, 1002.0])
    # The middle two of four are the higher of the first task and the lower of the second.
    assert (low, high) == (500.0, 502.0)
    seen = []

    def spy(*tasks):
        seen.extend(tasks)
        return interquartile_mean(*tasks)

    bootstrap_interval(spy, [1, 2, 3], [4, 5], resamples=50)
    assert [task.shape for task in seen] == [(50, 3), (50, 2)]
    assert [set(task.flat) for task in seen] == [{1, 2, 3}, {4, 5}]


def test_equal_seeds_have_an_interval_of_no_width_and_a_single_seed_has_none():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert estimate(interquartile_mean, [5.0] * 4, [5.0] * 3) == (5.0, (5.0, 5.0))
        assert estimate(interquartile_mean, [5.0]) == (5.0, None)
        assert estimate(interquartile_mean, [5.0, 6.0], [5.0]) == (5.0 + 1 / 3, None)
        assert estimate_improvement([[2.0, 3.0]], [[1.0, 0.0]]) == (1.0, (1.0, 1.0))
        assert estimate_improvement([[2.0, 3.0]], [[1.0]]) == (1.0, None)


def test_an_interval_is_the_same_every_time():
    values = np.random.default_rng(3).normal(size=5)
    assert estimate(interquartile_mean, values) == estimate(interquartile_mean, values)


@pytest.mark.parametrize(("seeds", "coverage"), [(2, 0.50), (3, 0.75), (5, 0.91), (20, 0.94)])
def test_intervals_hold_the_truth_as_often_as_the_protocol_says(seeds, coverage):
    """Each row is an experiment whose true interquartile mean is 0."""
    experiments = np.random.default_rng(0).normal(size=(2_000, seeds))
    low, high = bootstrap_interval(interquartile_mean, experiments, resamples=400)
    assert np.mean((low <= 0) & (high >= 0)) == pytest.approx(coverage, abs=0.025)


@pytest.mark.parametrize(("seeds", "share"), [(2, 0.32), (3, 0.11), (5, 0.02)])
def test_methods_that_are_equal_are_rarely_apart(seeds, share):
    experiments = np.random.default_rng(0).normal(size=(2, 2_000, seeds))
    first, second = (
        bootstrap_interval(interquartile_mean, own, resamples=400) for own in experiments
    )
    apart = (first[0] > second[1]) | (second[0] > first[1])
    assert np.mean(apart) == pytest.approx(share, abs=0.015)


def test_the_interval_of_an_improvement_holds_the_truth():
    """The second of two methods is higher by as much as makes P(X > Y) 0.24."""
    rng = np.random.default_rng(0)
    intervals = [
        estimate_improvement([rng.normal(size=8)], [rng.normal(1.0, size=8)]).interval
        for _ in range(100)
    ]
    # P(N(0, 1) > N(1, 1)) = Φ(−1 / √2)
    held = [low <= 0.2398 <= high for low, high in intervals]
    assert 0.84 <= np.mean(held) <= 0.98


def test_apart_are_intervals_that_share_no_number():
    low, touching, high = (Estimate(v, (v - 1, v + 1)) for v in (1.0, 3.0, 3.1))
    assert high.is_above(low) and not low.is_above(high)
    assert not touching.is_above(low) and not low.is_above(touching)
    alone = Estimate(9.0, None)
    assert not alone.is_above(low) and not low.is_above(alone)
