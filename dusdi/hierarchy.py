"""Skills as actions: L steps of a task under a frozen skill policy are one step of the high-level policy.

An episode that ends in the middle of a skill earns nothing more until that skill is over; only then does the next one begin.
In JAX all of it is one compiled program; for tasks on the host, skills act in between the host's steps.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import EnvState, JaxWorld, World, select
from dusdi.errors import UsageError
from dusdi.policy import SkillParams, Skills
from dusdi.rollout import Step, check_finite, check_rewards
from dusdi.run import describe
from dusdi.tasks import Task
from dusdi.types import Array, difference


def check_setting(skills: Skills, task: World) -> None:
    """Raises a `UsageError` if the task pays nothing or is not set in the world of the skills."""
    ours, theirs = skills.spec, task.spec
    if not theirs.channels:
        raise UsageError(
            f"{theirs.name!r} is a world without reward, not a task; its tasks are called {theirs.name}/…"
        )
    setting = task.world.spec if isinstance(task, Task) else theirs
    # a task's observation begins with the world's
    same_start = (
        theirs.factors[: len(ours.factors)] == ours.factors
        and theirs.observation_size >= ours.observation_size
    )
    if not same_start or ours.action_size != theirs.action_size:
        raise UsageError(
            f"the skills ({skills.space}) are for {describe(ours)}; "
            f"the task {theirs.name!r} is not set in that world but in one with "
            f"{difference(setting, ours)}"
        )
    if changed := difference(ours, dataclasses.replace(setting, channels=ours.channels)):
        warnings.warn(f"the skills were learned in another world, one with {changed}", stacklevel=3)


def check_fit(skills: Skills, task: World) -> None:
    """Raises a `UsageError` unless these are skills to choose from in that task."""
    check_setting(skills, task)
    if not skills.space.components:
        raise UsageError(
            f"the run of {skills.spec.name!r} holds a flat policy and no skills; agent sac fine-tunes it"
        )


class GraphHierarchy:
    """n copies of a task in JAX by pure functions; the state is (task states, episode ages)."""

    def __init__(self, task: JaxWorld, skills: Skills, count: int, *, autoreset: bool = True):
        check_fit(skills, task)
        self._task, self._skills, self._count, self._autoreset = task, skills, count, autoreset
        self._length, self._size = skills.config.skill_length, skills.spec.observation_size

    def init(self, key: jax.Array) -> tuple[EnvState, jax.Array]:
        state = jax.vmap(self._task.reset)(jax.random.split(key, self._count))
        return (state, jnp.zeros(self._count, jnp.int32)), jax.vmap(self._task.observe)(state)

    def step(
        self, params: SkillParams, carry: EnvState, key: jax.Array, skill: jax.Array
    ) -> tuple[EnvState, Step]:
        """L steps under one skill each; the reward [n, K] is the mean over them."""
        reset_key, *keys = jax.random.split(key, self._length + 1)
        observe, end = jax.vmap(self._task.observe), self._task.spec.episode_length

        def low_level(loop, key):
            state, age, earned = loop
            action = self._skills.mean_action(params, observe(state)[:, : self._size], skill)
            after = jax.vmap(self._task.step)(state, action, jax.random.split(key, self._count))
            going = age < end
            earned += jnp.where(going[:, None], jax.vmap(self._task.reward)(after), 0.0)
            return (select(going, after, state), age + going, earned), None

        earned = jnp.zeros((self._count, len(self._task.spec.channels)))
        (state, age, earned), _ = jax.lax.scan(low_level, (*carry, earned), jnp.stack(keys))
        successor, over = observe(state), age >= end
        terminated = jnp.zeros(self._count, bool)
        if not self._autoreset:
            return (state, age), Step(successor, terminated, over, successor, earned / self._length)
        fresh = jax.vmap(self._task.reset)(jax.random.split(reset_key, self._count))
        state = select(over, fresh, state)
        step = Step(successor, terminated, over, observe(state), earned / self._length)
        return (state, jnp.where(over, 0, age)), step


class Hierarchy:
    """n copies of any task, driven from the host with NumPy arrays; without autoreset, what is over stays as it is."""

    def __init__(
        self,
        task: World,
        skills: Skills,
        count: int,
        *,
        autoreset: bool = True,
        pictures: bool = False,
    ):
        """With `pictures`, `render` draws copies, which some worlds want to know beforehand."""
        check_fit(skills, task)
        self.task, self._skills, self._count, self._autoreset = task, skills, count, autoreset
        self._length, self._size = skills.config.skill_length, skills.spec.observation_size
        self._graph = (
            GraphHierarchy(task, skills, count, autoreset=autoreset)
            if isinstance(task, JaxWorld)
            else None
        )
        if self._graph:
            self._init, self._step = (
                jax.jit(self._graph.init),
                jax.jit(self._graph.step, donate_argnums=1),
            )
            self._key = jax.random.PRNGKey(0)
            self._carry: Any = None
        else:
            self._vector = (task.vector_with_pictures if pictures else task.vector)(count)
            self._age, self._steps = np.zeros(count, int), 0

    def restart(self, seed: int) -> np.ndarray:
        """New episodes everywhere, observations [n, D]; everything that follows is determined by the seed."""
        if self._graph:
            key, self._key = jax.random.split(jax.random.PRNGKey(seed))
            self._carry, observation = self._init(key)
            return np.array(observation)
        self._age[:] = 0
        self._observation = self._checked(self._vector.reset(seed))
        return self._observation

    def step(self, skill: Array) -> Step:
        """L steps under one skill each, [n, C]; the reward [n, K] is the mean over them."""
        if self._graph:
            self._key, key = jax.random.split(self._key)
            self._carry, step = self._step(
                self._skills.params, self._carry, key, jnp.asarray(skill)
            )
            return Step(*map(np.array, step))
        return self._step_host(np.asarray(skill))

    def _step_host(self, skill: np.ndarray) -> Step:
        over, ended = np.zeros(self._count, bool), np.zeros(self._count, bool)
        earned = np.zeros((self._count, len(self.task.spec.channels)), np.float32)
        observation, successor = self._observation, self._observation.copy()
        for _ in range(self._length):
            action = self._skills.act(observation[:, : self._size], skill)
            observation, terminated, truncated = self._vector.step(action)
            self._steps += 1
            self._checked(observation)
            reward, going = self._vector.rewards(), ~over
            check_rewards(reward, self.task.spec, self._steps)
            earned[going] += reward[going]
            successor[going] = observation[going]
            self._age += 1
            ended |= going & terminated
            done = terminated | truncated | (self._age >= self.task.spec.episode_length)
            over |= done
            if over.all():
                break
            if done.any():  # what is over goes on in an episode that does not count, since all copies step together
                observation = self._checked(self._vector.reset(mask=done))
                self._age[done] = 0
        if over.any() and self._autoreset:
            observation = self._checked(self._vector.reset(mask=over))
            self._age[over] = 0
        self._observation = observation
        return Step(successor, ended, over, observation, earned / self._length)

    def render(self, index: int = 0) -> np.ndarray:
        """A picture of one copy, uint8 [height, width, 3]."""
        if not self._graph:
            return self._vector.render(index)
        assert isinstance(self.task, JaxWorld)
        return self.task.render(jax.tree.map(lambda x: np.asarray(x[index]), self._carry[0]))

    def close(self) -> None:
        if not self._graph:
            self._vector.close()

    def _checked(self, observation: np.ndarray) -> np.ndarray:
        check_finite(observation, self.task.spec, self._steps)
        return observation
