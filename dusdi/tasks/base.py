"""What a downstream task is: a world with something at stake, and a few more observations that say what.

A task is itself a world, so whatever steps, renders or evaluates worlds does the same with tasks. It puts its own variables
and the time behind the world's observation, and pays in one or more channels; its causal matrix says which skill components
each of them can depend on. What a task says is written in JAX, wherever its world is stepped.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import EnvState, HostWorld, JaxWorld, VectorWorld, World, select
from dusdi.envs.canvas import caption
from dusdi.types import Factor

WINDOW = 50  # steps between two changes of a task's variables, as long as the paper's skills

Variables = Any  # a pytree, different in each task


class TaskState(NamedTuple):
    """Where a task stands.

    Attributes:
      world: the world's own state, or all that a task in a world on the host knows of it: its observation.
      variables: the task's.
      age: [] int32, steps since the episode began.
      reward: [K], what the step into this state earned.
    """

    world: EnvState
    variables: Variables
    age: jax.Array
    reward: jax.Array


class Task(World):
    """A task in a world. `JaxTask` and `HostTask` say how it is stepped, each task what is at stake.

    Attributes:
      world: the world it is set in.
      causal: bool [K, C], whether a channel can depend on a skill component.
    """

    world: Any

    def __init__(
        self,
        name: str,
        world: World,
        channels: Sequence[str],
        causal: np.ndarray,
        variables: Sequence[str],
    ):
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
    def judge(
        self, variables: Variables, world: EnvState, last: jax.Array
    ) -> tuple[Variables, EnvState, jax.Array]:
        """After each step, which may be the `last` of a window: variables, the world, which it may change, and the reward [K]."""

    @abc.abstractmethod
    def turn(self, variables: Variables, key: jax.Array) -> Variables:
        """The variables after each `WINDOW` steps."""

    @abc.abstractmethod
    def tell(self, variables: Variables) -> jax.Array:
        """The variables as the policy sees them, [V]."""

    def best(self, observation: np.ndarray) -> np.ndarray:
        """The skills of the world's oracle that solve the task, [n, C]."""
        raise NotImplementedError

    # --- what all tasks share ---

    def solve(self, observation: np.ndarray) -> np.ndarray:
        """Actions [n, A] of the hand-written solution, whose return is a ceiling; only where the world has an oracle."""
        assert self.world.oracle is not None
        return self.world.oracle(
            observation[:, : self.world.spec.observation_size], self.best(observation)
        )

    def learn_for(self, steps: int) -> None:
        """Has agents of preset `fast` learn the task for so many environment steps."""
        wishes = self.task_presets.get("fast", {})
        self.task_presets = {
            "fast": {agent: {**wishes.get(agent, {}), "steps": steps} for agent in ("ppo", "sac")}
        }

    def told(self, observation: np.ndarray) -> np.ndarray:
        """The task's variables in observations [n, D], [n, V]."""
        return observation[:, self.world.spec.observation_size : -1]

    def choose_view(self, view: str) -> None:
        self.world.choose_view(view)

    def check_installed(self) -> None:
        self.world.check_installed()

    def start(self, key: jax.Array, world: EnvState) -> TaskState:
        """Where the task stands when an episode begins."""
        variables, world = self.begin(key, world)
        return TaskState(world, variables, jnp.int32(0), jnp.zeros(len(self.spec.channels)))

    def move_on(self, state: TaskState, world: EnvState, key: jax.Array) -> TaskState:
        """Where the task stands after a step of the world."""
        age = state.age + 1
        last = age % WINDOW == 0
        variables, world, reward = self.judge(state.variables, world, last)
        variables = jax.tree.map(
            lambda new, old: jnp.where(last, new, old), self.turn(variables, key), variables
        )
        return TaskState(world, variables, age, reward)

    def extend(self, observation: jax.Array, state: TaskState) -> jax.Array:
        """The world's observation with the task's behind it."""
        return jnp.concatenate(
            [observation, self.tell(state.variables), (state.age / WINDOW)[None]]
        )


class JaxTask(Task, JaxWorld):
    """A task in a world written in JAX."""

    @abc.abstractmethod
    def render(self, state: TaskState) -> np.ndarray:
        """A picture of a state, uint8 [height, width, 3]."""

    def reset(self, key):
        world_key, task_key = jax.random.split(key)
        return self.start(task_key, self.world.reset(world_key))

    def step(self, state, action, key):
        world_key, task_key = jax.random.split(key)
        return self.move_on(state, self.world.step(state.world, action, world_key), task_key)

    def observe(self, state):
        return self.extend(self.world.observe(state.world), state)

    def reward(self, state):
        return state.reward


class HostTask(Task, HostWorld):
    """A task in a world on the host. It sees the world's observation, can't change the world, and is compiled by itself."""

    def words(self, variables: Variables) -> str:
        """The variables in words, to be written into pictures."""
        return ""

    def vector(self, count: int) -> VectorWorld:
        return _HostTasks(self, self.world.vector(count), count)

    def vector_with_pictures(self, count: int) -> VectorWorld:
        return _HostTasks(self, self.world.vector_with_pictures(count), count)


class _HostTasks(VectorWorld):
    """Copies of a `HostTask`: the world's copies step, then the task looks at all of them in one compiled call."""

    def __init__(self, task: HostTask, worlds: VectorWorld, count: int):
        self._task, self._worlds, self._count = task, worlds, count
        self._key = jax.random.PRNGKey(
            np.random.SeedSequence().generate_state(1)[0]
        )  # until a reset with a seed
        self._start, self._move_on = jax.jit(self._start_where), jax.jit(self._move_all_on)
        nothing = np.zeros((count, task.world.spec.observation_size), np.float32)
        self._state = jax.jit(jax.vmap(task.start))(jax.random.split(self._key, count), nothing)

    def _start_where(self, state, key, observation, mask):
        key, start_key = jax.random.split(key)
        fresh = jax.vmap(self._task.start)(jax.random.split(start_key, self._count), observation)
        state = select(mask, fresh, state)
        return state, key, jax.vmap(self._task.extend)(observation, state)

    def _move_all_on(self, state, key, observation):
        key, step_key = jax.random.split(key)
        state = jax.vmap(self._task.move_on)(
            state, observation, jax.random.split(step_key, self._count)
        )
        return state, key, jax.vmap(self._task.extend)(observation, state)

    def reset(self, seed=None, mask=None):
        if seed is not None:
            self._key = jax.random.PRNGKey(seed)
        mask = np.ones(self._count, bool) if mask is None else mask
        self._state, self._key, seen = self._start(
            self._state, self._key, self._worlds.reset(seed, mask), mask
        )
        return np.array(seen)

    def step(self, actions):
        observation, terminated, truncated = self._worlds.step(actions)
        self._state, self._key, seen = self._move_on(self._state, self._key, observation)
        return np.array(seen), terminated, truncated

    def rewards(self):
        return np.asarray(self._state.reward)

    def render(self, index=0):
        variables = jax.tree.map(lambda x: np.asarray(x[index]), self._state.variables)
        return caption(self._worlds.render(index), self._task.words(variables))

    def close(self):
        self._worlds.close()
