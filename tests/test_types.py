"""What log rows are made of, and descriptions of worlds."""

import math

import numpy as np
import pytest

from dusdi.errors import WorldError
from dusdi.types import Factor, WorldSpec, mean_metrics


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


def test_factors_have_one_form():
    assert Factor("a", np.arange(2)) == Factor("a", [0, 1]) == Factor("a", (0, 1))
    with pytest.raises(WorldError, match="not a list of observation entries"):
        Factor("a", (0.5,))


@pytest.mark.parametrize("name", ["", " ", 3, "\udcff"])
def test_names_of_factors_are_texts_that_files_can_hold(name):
    with pytest.raises(WorldError, match="no name"):
        WorldSpec("toy", {}, observation_size=1, action_size=1, factors=(Factor(name, (0,)),))
