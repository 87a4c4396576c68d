"""Tasks in 2D Gunner: be where the target is, aim at it, and have ammo to shoot with."""

from __future__ import annotations

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import TaskPresets, World
from dusdi.envs.canvas import fade
from dusdi.envs.gunner import (
    AIM_RATE,
    ARM_RATE,
    DEPOTS,
    HIT_TOLERANCE,
    MOVE_RATE,
    ORANGE,
    PICK_UP,
    PLANE,
    TARGETS,
    Gunner2D,
    angle_between,
    find_hit,
)
from dusdi.tasks.base import JaxTask, Variables, train_for, world_or_default

RANGE = 3.0  # how near to a target a shot must be fired
UP = 2  # of the four targets, those that are up at a time
SHOT = 2 * PICK_UP  # ammo that a shot uses

#: All agents learn all of these tasks for as many environment steps. The reward of a decision is
#: known at its end, so PPO needs no long rollouts; it takes larger steps than by default. A bonus
#: for entropy keeps it from settling before it has learned the first window, which comes once in
#: an episode and is the hardest, since there is no ammo yet.
PRESETS: TaskPresets = train_for(
    1_024_000,
    {
        "fast": {
            "ppo": {
                "rollout_length": 2,
                "log_every": 25_600,
                "checkpoint_every": 512_000,
                "clip": 0.3,
                "entropy_weight": 0.1,
            },
            "sac": {
                "num_envs": 64,
                "steps_per_update": 32,
                "log_every": 25_600,
                "checkpoint_every": 512_000,
                "discount": 0.95,  # chosen by `dusdi reproduce tuning`
            },
        }
    },
)


class GunnerTask(JaxTask):
    """A shot at the end of each window should hit, which scores 1.

    With limited ammo, a shot uses some, and none is fired without; an episode starts without any.
    """

    task_presets = PRESETS

    def __init__(self, name: str, limited: bool, world: World | None, variables: list[str]):
        self._limited = limited
        super().__init__(
            name,
            world_or_default(world, Gunner2D),
            channels=["score"],
            causal=np.array([[True, limited, True]]),  # position, ammo, aim
            variables=variables,
        )

    @property
    def ammo_rule(self) -> str:
        """What becomes of the ammo, in words."""
        return "each shot uses ammo" if self._limited else "ammo is unlimited"

    @abc.abstractmethod
    def draw_targets(self, key: jax.Array) -> Variables:
        """The targets of a window."""

    @abc.abstractmethod
    def hits(self, variables: Variables, world: Any) -> jax.Array:
        """Whether a shot would hit a target that is there from near by, bool []."""

    def reset_variables(self, key, world):
        return self.draw_targets(key)

    def resample(self, variables, key):
        return self.draw_targets(key)

    def score(self, variables, world, window_ends):
        hit = self.hits(variables, world) & self._fires(world, window_ends)
        return variables, hit.astype(jnp.float32)[None]

    def _fires(self, world, window_ends):
        """Whether a shot is fired, bool []."""
        return window_ends & (world.ammo >= SHOT - 1e-6) if self._limited else window_ends

    def update_world(self, world, window_ends):
        used = SHOT * self._fires(world, window_ends) if self._limited else 0.0
        return world._replace(ammo=jnp.maximum(world.ammo - used, 0.0))

    def observe_variables(self, variables):
        return variables.astype(jnp.float32)


class Shooting(GunnerTask):
    """Two of the four targets are up in each window; a shot at its end should hit one of them."""

    def __init__(self, limited: bool, world: World | None = None):
        variables = [f"target {i} is up" for i in range(len(TARGETS))]
        super().__init__("limited" if limited else "unlimited", limited, world, variables)

    @property
    def about(self):
        return (
            f"{UP} of {len(TARGETS)} targets are up in each window; a shot at its end should hit "
            f"one of them; {self.ammo_rule}."
        )

    def draw_targets(self, key):
        return jax.random.permutation(key, len(TARGETS)) < UP

    def hits(self, variables, world):
        near = jnp.linalg.norm(world.position - TARGETS, axis=1) < RANGE
        aimed_at = jnp.arange(len(TARGETS)) == find_hit(world.position, world.aim)
        return jnp.any(variables & near & aimed_at)

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


class ShootingAnywhere(GunnerTask):
    """A target appears anywhere in the plane in each window; a shot at its end should hit it."""

    def __init__(self, limited: bool, world: World | None = None):
        name = "limited-anywhere" if limited else "unlimited-anywhere"
        super().__init__(name, limited, world, ["target x", "target y"])

    @property
    def about(self):
        return (
            "A target appears anywhere in the plane in each window; a shot at its end should hit "
            f"it from near by; {self.ammo_rule}."
        )

    def draw_targets(self, key):
        return jax.random.uniform(key, (2,), maxval=PLANE)

    def hits(self, variables, world):
        offset = variables - world.position
        near = jnp.linalg.norm(offset) < RANGE
        return near & (angle_between(world.aim, bearing(offset)) < HIT_TOLERANCE)

    @property
    def has_expert(self):
        return True

    def expert_action(self, state):
        """Stands in the depot that is nearest to the target, with the arm drawn in, and aims.

        Every place of the plane is in range from there, and the tip of the arm picks up ammo.
        """
        world = self._unwrap(state.world)
        distance = jnp.linalg.norm(state.variables - DEPOTS, axis=1)
        goal = jnp.asarray(DEPOTS)[jnp.argmin(distance)]
        walk = jnp.clip((goal - world.position) / MOVE_RATE, -1.0, 1.0)
        aim = bearing(state.variables - (world.position + MOVE_RATE * walk))
        turn = (aim - world.aim) / AIM_RATE
        action = jnp.concatenate([walk, -world.arm / ARM_RATE, turn[None]])
        return jnp.clip(action, -1.0, 1.0)

    def render(self, state):
        target = np.asarray(state.variables)
        canvas = self.world.unwrapped.draw(self._unwrap(state.world))
        canvas.disc(target, RANGE, fade(ORANGE, 0.08), fade(ORANGE, 0.7), 2)
        canvas.disc(target, 0.15, ORANGE)
        return canvas.image()


def bearing(offset: jax.Array) -> jax.Array:
    """The direction of an offset [2], counter-clockwise from +x."""
    return jnp.arctan2(offset[1], offset[0])
