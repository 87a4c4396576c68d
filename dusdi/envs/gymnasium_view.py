"""Worlds of this package as Gymnasium environments, for use with other libraries."""

from __future__ import annotations

import gymnasium
import numpy as np

from dusdi.envs.base import World


class GymnasiumView(gymnasium.Env):
    """A world as an ordinary `gymnasium.Env` without reward.

    It counts an episode's age itself, which all else leaves to `dusdi.stepping`: whoever uses a
    `gymnasium.Env` begins new episodes, where a stepper does.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(self, world: World, render_mode: str | None = None):
        self._vector = world.vector_with_pictures(1) if render_mode else world.vector(1)
        self._episode_length = world.spec.episode_length
        self._age = 0
        self.render_mode = render_mode
        size = world.spec.observation_size
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (world.spec.action_size,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        world_seed = None if seed is None else int(self.np_random.integers(2**31))
        self._age = 0
        return self._vector.reset(world_seed)[0], {}

    def step(self, action):
        observation, terminated, truncated = self._vector.step(np.asarray(action)[None])
        self._age += 1
        out_of_time = self._age >= self._episode_length
        return observation[0], 0.0, bool(terminated[0]), bool(truncated[0]) or out_of_time, {}

    def render(self):
        return self._vector.render() if self.render_mode == "rgb_array" else None

    def close(self):
        self._vector.close()
