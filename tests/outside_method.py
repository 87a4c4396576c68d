"""A method that is not of this package: skills are directions, paid for how far they lead."""

import dataclasses

import jax.numpy as jnp
import numpy as np

import dusdi
from dusdi.methods.base import MethodSettings
from dusdi.settings import setting


@dataclasses.dataclass(frozen=True)
class WanderSettings(MethodSettings):
    """The settings of this method."""

    stride: float = setting(1.0, "reward for a step of length one in the right direction")


class Wander(dusdi.Method):
    """One component, a direction in the space of all controlled observation entries."""

    name = "wander"
    Settings = WanderSettings
    presets = {"fast": {"discount": 0.8}, "debug": {"stride": 2.0}}

    def __init__(self, spec, settings):
        self._settings = settings
        self._entries = np.flatnonzero(spec.factor_masks().any(0))
        direction = dusdi.Sphere(len(self._entries))
        self.skill_space = dusdi.SkillSpace((dusdi.Component("direction", direction),))
        self.channels = ("distance",)

    def init(self, key):
        return ()

    def update(self, state, key, batch, step):
        return state, {"travel": jnp.mean(self._travelled(batch))}

    def _travelled(self, batch):
        moved = batch.raw.next_observation - batch.raw.observation
        return jnp.sum(moved[:, self._entries] * batch.skill, axis=-1)

    def reward(self, state, key, batch, step):
        return self._settings.stride * self._travelled(batch)[:, None]

    def headline(self, row):
        return {"travel": row["travel"]}
