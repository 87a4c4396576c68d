"""METRA: skills are directions, along which the state travels as far as it can (Park et al. 2024).

A single component z and a single network phi of all controlled entries of the state. The reward is
(phi(s') - phi(s)) . z, where steps in phi's space have a length of at most 1 in the mean over its
dimensions, so that only a state that is many steps away can be far away.
"""

from __future__ import annotations

import dataclasses

import jax

from dusdi.methods.base import Method, MethodSettings, SingleSkillSettings
from dusdi.presets import PLAIN_SAC
from dusdi.sources.travel import FAST_TRAVEL, Travel, TravelSettings, mean_travel


@dataclasses.dataclass(frozen=True)
class MetraSettings(SingleSkillSettings, TravelSettings, MethodSettings):
    """The settings of METRA."""


class Metra(Method):
    """One direction for the whole controlled state."""

    name = "metra"
    Settings = MetraSettings
    grid = {"discount": (0.93, 0.99), "travel_scale": (1.0, 10.0)}
    experiments = ("fig4",)
    presets = {
        "paper": dict(discount=0.99),
        "fast": {**PLAIN_SAC, **FAST_TRAVEL, "alpha": 0.02},  # rewards are small at first
        "debug": dict(travel_hidden=(16, 16)),
    }

    def __init__(self, spec, settings):
        self.skill_space = settings.single_space()
        self.channels = self.skill_space.names
        self._travel = self._source(spec.factor_masks().any(0), settings)

    def _source(self, seen, settings) -> Travel:
        """What pays: distance in the space of a network that sees these entries, bool [D]."""
        return Travel(self.skill_space, targets=(0,), masks=seen[None], settings=settings)

    def init(self, key):
        return self._travel.init(key)

    def update(self, state, key, batch, step):
        return self._travel.update(state, key, batch, step)

    def reward(self, state, key, batch, step):
        del key
        return jax.lax.stop_gradient(self._travel.reward(state, batch, step))

    def headline(self, row):
        return mean_travel(self.skill_space, row)
