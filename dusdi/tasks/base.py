"""What a downstream task is: a world with a reward, and a few more observation entries.

A task is itself a world, so whatever steps, renders or evaluates worlds does the same with tasks.
It appends its own variables and the phase of the current window to the world's observation, and
gives a reward in one or more channels; its causal matrix says on which skill components each of
them can depend. Time limits are not observed: values bootstrap through them.

Rewards read the state of the unwrapped world and never its observation, so that a task is the same
in a wrapped world. They are written in JAX, also for worlds that are stepped on the host.
"""

from __future__ import annotations

import abc
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import EnvState, HostWorld, JaxWorld, TaskPresets, VectorWorld, World, select
from dusdi.envs.canvas import caption
from dusdi.errors import UsageError
from dusdi.types import Array, Factor

WINDOW = 50  # steps of a window unless a task says otherwise, as long as the paper's skills

Variables = Any  # a pytree, different in each task


class TaskState(NamedTuple):
    """The state of a task.

    Attributes:
      world: the state of the world; for worlds on the host, a row of `VectorWorld.state`.
      variables: those of the task.
      age: [] int32, steps since the task's episode began.
      reward: [K], the reward of the step into this state.
    """

    world: EnvState
    variables: Variables
    age: jax.Array
    reward: jax.Array


class Task(World):
    """A task in a world; `JaxTask` and `HostTask` say how it is stepped.

    Attributes:
      world: the world it is set in.
      causal: bool [K, C], whether a channel can depend on a skill component.
      window: steps after which its variables may change.
      expert_skill: the skill [C] of the world's expert that solves the task, given the variables
        and the state of the unwrapped world; None if there is none.
    """

    world: Any
    expert_skill: Callable[[Variables, EnvState], jax.Array] | None = None

    def __init__(
        self,
        name: str,
        world: World,
        *,
        channels: Sequence[str],
        causal: np.ndarray,
        variables: Sequence[str],
        window: int = WINDOW,
        episode_length: int | None = None,
    ):
        """`variables` names the observation entries that the task adds besides the phase.

        Episodes are as long as the world's by default.
        """
        size = world.spec.observation_size
        added = range(size, size + len(variables) + 1)
        self.world = world
        self.causal = np.asarray(causal, bool)
        self.window = window
        self.spec = dataclasses.replace(
            world.spec,
            name=f"{world.spec.name}/{name}",
            observation_size=added.stop,
            factors=(*world.spec.factors, Factor("task", tuple(added), controlled=False)),
            channels=tuple(channels),
            episode_length=episode_length or world.spec.episode_length,
        )

    @property
    def about(self) -> str:
        """What it asks for, in a sentence: by default the first line of the class's docstring."""
        return (inspect.getdoc(type(self)) or self.spec.name).splitlines()[0]

    # --- what each task defines; `world` is the state of the unwrapped world ---

    @abc.abstractmethod
    def reset_variables(self, key: jax.Array, world: EnvState) -> Variables:
        """The variables that an episode starts with."""

    @abc.abstractmethod
    def score(
        self, variables: Variables, world: EnvState, window_ends: Array
    ) -> tuple[Variables, jax.Array]:
        """The variables and the reward [K] after a step, which may be the last of a window."""

    @abc.abstractmethod
    def resample(self, variables: Variables, key: jax.Array) -> Variables:
        """The variables of the next window."""

    @abc.abstractmethod
    def observe_variables(self, variables: Variables) -> jax.Array:
        """The variables as the policy observes them, [V]."""

    def label(self, variables: Variables) -> str:
        """The variables in words, to be written into images."""
        return ""

    # --- what all tasks share ---

    @property
    def has_expert(self) -> bool:
        """Whether there is a scripted solution, `expert_action`.

        A task that overrides the latter with one of its own overrides this, too.
        """
        return self.world.expert is not None and self.expert_skill is not None

    @abc.abstractmethod
    def expert_action(self, state: TaskState) -> Array:
        """The action [A] of the scripted solution; on the host, all have a leading [n]."""

    def choose_view(self, view: str) -> None:
        self.world.choose_view(view)

    def check_installed(self) -> None:
        self.world.check_installed()

    def save_parts(self, folder: Path) -> None:
        self.world.save_parts(folder)

    def _unwrap(self, world: EnvState) -> EnvState:
        """The state of the unwrapped world."""
        return world

    def start(self, key: jax.Array, world: EnvState) -> TaskState:
        """The state in which an episode begins."""
        variables = self.reset_variables(key, self._unwrap(world))
        return TaskState(world, variables, jnp.int32(0), jnp.zeros(len(self.spec.channels)))

    def advance(self, state: TaskState, world: EnvState, key: jax.Array) -> TaskState:
        """The state after a step of the world."""
        age = state.age + 1
        window_ends = age % self.window == 0
        variables, reward = self.score(state.variables, self._unwrap(world), window_ends)
        variables = jax.tree.map(
            lambda new, old: jnp.where(window_ends, new, old),
            self.resample(variables, key),
            variables,
        )
        return TaskState(world, variables, age, reward)

    def extend_observation(self, observation: jax.Array, state: TaskState) -> jax.Array:
        """The world's observation, followed by the variables and the phase of the window."""
        phase = (state.age % self.window) / self.window
        return jnp.concatenate([observation, self.observe_variables(state.variables), phase[None]])


