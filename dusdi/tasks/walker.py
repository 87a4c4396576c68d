"""Tasks in DMC-Walker: run, as dm_control pays for it, and be where a goal is."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.walker import CENTRE_SPEED, TORSO_XX, Walker, X, Z
from dusdi.tasks.base import HostTask

STAND_HEIGHT, RUN_SPEED = 1.2, 8.0  # dm_control's
GOAL_WINDOWS = 4  # windows, of 1.25 s each, between two goals
GOAL_RANGE = 2.0  # how far a goal is from the last one at most; the first is so far from the start
REACHED, SHAPED = 0.3, 2.0  # metres: full reward within the first, none beyond the second


class Run(HostTask):
    """dm_control's `run`: stand, and the faster forward the better, up to 8 m/s; at most 1 per step, 1,000 in all."""

    def __init__(self):
        super().__init__("run", Walker(), ["run"], np.ones((1, 2)), [])

    def begin(self, key, world):
        return (), world

    def judge(self, variables, world, last):
        below = jnp.maximum(STAND_HEIGHT - world[Z], 0.0) / (STAND_HEIGHT / 2)
        # dm_control's tolerances: a Gaussian that is 0.1 at the margin, and a line that is 0.5 there
        standing = jnp.exp(jnp.log(0.1) * below**2)
        upright = (1 + world[TORSO_XX]) / 2
        slow = jnp.maximum(RUN_SPEED - world[CENTRE_SPEED], 0.0) / (RUN_SPEED / 2)
        moving = jnp.maximum(1 - 0.5 * slow, 0.0)
        return variables, world, ((3 * standing + upright) / 4 * (5 * moving + 1) / 6)[None]

    def turn(self, variables, key):
        return variables

    def tell(self, variables):
        return jnp.zeros(0)


class Goals(NamedTuple):
    """Where to be, [] metres, how far that is, [], and how many windows the goal has been up, []."""

    place: jax.Array
    distance: jax.Array
    age: jax.Array


class Goal(HostTask):
    """Be near a goal on the line, of which a new one comes up every five seconds; at most 1 per step, 1,000 in all."""

    def __init__(self):
        super().__init__(
            "goal", Walker(), ["near the goal"], np.ones((1, 2)), ["goal", "goal from here"]
        )

    def begin(self, key, world):
        return self._next(Goals(world[X], jnp.float32(0), jnp.int32(0)), key, world[X]), world

    def _next(self, goals, key, here):
        place = goals.place + jax.random.uniform(key, minval=-GOAL_RANGE, maxval=GOAL_RANGE)
        return Goals(place, place - here, jnp.int32(0))

    def judge(self, variables, world, last):
        distance = variables.place - world[X]
        beyond = (jnp.abs(distance) - REACHED) / (SHAPED - REACHED)
        return variables._replace(distance=distance), world, jnp.clip(1 - beyond, 0.0, 1.0)[None]

    def turn(self, variables, key):
        waited = variables._replace(age=variables.age + 1)
        fresh = self._next(variables, key, variables.place - variables.distance)
        return jax.tree.map(
            lambda new, old: jnp.where(waited.age >= GOAL_WINDOWS, new, old), fresh, waited
        )

    def tell(self, variables):
        return jnp.stack([variables.place, variables.distance])

    def words(self, variables):
        return (
            f"goal at {float(variables.place):.1f} m, {float(variables.distance):+.1f} m from here"
        )
