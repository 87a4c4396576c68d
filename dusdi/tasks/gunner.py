"""Tasks in 2D Gunner: be where the target is, aim at it, and have something to shoot with."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.canvas import fade
from dusdi.envs.gunner import ORANGE, PICK_UP, TARGETS, Gunner2D, find_hit
from dusdi.tasks.base import Task

RANGE = 2.5  # how near to the target a shot must be fired
SHOT = PICK_UP  # ammo that a shot uses: what an arm picks up in a step


class Shooting(Task):
    """One of the four targets is up, another in each window: 1 for each step with a shot that hits it from near by.

    With limited ammo, each such shot uses up some, and none is fired without; an episode starts without any.
    """

    def __init__(self, limited: bool):
        self._limited = limited
        name = "limited" if limited else "unlimited"
        components = np.array([[True, limited, True]])  # position, ammo, aim
        super().__init__(name, Gunner2D(), ["score"], components, [f"target {i}" for i in range(len(TARGETS))])

    def begin(self, key, world):
        return self._draw_target(key), world

    def _draw_target(self, key):
        return jax.random.randint(key, (), 0, len(TARGETS))

    def judge(self, variables, world):
        near = jnp.linalg.norm(world.position - jnp.asarray(TARGETS)[variables]) < RANGE
        hit = near & (find_hit(world.position, world.aim) == variables)
        if self._limited:
            hit &= world.ammo >= SHOT - 1e-6
            world = world._replace(ammo=jnp.maximum(world.ammo - SHOT * hit, 0.0))
        return variables, world, hit.astype(jnp.float32)[None]

    def turn(self, variables, key):
        return self._draw_target(key)

    def tell(self, variables):
        return jax.nn.one_hot(variables, len(TARGETS))

    def best(self, observation):
        """Stands in the target's corner and reaches for the depot that lies towards the opposite one."""
        target = self.told(observation).argmax(-1)
        return np.stack([target, len(TARGETS) - 1 - target, target], axis=1)

    def render(self, state):
        canvas = self.world.draw(state.world)
        canvas.disc(TARGETS[int(state.variables)], RANGE, fade(ORANGE, 0.08), fade(ORANGE, 0.7), 2)
        return canvas.image()
