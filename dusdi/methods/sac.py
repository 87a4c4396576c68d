"""No skills at all: soft actor-critic on the reward of a task, which skills are compared with."""

from __future__ import annotations

import dataclasses

from dusdi.errors import UsageError
from dusdi.methods.base import Method, MethodSettings
from dusdi.presets import PLAIN_SAC
from dusdi.skill_space import SkillSpace


@dataclasses.dataclass(frozen=True)
class FlatSettings(MethodSettings):
    """There is nothing to set besides soft actor-critic itself."""


class Flat(Method):
    """The world's own reward channels; nothing is learned besides the policy."""

    name = "sac"
    Settings = FlatSettings
    grid = {"discount": (0.95, 0.99), "target_entropy": (-0.5, 0.0)}
    used_by = "fine-tuning"
    learns_task = True
    experiments = ("fig4",)
    presets = {
        "paper": dict(discount=0.99),
        "fast": dict(
            PLAIN_SAC,
            steps=4_096_000,
            log_every=128_000,
            checkpoint_every=2_048_000,
            episode_length=0,
        ),
        "debug": dict(steps=6_400, log_every=3_200, checkpoint_every=3_200),
    }

    def __init__(self, spec, settings):
        if not spec.channels:
            raise UsageError(
                f"{spec.name!r} pays no reward to learn from; name a method that discovers skills, "
                "or learn a task without skills: dusdi downstream scratch TASK"
            )
        self.skill_space = SkillSpace(())
        self.channels = spec.channels

    def init(self, key):
        del key
        return ()

    def update(self, state, key, batch, step):
        del key, batch, step
        return state, {}

    def reward(self, state, key, batch, step):
        del state, key, step
        return batch.reward

    def headline(self, row):
        return {"return": row["return"]}
