"""Tasks in Multi-Particle: which agents should be at their stations, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import EXPERT_VALUES, TaskPresets, World
from dusdi.envs.canvas import INK, fade
from dusdi.envs.particle import MultiParticle, ParticleState
from dusdi.errors import UsageError
from dusdi.tasks.base import JaxTask, train_for, world_or_default

REACH = 0.6  # an agent nearer to its station than this interacts with it
#: The stations that count in food-poison.
LISTED = {"easy": (0, 2), "medium": (0, 2, 4, 6, 9), "hard": (0, 1, 2, 3, 4, 6, 7, 9)}
#: The number of instructions in sequential.
LENGTH = {"easy": 2, "medium": 5, "hard": 8}
#: All agents learn all of these tasks for as many environment steps.
PRESETS: TaskPresets = train_for(
    4_096_000,
    {
        "fast": {
            "ppo": {"log_every": 128_000},
            "sac": {
                "num_envs": 256,
                "steps_per_update": 64,
                "log_every": 128_000,
                "discount": 0.95,
                "target_entropy": 0.0,
            },
        }
    },
)
PENALTY = 0.1  # of an agent that does not follow the instructions, per step
PRIZE = 10.0  # per step after all instructions are fulfilled
NEAR = 0  # the skill of the world's expert that stays at the station
FAR = EXPERT_VALUES - 1  # the one that stays as far away as possible

GREEN = "#3ca951"
RED = "#d64550"


def interacting(world: ParticleState) -> jax.Array:
    """Which agents are at their stations, bool [n]."""
    return jnp.linalg.norm(world.position - world.station, axis=1) < REACH


def check_stations(name: str, stations: Sequence[int], agents: int) -> None:
    """Raises a `UsageError` if a task is about a station that a world does not have."""
    if agents <= max(stations):
        raise UsageError(
            f"{name} is about station {max(stations)}, but there are {agents}; try agents=10"
        )


class FoodPoison(JaxTask):
    """Each listed station offers food or poison, drawn again in each window.

    The reward is 1 for an agent that is at food or away from poison, else -1.
    """

    task_presets = PRESETS

    def __init__(
        self, name: str, listed: Sequence[int], world: World | None = None, **options: Any
    ):
        """`options` are the length of windows and episodes, see `Task`."""
        world = world_or_default(world, MultiParticle)
        self._agents = world.unwrapped.agents  # type: ignore[attr-defined]
        self._listed = np.array(listed)
        check_stations(name, listed, self._agents)
        super().__init__(
            name,
            world,
            channels=[f"station {i}" for i in self._listed],
            causal=np.eye(self._agents)[self._listed],
            variables=[f"poison at {i}" for i in range(self._agents)],
            **options,
        )

    @property
    def about(self):
        return (
            f"{len(self._listed)} of {self._agents} stations count, which offer food or poison, "
            "drawn again in each window: their agents should be at food and away from poison."
        )

    def reset_variables(self, key, world):
        return self._draw_poison(key)

    def _draw_poison(self, key):
        return jax.random.bernoulli(key, shape=(self._agents,))

    def score(self, variables, world, window_ends):
        right = interacting(world) != variables
        return variables, jnp.where(right, 1.0, -1.0)[self._listed]

    def resample(self, variables, key):
        return self._draw_poison(key)

    def observe_variables(self, variables):
        return variables.astype(jnp.float32)

    def expert_skill(self, variables, world):
        return jnp.where(variables, FAR, NEAR)

    def render(self, state):
        world = self._unwrap(state.world)
        canvas = self.world.unwrapped.draw(world)
        for i in self._listed:
            colour = RED if state.variables[i] else GREEN
            canvas.disc(world.station[i], REACH, edge=fade(colour, 0.6), width=2)
        return canvas.image()


class Progress(NamedTuple):
    """How many instructions are fulfilled.

    Attributes:
      order: [n], the stations in random order, of which the first few are the instructions.
      done: [], how many instructions are fulfilled.
      charge: [], steps of this window in which the current instruction was followed.
    """

    order: jax.Array
    done: jax.Array
    charge: jax.Array


class Sequential(JaxTask):
    """Agents interact with their stations one after the other, in a given order.

    Agents that are at their stations when they should not, or not when they should, are penalised
    until all instructions are fulfilled.
    """

    task_presets = PRESETS
    charge = 40  # more steps than this within a window fulfil an instruction

    def __init__(self, name: str, length: int, world: World | None = None, **options: Any):
        """`length` is the number of instructions; `options` are those of `FoodPoison`."""
        world = world_or_default(world, MultiParticle)
        self._agents = world.unwrapped.agents  # type: ignore[attr-defined]
        self._length = length
        if self._agents < self._length:
            raise UsageError(
                f"{name} instructs {self._length} agents, "
                f"but there are {self._agents}; try agents=10"
            )
        super().__init__(
            name,
            world,
            channels=[*(f"station {i}" for i in range(self._agents)), "all done"],
            causal=np.concatenate([np.eye(self._agents), np.ones((1, self._agents))]),
            variables=[f"now {i}" for i in range(self._agents)],
            **options,
        )

    @property
    def about(self):
        return (
            f"{self._length} of {self._agents} agents interact with their stations one after the "
            "other, in a given order."
        )

    def reset_variables(self, key, world):
        order = jax.random.permutation(key, self._agents)
        return Progress(order, done=jnp.int32(0), charge=jnp.int32(0))

    def score(self, variables, world, window_ends):
        busy = interacting(world)
        target = self._current(variables)
        finished = variables.done >= self._length
        charge = variables.charge + jnp.any(busy & target)
        penalty = jnp.where((busy != target) & ~finished, -PENALTY, 0.0)
        reward = jnp.append(penalty, jnp.where(finished, PRIZE, 0.0))
        return variables._replace(charge=charge), reward

    def _current(self, variables):
        """Which agent should be at its station now, bool [n]; none when all is done."""
        target = variables.order[jnp.minimum(variables.done, self._length - 1)]
        return (jnp.arange(self._agents) == target) & (variables.done < self._length)

    def resample(self, variables, key):
        del key
        return variables._replace(
            done=variables.done + (variables.charge > self.charge),
            charge=jnp.zeros_like(variables.charge),
        )

    def observe_variables(self, variables):
        return self._current(variables).astype(jnp.float32)

    def expert_skill(self, variables, world):
        return jnp.where(self._current(variables), NEAR, FAR)

    def render(self, state):
        world = self._unwrap(state.world)
        canvas = self.world.unwrapped.draw(world)
        for i in np.flatnonzero(np.asarray(self._current(state.variables))):
            canvas.disc(world.station[i], REACH, edge=fade(GREEN, 0.7), width=3)
        done = int(state.variables.done)
        colour = GREEN if done == self._length else INK
        canvas.text((-1.0, 1.08), f"{done} of {self._length} done", colour, 0.08, anchor="lm")
        return canvas.image()
