"""Tasks in DMC-Walker: run, with dm_control's reward, and be where a goal is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import HostWorld, TaskPresets, World
from dusdi.envs.walker import Walker
from dusdi.tasks.base import HostTask, train_for, world_or_default

STAND_HEIGHT = 1.2  # metres; dm_control's
RUN_SPEED = 8.0  # metres per second; dm_control's
GOAL_WINDOWS = 4  # windows, of 1.25 s each, between two goals
GOAL_RANGE = 2.0  # metres from a goal to the next at most, and from the start to the first
FULL_REWARD = 0.3  # metres from the goal within which the reward is 1
NO_REWARD = 2.0  # metres from the goal beyond which it is 0

_ON_THE_HOST: Mapping[str, Any] = HostWorld.task_presets["fast"]
#: A gait takes long to learn, and flat soft actor-critic needs networks and updates for it.
PRESETS: TaskPresets = train_for(
    1_024_000,
    {
        "fast": {
            **_ON_THE_HOST,
            "sac": {
                **_ON_THE_HOST["sac"],
                "actor_hidden": (256, 256),
                "critic_hidden": (256, 256),
                "steps_per_update": 16,
            },
        }
    },
)


class Run(HostTask):
    """dm_control's `run`: stand, and move forward as fast as 8 m/s; at most 1 per step."""

    task_presets = PRESETS

    def __init__(self, world: World | None = None):
        world = world_or_default(world, Walker)
        super().__init__(
            "run",
            world,
            channels=["run"],
            causal=np.ones((1, len(world.spec.controlled))),
            variables=[],
        )

    def reset_variables(self, key, world):
        return ()

    def score(self, variables, world, window_ends):
        # dm_control's tolerances: a Gaussian that is 0.1 at the margin, a line that is 0.5 there.
        below = jnp.maximum(STAND_HEIGHT - world.height, 0.0) / (STAND_HEIGHT / 2)
        standing = jnp.exp(jnp.log(0.1) * below**2)
        upright = (1 + world.upright) / 2
        slow = jnp.maximum(RUN_SPEED - world.centre_speed, 0.0) / (RUN_SPEED / 2)
        moving = jnp.maximum(1 - 0.5 * slow, 0.0)
        reward = (3 * standing + upright) / 4 * (5 * moving + 1) / 6
        return variables, reward[None]

    def resample(self, variables, key):
        return variables

    def observe_variables(self, variables):
        return jnp.zeros(0)


class GoalVariables(NamedTuple):
    """A goal on the line.

    Attributes:
      place: where it is, [] metres.
      distance: how far ahead of the walker it is, [] metres.
      windows: how many windows it has been up, [].
    """

    place: jax.Array
    distance: jax.Array
    windows: jax.Array


class Goal(HostTask):
    """Be near a goal on the line, which changes every five seconds; at most 1 per step."""

    task_presets = PRESETS

    def __init__(self, world: World | None = None):
        world = world_or_default(world, Walker)
        super().__init__(
            "goal",
            world,
            channels=["near the goal"],
            causal=np.ones((1, len(world.spec.controlled))),
            variables=["goal", "goal from here"],
        )

    def reset_variables(self, key, world):
        return self._draw_goal(key, previous=world.x, here=world.x)

    def _draw_goal(self, key, previous, here):
        place = previous + jax.random.uniform(key, minval=-GOAL_RANGE, maxval=GOAL_RANGE)
        return GoalVariables(place, place - here, jnp.int32(0))

    def score(self, variables, world, window_ends):
        distance = variables.place - world.x
        beyond = (jnp.abs(distance) - FULL_REWARD) / (NO_REWARD - FULL_REWARD)
        return variables._replace(distance=distance), jnp.clip(1 - beyond, 0.0, 1.0)[None]

    def resample(self, variables, key):
        here = variables.place - variables.distance
        fresh = self._draw_goal(key, variables.place, here)
        same = variables._replace(windows=variables.windows + 1)
        expired = same.windows >= GOAL_WINDOWS
        return jax.tree.map(lambda new, old: jnp.where(expired, new, old), fresh, same)

    def observe_variables(self, variables):
        return jnp.stack([variables.place, variables.distance])

    def label(self, variables):
        place = float(variables.place)
        return f"goal at {place:.1f} m, {float(variables.distance):+.1f} m from here"
