"""Dict observations are flattened as Gymnasium does, and factors are named by their keys."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import dusdi
from dusdi.errors import WorldError


class Reach(gymnasium.Env):
    """A hand, and a block that stays where it is."""

    observation_space = spaces.Dict(
        {
            "hand": spaces.Box(-1, 1, (4,)),
            "block": spaces.Box(-1, 1, (2,), np.float64),
            "lamp": spaces.Discrete(3),
            "inside": spaces.Dict({"x": spaces.Box(-1, 1, (2, 2))}),
        }
    )
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action):
        return self.observe(), 0.0, False, False, {}

    def observe(self):
        draw = self.np_random.uniform
        return {
            "inside": {"x": draw(-1, 1, (2, 2)).astype(np.float32)},
            "lamp": self.np_random.integers(3),
            "block": draw(-1, 1, 2),
            "hand": draw(-1, 1, 4).astype(np.float32),
        }


def test_dict_observations_are_flattened_as_gymnasium_does():
    vector = dusdi.from_gymnasium(Reach, {"hand": "hand"}).vector(2)
    wrapped = gymnasium.wrappers.FlattenObservation(Reach())
    np.testing.assert_array_equal(vector.reset(seed=5)[1], np.float32(wrapped.reset(seed=6)[0]))
    stepped = vector.step(np.zeros((2, 1)))[0]
    np.testing.assert_array_equal(stepped[1], np.float32(wrapped.step(np.zeros(1))[0]))


def test_factors_by_key():
    factors = {"hand": "hand[0:3]", "block": "block", "both": ["lamp", "inside[3,0]"]}
    spec = dusdi.from_gymnasium(Reach, factors, "hand[3],both").spec
    found = {factor.name: (factor.indices, factor.controlled) for factor in spec.factors}
    assert spec.observation_size == 13  # block 2, hand 4, inside 4, lamp 3, in that order
    assert found == {
        "hand": ((2, 3, 4), True),
        "block": ((0, 1), True),
        "both": ((10, 11, 12, 9, 6), False),
        "proprioception": ((5,), False),
        "unnamed entries": ((7, 8), False),
    }


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ("hnad", "^factor 'a' names an unknown key 'hnad'; did you mean hand?"),
        ("hand,hnad[0:2]", "unknown key 'hnad'; did you mean hand?"),
        ("foot", "unknown key 'foot'; choose from: block, hand, inside, lamp"),
        ("99", "names observation entry 99, but those are 0 to 12"),
        ("hand[9]", "names observation entry 9, but those are 0 to 3"),
        ("hand[x]", "'x', which is not an index"),
        ("", "unknown key ''"),
    ],
)
def test_wrong_keys_are_explained(entries, message):
    with pytest.raises(WorldError, match=message):
        dusdi.from_gymnasium(Reach, {"a": entries})
