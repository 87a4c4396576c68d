"""No skills at all: soft actor-critic on the reward of a task, the "vanilla RL" that skills are compared with."""

from __future__ import annotations

from dusdi.config import Config
from dusdi.errors import UsageError
from dusdi.objectives.base import Objective
from dusdi.skills import Discrete
from dusdi.types import WorldSpec


class Extrinsic(Objective):
    """The world's own reward channels; there are no skill components and nothing to learn besides the policy."""

    is_task = True

    def __init__(self, spec: WorldSpec, config: Config):
        if not spec.channels:
            raise UsageError(
                f"{spec.name!r} pays no reward to learn from; name a task, or a method that discovers skills"
            )
        self.skill_space = Discrete(0, config.skill_values)
        self.channels = spec.channels
        self.channel_components = (None,) * len(spec.channels)

    def init(self, key):
        return ()

    def update(self, state, key, batch, step):
        return state, {}

    def reward(self, state, batch, step):
        return batch.reward