class JaxTask(Task, JaxWorld):
    """A task in a world written in JAX."""

    def update_world(self, world: EnvState, window_ends: jax.Array) -> EnvState:
        """The state of the unwrapped world after a step was scored, if the task changes it."""
        return world

    def _unwrap(self, world):
        return self.world.unwrapped_state(world)

    def reset(self, key):
        world_key, task_key = jax.random.split(key)
        return self.start(task_key, self.world.reset(world_key))

    def step(self, state, action, key):
        world_key, task_key = jax.random.split(key)
        world = self.world.step(state.world, action, world_key)
        state = self.advance(state, world, task_key)
        updated = self.update_world(self._unwrap(world), state.age % self.window == 0)
        return state._replace(world=self.world.with_unwrapped_state(world, updated))

    def observe(self, state):
        return self.extend_observation(self.world.observe(state.world), state)

    def terminated(self, state):
        return self.world.terminated(state.world)

    def reward(self, state):
        return state.reward

    def expert_action(self, state):
        assert self.expert_skill is not None
        skill = self.expert_skill(state.variables, self._unwrap(state.world))
        return self.world.expert(state.world, skill)

    def render(self, state):
        return caption(self.world.render(state.world), self.label(state.variables))


class HostTask(Task, HostWorld):
    """A task in a world on the host; it can't change the state of the world."""

    def vector(self, num_envs: int) -> VectorWorld:
        return _HostTaskVector(self, self.world.vector(num_envs), num_envs)

    def vector_with_pictures(self, num_envs: int) -> VectorWorld:
        return _HostTaskVector(self, self.world.vector_with_pictures(num_envs), num_envs)

    @cached_property
    def _expert_skills(self) -> Callable[[Variables, EnvState], jax.Array]:
        assert self.expert_skill is not None
        return jax.jit(jax.vmap(self.expert_skill))

    def expert_action(self, state):
        skill = np.asarray(self._expert_skills(state.variables, state.world))
        return self.world.expert(state.world, skill)


class _HostTaskVector(VectorWorld):
    """The world's environments step, then the task is computed for all of them in one call."""

    def __init__(self, task: HostTask, worlds: VectorWorld, num_envs: int):
        self._task = task
        self._worlds = worlds
        self._num_envs = num_envs
        # Only used until a reset with a seed.
        self._key = jax.random.PRNGKey(np.random.SeedSequence().generate_state(1)[0])
        self._start = jax.jit(self._start_all)
        self._advance = jax.jit(self._advance_all)
        self._extend = jax.jit(jax.vmap(task.extend_observation))
        self._select = jax.jit(select)
        self._state: Any = None  # a `TaskState` after the first reset

    def _start_all(self, key, world):
        key, start_key = jax.random.split(key)
        return jax.vmap(self._task.start)(jax.random.split(start_key, self._num_envs), world), key

    def _advance_all(self, state, key, world, observation):
        key, step_key = jax.random.split(key)
        keys = jax.random.split(step_key, self._num_envs)
        state = jax.vmap(self._task.advance)(state, world, keys)
        return state, key, jax.vmap(self._task.extend_observation)(observation, state)

    def reset(self, seed=None, mask=None):
        if seed is not None:
            self._key = jax.random.PRNGKey(seed)
        observation = self._worlds.reset(seed, mask)
        fresh, self._key = self._start(self._key, self._worlds.state())
        everywhere = mask is None or self._state is None
        self._state = fresh if everywhere else self._select(mask, fresh, self._state)
        return np.array(self._extend(observation, self._state))

    def step(self, actions):
        observation, terminated, truncated = self._worlds.step(actions)
        self._state, self._key, observation = self._advance(
            self._state, self._key, self._worlds.state(), observation
        )
        return np.array(observation), terminated, truncated

    def rewards(self):
        return np.asarray(self._state.reward)

    def state(self):
        return self._state._replace(world=self._worlds.state())

    def render(self, index=0):
        variables = jax.tree.map(lambda x: np.asarray(x[index]), self._state.variables)
        return caption(self._worlds.render(index), self._task.label(variables))

    def close(self):
        self._worlds.close()


def world_or_default(world: World | None, kind: type[World]) -> World:
    """The world of a task, by default one of that kind; raises a `UsageError` if it is another."""
    if world is None:
        return kind()
    if not isinstance(world.unwrapped, kind):
        wanted = f"{kind.__name__} or in a wrapper around one"
        raise UsageError(f"the task is set in a {wanted}, not in {world.spec.name!r}")
    return world


def train_for(steps: int, presets: TaskPresets) -> TaskPresets:
    """Presets with which all agents of preset `fast` learn a task for so many environment steps."""
    fast: Mapping[str, Mapping[str, Any]] = presets.get("fast", {})
    agents = {agent: {**fast.get(agent, {}), "steps": steps} for agent in ("ppo", "sac")}
    return {**presets, "fast": agents}


def draw_other(key: jax.Array, previous: jax.Array, count: int) -> jax.Array:
    """One of `count` numbers, but not the previous one."""
    return (previous + jax.random.randint(key, (), 1, count)) % count
