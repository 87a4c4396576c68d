"""Skill spaces: what a skill is, how it is drawn and how networks see it.

A skill z has C components. Discrete components take one of K values, uniformly, and reach the networks
one-hot; continuous ones are uniform in [-1, 1]^M and reach them as they are.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from dusdi.config import Config
from dusdi.errors import UsageError
from dusdi.types import Array, WorldSpec


@dataclasses.dataclass(frozen=True)
class Discrete:
    """C components with K values each; a skill is int32 [C]."""

    components: int
    values: int

    @property
    def component_size(self) -> int:
        """Network inputs per component, K; also the width of a discriminator's output."""
        return self.values

    @property
    def log_prior(self) -> float:
        """log p(z^i) of one component."""
        return -math.log(self.values)

    def sample(self, key: jax.Array, count: int) -> jax.Array:
        return jax.random.randint(key, (count, self.components), 0, self.values)

    def encode(self, skill: Array) -> jax.Array:
        """Network input [..., C * K] of skills [..., C]."""
        one_hot = jax.nn.one_hot(skill, self.values)
        return one_hot.reshape(*one_hot.shape[:-2], self.components * self.values)

    def as_gymnasium(self) -> gymnasium.Space:
        """The action space of a policy that chooses skills; a plain number if there is one component."""
        if self.components == 1:
            return gymnasium.spaces.Discrete(self.values)
        return gymnasium.spaces.MultiDiscrete([self.values] * self.components)

    def check(self, skill: Any) -> np.ndarray:
        """The skill [..., C] as int32, or a `UsageError` that says what is wrong with it."""
        array = np.asarray(skill)
        if array.shape[-1:] != (self.components,):
            raise UsageError(
                f"a skill here has {self.components} components with values 0 to {self.values - 1}; got {skill}"
            )
        if (array != np.floor(array)).any() or (array < 0).any() or (array >= self.values).any():
            raise UsageError(
                f"skill components take the whole values 0 to {self.values - 1}; got {skill}"
            )
        return array.astype(np.int32)


@dataclasses.dataclass(frozen=True)
class Continuous:
    """C components that are points in [-1, 1]^M; a skill is float32 [C, M]."""

    components: int
    dim: int

    @property
    def component_size(self) -> int:
        """Network inputs per component, M."""
        return self.dim

    @property
    def log_prior(self) -> float:
        """log p(z^i) of one component: the density of U[-1, 1]^M."""
        return -self.dim * math.log(2.0)

    def sample(self, key: jax.Array, count: int) -> jax.Array:
        return jax.random.uniform(key, (count, self.components, self.dim), minval=-1.0, maxval=1.0)

    def encode(self, skill: Array) -> jax.Array:
        """Network input [..., C * M] of skills [..., C, M]."""
        skill = jnp.asarray(skill)
        return skill.reshape(*skill.shape[:-2], self.components * self.dim)

    def as_gymnasium(self) -> gymnasium.Space:
        """The action space of a policy that chooses skills."""
        return gymnasium.spaces.Box(-1.0, 1.0, (self.components, self.dim), np.float32)

    def check(self, skill: Any) -> np.ndarray:
        """The skill [..., C, M] as float32, or a `UsageError` that says what is wrong with it."""
        array = np.asarray(skill, np.float32)
        if array.shape[-1:] != (self.dim,) or array.shape[-2:-1] != (self.components,):
            if array.size != self.components * self.dim:
                raise UsageError(
                    f"a skill here has {self.components} components of {self.dim} numbers in [-1, 1]; got {skill}"
                )
            array = array.reshape(self.components, self.dim)
        if not (np.abs(array) <= 1).all():
            raise UsageError(f"skill components are in [-1, 1]; got {skill}")
        return array


SkillSpace = Discrete | Continuous


def factored_space(spec: WorldSpec, config: Config) -> SkillSpace:
    """One skill component for each controlled factor."""
    if config.skill_kind == "discrete":
        return Discrete(len(spec.controlled), config.skill_values)
    return Continuous(len(spec.controlled), config.skill_dim)
