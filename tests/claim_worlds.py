"""Worlds in which it can be seen whether methods do what their authors claim."""

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import JaxWorld
from dusdi.types import Factor, WorldSpec


class Unpictured(JaxWorld):
    """A world whose observation is its state, of which nobody needs pictures."""

    def observe(self, state):
        return state

    def render(self, state):
        return np.zeros((16, 16, 3), np.uint8)


class Maze(Unpictured):
    """A point that moves by up to 0.15 a step through a corridor folded into five columns.

    Columns are 1 wide and 2 high. The walls between them leave gaps of height 1, at the top and at
    the bottom by turns. Episodes start at the bottom of the first column.
    """

    SIZE = np.array([5.0, 2.0], np.float32)
    spec = WorldSpec(
        "maze",
        {},
        observation_size=2,
        action_size=2,
        factors=(Factor("place", (0, 1)),),
        episode_length=100,
    )

    def reset(self, key):
        return jax.random.uniform(key, (2,), maxval=0.5)

    def step(self, state, action, key):
        after = jnp.clip(state + 0.15 * action, 0.0, self.SIZE - 1e-3)
        column, next_column = jnp.floor(state[0]), jnp.floor(after[0])
        wall = jnp.maximum(column, next_column)  # the first one is number 1
        is_open = jnp.where(wall % 2 == 1, after[1] > 1, after[1] < 1)
        passes = is_open | (column == next_column)
        return jnp.stack([jnp.where(passes, after[0], state[0]), after[1]])


class Workshop(Unpictured):
    """A hand in a room, and a lever that the third action moves while the hand is at it.

    Both move by up to 0.15 a step. The hand starts in the corner that is farthest from the lever.
    """

    LEVER = np.array([0.6, 0.6], np.float32)
    spec = WorldSpec(
        "workshop",
        {},
        observation_size=3,
        action_size=3,
        factors=(Factor("hand", (0, 1)), Factor("lever", (2,))),
        episode_length=50,
    )

    def at_lever(self, state):
        """Whether hands in states [..., 3] are where the lever depends on the action."""
        return jnp.linalg.norm(state[..., :2] - self.LEVER, axis=-1) < 0.4

    def reset(self, key):
        return jax.random.uniform(key, (3,), minval=-1.0, maxval=-0.5)

    def step(self, state, action, key):
        moves = jnp.append(jnp.ones(2), self.at_lever(state))
        return jnp.clip(state + 0.15 * action * moves, -1.0, 1.0)


class BallAndBlock(Unpictured):
    """A ball that its action moves, and a block that stays unless it is pushed with more than 0.9.

    Both are on endless lines and move by up to 0.3 a step.
    """

    spec = WorldSpec(
        "ball-and-block",
        {},
        observation_size=2,
        action_size=2,
        factors=(Factor("ball", (0,)), Factor("block", (1,))),
        episode_length=25,
    )

    def reset(self, key):
        return 0.1 * jax.random.normal(key, (2,))

    def step(self, state, action, key):
        is_enough = jnp.array([True, jnp.abs(action[1]) > 0.9])
        return state + 0.3 * action * is_enough
