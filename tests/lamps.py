"""A picture of two lamps, and what says how light they are."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Lamps(gymnasium.Env):
    """A red and a blue lamp, which actions make lighter and darker."""

    observation_space = spaces.Box(0, 255, (4, 6, 3), np.uint8)
    action_space = spaces.Box(-1, 1, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.levels = self.np_random.integers(0, 256, 2)
        return self.observe(), {}

    def step(self, action):
        self.levels = np.clip(self.levels + np.round(50 * action), 0, 255)
        return self.observe(), float(self.levels[0]), False, False, {}

    def observe(self):
        picture = np.zeros((4, 6, 3), np.uint8)
        picture[..., [0, 2]] = self.levels
        return picture


def levels(pictures):
    """How light the lamps are, [n, 2]."""
    return pictures[:, 0, 0, [0, 2]] / 255


class Described(Lamps):
    """The picture is one of several parts of an observation."""

    parts = {
        "camera": {"picture": Lamps.observation_space},
        "lamp": spaces.Discrete(3),
        "speed": spaces.Box(-1, 1, (2,)),
    }
    observation_space = spaces.Dict({**parts, "camera": spaces.Dict(parts["camera"])})

    def observe(self):
        return {"speed": np.array([0.5, 0.2]), "lamp": 2, "camera": {"picture": super().observe()}}
