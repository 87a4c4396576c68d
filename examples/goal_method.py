"""A method of one's own: each component is a place, and its factor should go there.

PYTHONPATH=examples dusdi pretrain gunner-2d --method goal_method:Goals --out runs/goals
dusdi evaluate runs/goals
dusdi downstream runs/goals gunner-2d/unlimited
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import dusdi
from dusdi.methods.base import MethodSettings
from dusdi.settings import POSITIVE, setting


@dataclasses.dataclass(frozen=True)
class GoalSettings(MethodSettings):
    """The settings of this method; they are options of the command line as well."""

    goal_range: float = setting(
        1.5, "goals lie up to so many standard deviations from the mean", low=POSITIVE
    )


class Goals(dusdi.Method):
    """A skill component is a point in the space of its factor; the reward is minus the distance."""

    name = "goals"
    Settings = GoalSettings
    presets = {"fast": {"discount": 0.8}}  # changes that preset `fast` needs for this method

    def __init__(self, spec, settings):
        self._range = settings.goal_range
        self._indices = [np.array(factor.indices) for factor in spec.controlled]
        self.skill_space = dusdi.SkillSpace(
            tuple(
                dusdi.Component(factor.name, dusdi.Box(len(factor.indices)))
                for factor in spec.controlled
            )
        )
        self.channels = self.skill_space.names

    def init(self, key):
        return ()  # nothing is learned besides the policy

    def update(self, state, key, batch, step):
        return state, {"distance": -self.reward(state, key, batch, step).mean()}

    def reward(self, state, key, batch, step) -> jax.Array:
        """Minus the distance of each factor from its goal, [B, C]."""
        distances = []
        for indices, columns in zip(self._indices, self.skill_space.columns, strict=True):
            goal = self._range * batch.skill[:, columns]
            place = batch.next_observation[:, indices]  # normalised in preset `fast`
            distances.append(jnp.linalg.norm(place - goal, axis=-1))
        return -jnp.stack(distances, axis=1)

    def headline(self, row):
        return {"distance": row["distance"]}
