"""Worlds with known answers, shared by the tests."""

import os
import signal
import tempfile

import gymnasium
import numpy as np
import pytest

# Before JAX starts, here and in child processes: programs that several tests need are compiled once.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", tempfile.mkdtemp(prefix="dusdi-xla-"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")

from dusdi.types import Factor, WorldSpec

# A shell has what it starts in the background ignore Ctrl-C, and children inherit that; some tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

SLIDERS = {"left": [0], "middle": [1], "right": [2]}


class Sliders(gymnasium.Env):
    """Three independent points on lines, moved by actions that are hidden mixtures: action @ MIX is the movement.

    Disentangled skills put each point to a place of its own; the fourth observation is noise.
    """

    MIX = np.array([[0.8, -0.6, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, -1.0]])
    observation_space = gymnasium.spaces.Box(-2.0, 2.0, (4,), np.float64)
    action_space = gymnasium.spaces.Box(-0.3, 0.3, (3,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-1, 1, 3)
        return self._observation(), {}

    def step(self, action):
        self.position = np.clip(self.position + action @ self.MIX, -1, 1)
        return self._observation(), 0.0, False, False, {}

    def _observation(self):
        return np.append(self.position, self.np_random.uniform(-1, 1))


@pytest.fixture
def spec():
    """A description of two controlled factors (entries 0, 1 and 2) and a proprioceptive one (entry 3)."""
    factors = (Factor("ball", (0, 1)), Factor("box", (2,)), Factor("arm", (3,), controlled=False))
    return WorldSpec("toy", {}, observation_size=4, action_size=2, factors=factors)
