"""What a downstream task is: a world with something at stake, and a few more observations that say what.

A task is itself a world, so whatever steps, renders or evaluates worlds does the same with tasks. It puts its own variables
and the time behind the world's observation, and pays in one or more channels; its causal matrix says which skill components
each of them can depend on.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import EnvState, JaxWorld
from dusdi.types import Factor

WINDOW = 50  # steps between two changes of a task's variables, as long as the paper's skills

Variables = Any  # a pytree, different in each task


class TaskState(NamedTuple):
    """Where a task stands.

    Attributes:
      world: the world's own state.
      variables: the task's.
      age: [] int32, steps since the episode began.
      reward: [K], what the step into this state earned.
    """

    world: EnvState
    variables: Variables
    age: jax.Array
    reward: jax.Array


class Task(JaxWorld):
    """A task in a world written in JAX.

    Attributes:
      world: the world it is set in.
      causal: bool [K, C], whether a channel can depend on a skill component.
      best: a hand-written choice of skills, observations [n, D] -> [n, C] of the world's oracle, that solves it.
    """

    world: Any

    def __init__(self, name: str, world: JaxWorld, channels: Sequence[str], causal: np.ndarray, variables: Sequence[str]):
        size = world.spec.observation_size
        told = Factor("task", tuple(range(size, size + len(variables) + 1)), controlled=False)
        self.world, self.causal = world, np.asarray(causal, bool)
        self.spec = dataclasses.replace(
            world.spec,
            name=f"{world.spec.name}/{name}",
            observation_size=size + len(variables) + 1,
            factors=(*world.spec.factors, told),
            channels=tuple(channels),
        )

    # --- what each task says ---

    @abc.abstractmethod
    def begin(self, key: jax.Array, world: EnvState) -> tuple[Variables, EnvState]:
        """The variables an episode starts with, and the world's state, which it may change."""

    @abc.abstractmethod
    def judge(self, variables: Variables, world: EnvState, last: jax.Array) -> tuple[Variables, EnvState, jax.Array]:
        """After each step, which may be the `last` of a window: variables, the world, which it may change, and the reward [K]."""

    @abc.abstractmethod
    def turn(self, variables: Variables, key: jax.Array) -> Variables:
        """The variables after each `WINDOW` steps."""

    @abc.abstractmethod
    def tell(self, variables: Variables) -> jax.Array:
        """The variables as the policy sees them, [V]."""

    @abc.abstractmethod
    def best(self, observation: np.ndarray) -> np.ndarray:
        """The skills of the world's oracle that solve the task, [n, C]."""

    @abc.abstractmethod
    def render(self, state: TaskState) -> np.ndarray:
        """A picture of a state, uint8 [height, width, 3]."""

    # --- what all tasks share ---

    def solve(self, observation: np.ndarray) -> np.ndarray:
        """Actions [n, A] of the hand-written solution, whose return is a ceiling."""
        assert self.world.oracle is not None
        return self.world.oracle(observation[:, : self.world.spec.observation_size], self.best(observation))

    def told(self, observation: np.ndarray) -> np.ndarray:
        """The task's variables in observations [n, D], [n, V]."""
        return observation[:, self.world.spec.observation_size : -1]

    def reset(self, key):
        world_key, task_key = jax.random.split(key)
        variables, world = self.begin(task_key, self.world.reset(world_key))
        return TaskState(world, variables, jnp.int32(0), jnp.zeros(len(self.spec.channels)))

    def step(self, state, action, key):
        world_key, task_key = jax.random.split(key)
        age = state.age + 1
        last = age % WINDOW == 0
        variables, world, reward = self.judge(state.variables, self.world.step(state.world, action, world_key), last)
        variables = jax.tree.map(lambda new, old: jnp.where(last, new, old), self.turn(variables, task_key), variables)
        return TaskState(world, variables, age, reward)

    def observe(self, state):
        time = (state.age / WINDOW)[None]
        return jnp.concatenate([self.world.observe(state.world), self.tell(state.variables), time])

    def reward(self, state):
        return state.reward
