"""What log rows are made of: means of metrics, and components that do nothing."""

import math

import pytest

from dusdi.types import idle_components, mean_metrics


def test_metrics_are_means_over_updates():
    assert mean_metrics({"accuracy": 6.0, "loss/critic": 1.0}, updates=4) == {
        "accuracy": 1.5,
        "loss/critic": 0.25,
    }


def test_returns_are_means_over_episodes_and_episodes_are_counted():
    """Ten updates, four episodes: 20 / 4, 8 / 4 and 12 / 4 in the channels, and 5 / 10."""
    sums = {"return": 20.0, "return/a": 8.0, "return/b": 12.0, "episodes": 4.0, "entropy": 5.0}
    row = mean_metrics(sums, updates=10)
    assert row == {
        "return": 5.0,
        "return/a": 2.0,
        "return/b": 3.0,
        "episodes": 4.0,
        "entropy": 0.5,
    }
    assert list(row) == list(sums)


def test_there_is_no_return_before_an_episode_ends():
    row = mean_metrics({"return": 0.0, "return/a": 0.0, "episodes": 0.0, "q": 3.0}, updates=2)
    assert math.isnan(row["return"]) and math.isnan(row["return/a"])
    assert (row["episodes"], row["q"]) == (0.0, 1.5)


def test_a_metric_whose_name_only_begins_like_a_return_is_a_mean_over_updates():
    row = mean_metrics({"returned": 4.0, "episodes": 1.0}, updates=2)
    assert row["returned"] == 2.0


# Of 5 values, chance is 0.2, and less than 0.2 + 0.1 * 0.8 = 0.28 is hardly better. A continuous
# component is uniform in [-1, 1] with variance 1/3; more than 0.9 / 3 = 0.3 is hardly better.
@pytest.mark.parametrize(
    ("name", "values", "idle"),
    [
        ("accuracy/a", (0.26, 0.28), True),
        ("accuracy/a", (0.26, 0.32), False),
        ("squared_error/a", (0.31, 0.31), True),
        ("squared_error/a", (0.31, 0.27), False),
        ("penalty_accuracy/a", (0.2, 0.2), False),
        ("accuracy", (0.2, 0.2), False),
    ],
)
def test_components_that_do_nothing_are_found_by_the_mean_over_seeds(name, values, idle):
    found = idle_components([{name: value} for value in values], chance=0.2)
    assert list(found) == (["a"] if idle else [])
