"""Tasks in 2D Gunner: be where the target is, aim at it, and have ammo to shoot with."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import TaskPresets, World
from dusdi.envs.canvas import fade
from dusdi.envs.gunner import ORANGE, PICK_UP, TARGETS, Gunner2D, find_hit
from dusdi.tasks.base import JaxTask, train_for, world_or_default

RANGE = 3.0  # how near to a target a shot must be fired
UP = 2  # targets that are up at a time
SHOT = 2 * PICK_UP  # ammo that a shot uses
STEPS = {"unlimited": 256_000, "limited": 512_000}  # environment steps to learn it for

#: The reward of a decision is known at its end, so PPO needs no long rollouts; it takes larger
#: steps than by default and needs no entropy bonus.
PRESETS: TaskPresets = {
    "fast": {
        "ppo": {
            "rollout_length": 2,
            "checkpoint_every": 128_000,
            "clip": 0.3,
            "entropy_weight": 0.0,
        },
        "sac": {
            "num_envs": 64,
            "steps_per_update": 64,
            "log_every": 64_000,
            "checkpoint_every": 128_000,
        },
    }
}


class Shooting(JaxTask):
    """Two of the four targets are up in each window; a shot at its end should hit one of them.

    The shot scores 1 if it hits from near by. With limited ammo, a shot uses some, and none is
    fired without; an episode starts without any.
    """

    def __init__(self, limited: bool, world: World | None = None):
        self._limited = limited
        name = "limited" if limited else "unlimited"
        super().__init__(
            name,
            world_or_default(world, Gunner2D),
            channels=["score"],
            causal=np.array([[True, limited, True]]),  # position, ammo, aim
            variables=[f"target {i} is up" for i in range(len(TARGETS))],
        )
        self.task_presets = train_for(STEPS[name], PRESETS)

    @property
    def about(self):
        ammo = "each shot uses ammo" if self._limited else "ammo is unlimited"
        return (
            f"{UP} of {len(TARGETS)} targets are up in each window; a shot at its end should hit "
            f"one of them; {ammo}."
        )

    def reset_variables(self, key, world):
        return self._draw_targets(key)

    def _draw_targets(self, key):
        return jax.random.permutation(key, len(TARGETS)) < UP

    def score(self, variables, world, window_ends):
        near = jnp.linalg.norm(world.position - TARGETS, axis=1) < RANGE
        aimed_at = jnp.arange(len(TARGETS)) == find_hit(world.position, world.aim)
        hit = jnp.any(variables & near & aimed_at)
        reward = (hit & self._fires(world, window_ends)).astype(jnp.float32)
        return variables, reward[None]

    def _fires(self, world, window_ends):
        """Whether a shot is fired, bool []."""
        return window_ends & (world.ammo >= SHOT - 1e-6) if self._limited else window_ends

    def update_world(self, world, window_ends):
        used = SHOT * self._fires(world, window_ends) if self._limited else 0.0
        return world._replace(ammo=jnp.maximum(world.ammo - used, 0.0))

    def resample(self, variables, key):
        return self._draw_targets(key)

    def observe_variables(self, variables):
        return variables.astype(jnp.float32)

    def expert_skill(self, variables, world):
        """Goes to the corner of the nearest target that is up, and reaches for the opposite one.

        From there, the depot is on the way of the arm.
        """
        distance = jnp.linalg.norm(world.position - TARGETS, axis=1)
        target = jnp.argmin(jnp.where(variables, distance, jnp.inf))
        return jnp.stack([target, len(TARGETS) - 1 - target, target])

    def render(self, state):
        canvas = self.world.unwrapped.draw(self._unwrap(state.world))
        for target in TARGETS[np.asarray(state.variables)]:
            canvas.disc(target, RANGE, fade(ORANGE, 0.08), fade(ORANGE, 0.7), 2)
        return canvas.image()
