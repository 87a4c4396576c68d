"""DIAYN and DIAYN-MC: skills that make the whole state tell them apart (Eysenbach et al. 2018).

DIAYN is DUSDi with a single factor, the whole state, and a single component with as many values as all of DUSDi's
components together. DIAYN-MC keeps DUSDi's components, predicted by one network from the whole state.
"""

from __future__ import annotations

import jax

from dusdi.objectives.base import Objective
from dusdi.objectives.discriminator import own_discriminators
from dusdi.skills import Discrete, SkillSpace, factored_space


class Diayn(Objective):
    def __init__(self, spec, config):
        self.skill_space = self._space(spec, config)
        components = range(self.skill_space.components)
        self.channels = tuple(f"skill {i}" for i in components)
        self.channel_components = tuple(components)
        whole = spec.factor_masks().any(0, keepdims=True)
        self._discriminators = own_discriminators(
            spec, config, self.skill_space, whole, self.channels
        )

    def _space(self, spec, config) -> SkillSpace:
        factored = factored_space(spec, config)
        if isinstance(factored, Discrete):
            return Discrete(1, min(factored.values**factored.components, config.max_skills))
        return type(factored)(1, factored.dim * factored.components)

    def init(self, key):
        return self._discriminators.init(key)

    def update(self, state, key, batch, step):
        return self._discriminators.update(state, key, batch, step)

    def reward(self, state, batch, step):
        return jax.lax.stop_gradient(self._discriminators.reward(state.params, batch))


class DiaynMC(Diayn):
    def _space(self, spec, config) -> SkillSpace:
        return factored_space(spec, config)
