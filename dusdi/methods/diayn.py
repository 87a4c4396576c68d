"""DIAYN and DIAYN-MC: the whole state tells skills apart (Eysenbach et al. 2018).

DIAYN is DUSDi with a single factor, the whole state, and a single component with as many values as
all of DUSDi's components together. DIAYN-MC keeps DUSDi's components, predicted by one network from
the whole state.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax

from dusdi.methods.base import FactoredSkillSettings, Method, MethodSettings, mean_score
from dusdi.methods.dusdi import FAST_DISCRIMINATORS
from dusdi.presets import PLAIN_SAC
from dusdi.settings import setting
from dusdi.skill_space import Component, SkillSpace, merged
from dusdi.sources.discriminate import DiscriminatorSettings, own_discriminators


@dataclasses.dataclass(frozen=True)
class DiaynMCSettings(FactoredSkillSettings, DiscriminatorSettings, MethodSettings):
    """The settings of DIAYN-MC."""

    def check(self):
        FactoredSkillSettings.check(self)
        DiscriminatorSettings.check(self)


@dataclasses.dataclass(frozen=True)
class DiaynSettings(DiaynMCSettings):
    """The settings of DIAYN."""

    max_skills: int = setting(
        4096, "most values of the single component (paper: 4096)", low=2, high=1_000_000
    )


class DiaynMC(Method):
    """DUSDi's components, all seen in the whole state."""

    name = "diayn-mc"
    Settings = DiaynMCSettings
    experiments: ClassVar[tuple[str, ...]] = ("table1",)
    presets = {"fast": FAST_DISCRIMINATORS}

    def __init__(self, spec, settings):
        self.skill_space = self._space(settings.factored_space(spec), settings)
        everyone = tuple(range(len(self.skill_space)))
        self.channels = self.skill_space.names
        whole = spec.factor_masks().any(0, keepdims=True)
        self._own = own_discriminators(spec, settings, self.skill_space, everyone, whole)

    def _space(self, factored: SkillSpace, settings) -> SkillSpace:
        spaces = enumerate(factored.spaces)
        return SkillSpace(tuple(Component(f"skill {i}", space) for i, space in spaces))

    def init(self, key):
        return self._own.init(key)

    def update(self, state, key, batch, step):
        return self._own.update(state, key, batch, step)

    def reward(self, state, key, batch, step):
        del key
        return jax.lax.stop_gradient(self._own.reward(state, batch, step))

    def headline(self, row):
        return mean_score(self.skill_space, row)


class Diayn(DiaynMC):
    """One component for everything."""

    name = "diayn"
    Settings = DiaynSettings
    grid = {"discount": (0.93, 0.99), "max_skills": (64, 4096)}
    #: Soft actor-critic and discriminators that have room for as many values as it can have.
    experiments = ("fig4", "fig5")
    presets = {
        "fast": dict(
            {**PLAIN_SAC, "actor_hidden": (128, 256), "critic_hidden": (128, 256)},
            mask_steps=0,
            discriminator_hidden=(256, 64),
            discriminator_lr=1e-3,
        ),
        "debug": dict(discriminator_hidden=(16, 16)),
    }

    def _space(self, factored, settings):
        return SkillSpace((Component("skill", merged(factored.spaces, settings.max_skills)),))
