"""Tasks in Multi-Particle: which agents should be at their stations, and when."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import ORACLE_VALUES
from dusdi.envs.canvas import INK, Canvas, fade
from dusdi.envs.particle import MultiParticle, ParticleState
from dusdi.errors import UsageError
from dusdi.tasks.base import JaxTask

REACH = 0.6  # an agent nearer to its station than this interacts with it
LISTED = {
    "easy": (0, 2),
    "medium": (0, 2, 4, 6, 9),
    "hard": (0, 1, 2, 3, 4, 6, 7, 9),
}  # stations that count in food-poison
LENGTH = {"easy": 2, "medium": 5, "hard": 8}  # instructions in sequential
STEPS = {
    "easy": 2_048_000,
    "medium": 3_072_000,
    "hard": 4_096_000,
}  # in which PPO over skills comes near to what is possible
CHARGE = 40  # more steps than this within a window fulfil an instruction
PENALTY, PRIZE = 0.1, 10.0
NEAR, FAR = 0, ORACLE_VALUES - 1  # skills of the world's oracle

GREEN, RED = "#3ca951", "#d64550"


def interacting(world: ParticleState) -> jax.Array:
    """Which agents are at their stations, bool [n]."""
    return jnp.linalg.norm(world.position - world.station, axis=1) < REACH


class FoodPoison(JaxTask):
    """Each listed station offers food or poison, drawn anew in each window: 1 for doing the right thing there, else -1."""

    def __init__(self, level: str, **options):
        world = MultiParticle(**options)
        agents = len(world.spec.controlled)
        self._listed = list(LISTED[level])
        if agents <= max(self._listed):
            raise UsageError(
                f"food-poison-{level} is about station {max(self._listed)}, but there are {agents}; try agents=10"
            )
        channels = [f"station {i}" for i in self._listed]
        poison = [f"poison at {i}" for i in range(agents)]
        super().__init__(
            f"food-poison-{level}", world, channels, np.eye(agents)[self._listed], poison
        )
        self.learn_for(STEPS[level])

    def begin(self, key, world):
        return self._draw_poison(key), world

    def _draw_poison(self, key):
        return jax.random.bernoulli(key, shape=(len(self.world.spec.controlled),))

    def judge(self, variables, world, last):
        right = interacting(world) != variables
        return variables, world, jnp.where(right, 1.0, -1.0)[jnp.array(self._listed)]

    def turn(self, variables, key):
        return self._draw_poison(key)

    def tell(self, variables):
        return variables.astype(jnp.float32)

    def best(self, observation):
        return np.where(self.told(observation) > 0.5, FAR, NEAR)

    def render(self, state):
        canvas = self.world.draw(state.world)
        for i in self._listed:
            canvas.disc(
                state.world.station[i],
                REACH,
                edge=fade(RED if state.variables[i] else GREEN, 0.6),
                width=2,
            )
        return canvas.image()


class Progress(NamedTuple):
    """How far the instructions are carried out.

    Attributes:
      order: [n], the stations in random order, of which the first few are the instructions.
      done: [], how many instructions are fulfilled.
      charge: [], steps of this window in which the current instruction was followed.
    """

    order: jax.Array
    done: jax.Array
    charge: jax.Array


class Sequential(JaxTask):
    """Agents interact with their stations one after the other, as instructed, and nobody else does meanwhile."""

    def __init__(self, level: str, **options):
        world = MultiParticle(**options)
        self._agents, self._length = len(world.spec.controlled), LENGTH[level]
        if self._agents < self._length:
            raise UsageError(
                f"sequential-{level} instructs {self._length} agents, but there are {self._agents}; try agents=10"
            )
        channels = [*(f"station {i}" for i in range(self._agents)), "all done"]
        causal = np.concatenate([np.eye(self._agents), np.ones((1, self._agents))])
        super().__init__(
            f"sequential-{level}",
            world,
            channels,
            causal,
            [f"now {i}" for i in range(self._agents)],
        )
        self.learn_for(STEPS[level])

    def begin(self, key, world):
        return Progress(
            jax.random.permutation(key, self._agents), jnp.int32(0), jnp.int32(0)
        ), world

    def judge(self, variables, world, last):
        busy, target = interacting(world), self.tell(variables) > 0.5
        finished = variables.done >= self._length
        charge = variables.charge + jnp.any(busy & target)
        penalty = jnp.where((busy != target) & ~finished, -PENALTY, 0.0)
        reward = jnp.append(penalty, jnp.where(finished, PRIZE, 0.0))
        return variables._replace(charge=charge), world, reward

    def turn(self, variables, key):
        del key
        return variables._replace(
            done=variables.done + (variables.charge > CHARGE),
            charge=jnp.zeros_like(variables.charge),
        )

    def tell(self, variables):
        target = variables.order[jnp.minimum(variables.done, self._length - 1)]
        return jax.nn.one_hot(target, self._agents) * (variables.done < self._length)

    def best(self, observation):
        return np.where(self.told(observation) > 0.5, NEAR, FAR)

    def render(self, state):
        canvas: Canvas = self.world.draw(state.world)
        for i in np.flatnonzero(np.asarray(self.tell(state.variables))):
            canvas.disc(state.world.station[i], REACH, edge=fade(GREEN, 0.7), width=3)
        done = int(state.variables.done)
        canvas.text(
            (-1.0, 1.08),
            f"{done} of {self._length} done",
            GREEN if done == self._length else INK,
            0.08,
            anchor="lm",
        )
        return canvas.image()
