"""What a skill-discovery method is: three pure functions around a state, and the skills it wants.

The loop, SAC and replay know no method: they draw skills from `skill_space`, call `update` on a batch and
learn one Q function for each of the `channels` that `reward` returns.
"""

from __future__ import annotations

import abc
from typing import Any

import jax

from dusdi.config import Config
from dusdi.skills import SkillSpace
from dusdi.types import Metrics, Transition, WorldSpec

ObjectiveState = Any  # a pytree, different in each method


class Objective(abc.ABC):
    """A method of skill discovery for one world and config.

    Attributes:
      skill_space: the skills it learns.
      channels: the names of its reward channels, one Q function each.
      channel_components: for each channel, the skill component its reward is about (None: all of them).
      is_task: whether the reward is the world's, so that returns mean something.
    """

    is_task = False

    skill_space: SkillSpace
    channels: tuple[str, ...]
    channel_components: tuple[int | None, ...]

    @abc.abstractmethod
    def __init__(self, spec: WorldSpec, config: Config): ...

    @abc.abstractmethod
    def init(self, key: jax.Array) -> ObjectiveState:
        """The state before learning."""

    @abc.abstractmethod
    def update(
        self, state: ObjectiveState, key: jax.Array, batch: Transition, step: jax.Array
    ) -> tuple[ObjectiveState, Metrics]:
        """One step of learning on a batch; `step` counts environment steps."""

    @abc.abstractmethod
    def reward(self, state: ObjectiveState, batch: Transition, step: jax.Array) -> jax.Array:
        """The intrinsic reward of a batch, float32 [B, channels]."""
