"""How a message says in what two worlds differ."""

import dataclasses

import pytest

from dusdi.types import Factor, WorldSpec, difference

FACTORS = (Factor("ball", (0, 1)), Factor("box", (2,)), Factor("arm", (3,), controlled=False))
SPEC = WorldSpec("toy", {"g": 10, "size": [1, 2]}, 4, 2, FACTORS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"name": "other"}, "the name 'toy', not 'other'"),
        ({"options": {"g": 1, "size": [1, 2]}}, "option g = 10, not 1"),
        ({"options": {"g": 10}}, "option size = [1, 2], not unset"),
        ({"observation_size": 5}, "4 observations, not 5"),
        ({"action_size": 3}, "2 actions, not 3"),
        ({"episode_length": 9}, "episodes of 1000 steps, not 9"),
        ({"channels": ("reward",)}, "reward channels none, not 'reward'"),
        ({"factors": FACTORS[1:]}, "a factor 'ball'"),
        ({"factors": (*FACTORS[:2], Factor("leg", (3,)))}, "a factor 'arm'; no factor 'leg'"),
        ({"factors": (Factor("ball", (0,)), *FACTORS[1:])}, "factor 'ball' of entries 0, 1, not 0"),
        (
            {"factors": (*FACTORS[:2], Factor("arm", (3,)))},
            "factor 'arm' without a skill component",
        ),
        ({"factors": FACTORS[::-1]}, "factors in the order 'ball', 'box', 'arm'"),
        (
            {"name": "b", "options": {"size": [1, 2]}, "action_size": 1, "episode_length": 9},
            "the name 'toy', not 'b'; option g = 10, not unset; 2 actions, not 1; and 1 more",
        ),
    ],
)
def test_what_differs_is_said_in_words(changes, words):
    assert difference(SPEC, dataclasses.replace(SPEC, **changes)) == words
