"""Tasks in 2D Gunner: be where the target is, aim at it, and have something to shoot with."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.canvas import fade
from dusdi.envs.gunner import ORANGE, PICK_UP, TARGETS, Gunner2D, find_hit
from dusdi.tasks.base import JaxTask

RANGE = 3.0  # how near to a target a shot must be fired
UP = 2  # targets that are up at a time
SHOT = 2 * PICK_UP  # ammo that a shot uses


class Shooting(JaxTask):
    """Two of the four targets are up, others in each window; a shot at its end scores 1 if it hits one of them from near by.

    With limited ammo, a shot uses up some, and none is fired without; an episode starts without any.
    """

    #: What a decision earns is known at its end, so that learning need not wait for long rollouts, and may take big steps without
    #: being kept at random (docs/experiments.md). A flat policy has few copies of the world, which see four episodes each.
    task_presets = {
        "fast": {
            "ppo": {"steps": 256_000, "rollout_length": 2, "checkpoint_every": 128_000, "clip": 0.3, "entropy_weight": 0.0},
            "sac": {
                "steps": 256_000, "num_envs": 64, "steps_per_update": 64, "log_every": 64_000, "checkpoint_every": 128_000,
            },
        }
    }  # fmt: skip

    def __init__(self, limited: bool):
        self._limited = limited
        name = "limited" if limited else "unlimited"
        components = np.array([[True, limited, True]])  # position, ammo, aim
        super().__init__(
            name,
            Gunner2D(),
            ["score"],
            components,
            [f"target {i} is up" for i in range(len(TARGETS))],
        )
        if limited:
            self.learn_for(512_000)

    def begin(self, key, world):
        return self._draw_targets(key), world

    def _draw_targets(self, key):
        return jax.random.permutation(key, len(TARGETS)) < UP

    def judge(self, variables, world, last):
        near = jnp.linalg.norm(world.position - TARGETS, axis=1) < RANGE
        hit = jnp.any(
            variables & near & (jnp.arange(len(TARGETS)) == find_hit(world.position, world.aim))
        )
        fired = last
        if self._limited:
            fired &= world.ammo >= SHOT - 1e-6
            world = world._replace(ammo=jnp.maximum(world.ammo - SHOT * fired, 0.0))
        return variables, world, (hit & fired).astype(jnp.float32)[None]

    def turn(self, variables, key):
        return self._draw_targets(key)

    def tell(self, variables):
        return variables.astype(jnp.float32)

    def best(self, observation):
        """Goes to the corner of the nearest target that is up, and reaches for the depot towards the opposite corner."""
        distance = np.linalg.norm(observation[:, None, :2] - TARGETS, axis=-1)
        target = np.where(self.told(observation) > 0.5, distance, np.inf).argmin(1)
        return np.stack([target, len(TARGETS) - 1 - target, target], axis=1)

    def render(self, state):
        canvas = self.world.draw(state.world)
        for target in TARGETS[np.asarray(state.variables)]:
            canvas.disc(target, RANGE, fade(ORANGE, 0.08), fade(ORANGE, 0.7), 2)
        return canvas.image()
