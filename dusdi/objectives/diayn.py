"""DIAYN and DIAYN-MC: skills that make the whole state tell them apart (Eysenbach et al. 2018).

DIAYN is DUSDi with a single factor, the whole state, and a single component with as many values as all of DUSDi's
components together. DIAYN-MC keeps DUSDi's components, predicted by one network from the whole state.
"""

from __future__ import annotations

import jax

from dusdi.objectives.base import Objective
from dusdi.objectives.discriminator import Discriminators, bumpy_entries
from dusdi.skills import Discrete, SkillSpace, factored_space


class Diayn(Objective):
    def __init__(self, spec, config):
        self.skill_space = self._space(spec, config)
        components = range(self.skill_space.components)
        self.channels = tuple(f"skill {i}" for i in components)
        self.channel_components = tuple(components)
        self._discriminators = Discriminators(
            name="discriminator",
            skill_space=self.skill_space,
            masks=spec.factor_masks().any(0, keepdims=True),
            targets=tuple(components),
            names=self.channels,
            hidden=config.discriminator_hidden,
            bumps=config.discriminator_bumps,
            bumpy=bumpy_entries(spec, config),
            learning_rate=config.discriminator_lr,
            mask_steps=config.mask_steps,
        )

    def _space(self, spec, config) -> SkillSpace:
        factored = factored_space(spec, config)
        if isinstance(factored, Discrete):
            return Discrete(1, min(factored.values**factored.components, config.max_skills))
        return type(factored)(1, factored.dim * factored.components)

    def init(self, key):
        return self._discriminators.init(key)

    def update(self, state, batch):
        return self._discriminators.update(state, batch)

    def reward(self, state, batch, step):
        log_ratio, _, _ = self._discriminators.log_ratio(state.params, batch)
        return jax.lax.stop_gradient(log_ratio * self._discriminators.counts(batch)[:, None])


class DiaynMC(Diayn):
    def _space(self, spec, config) -> SkillSpace:
        return factored_space(spec, config)
