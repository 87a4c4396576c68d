"""Skills as actions: L steps of a task under a frozen skill are one high-level step.

L is the number of steps that the skills were learned with, or another one (`decision_length`).
An episode that ends in the middle of a skill earns nothing more; a new one begins when that skill
is used up. In JAX all of it is one compiled program; for tasks on the host, skills act in between
the host's steps.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import JaxWorld, World
from dusdi.errors import UsageError
from dusdi.skills import Skills
from dusdi.stepping import CompiledStepper, Episodes, HostStepper, Step, select
from dusdi.tasks import Task
from dusdi.types import Array, difference


def check_setting(skills: Skills, task: World) -> None:
    """Raises a `UsageError` if the task pays nothing or is not set in the skills' world."""
    ours = skills.spec
    theirs = task.spec
    if not theirs.channels:
        raise UsageError(
            f"{theirs.name!r} is a world without reward, not a task; its tasks are called "
            f"{theirs.name}/…"
        )
    setting = task.world.spec if isinstance(task, Task) else theirs
    # A task's observation begins with the world's.
    same_factors = theirs.factors[: len(ours.factors)] == ours.factors
    same_start = same_factors and theirs.observation_size >= ours.observation_size
    if not same_start or ours.action_size != theirs.action_size:
        if setting.name == ours.name:
            raise UsageError(
                f"that run learned in {ours.name!r}, but the task is set in one with "
                f"{difference(setting, ours)}; make both alike"
            )
        unlike = difference(
            setting, dataclasses.replace(ours, name=setting.name, options=setting.options)
        )
        raise UsageError(
            f"that run learned in {ours.name!r}, but the task is set in {setting.name!r}, which "
            f"has {unlike.partition(';')[0]}; name a task in {ours.name!r}, or a run that learned "
            f"in {setting.name!r}"
        )
    if changed := difference(ours, dataclasses.replace(setting, channels=ours.channels)):
        warnings.warn(f"the skills were learned in another world, one with {changed}", stacklevel=3)


def check_fit(skills: Skills, task: World) -> None:
    """Raises a `UsageError` unless these are skills to choose from in that task."""
    check_setting(skills, task)
    if not len(skills.space):
        raise UsageError(
            f"the run of {skills.spec.name!r} holds a flat policy and no skills; agent sac "
            "fine-tunes it"
        )


class CompiledHierarchy:
    """n environments of a task in JAX, stepped by skills through pure functions."""

    def __init__(
        self,
        task: JaxWorld,
        skills: Skills,
        num_envs: int,
        *,
        decision_length: int = 0,
        stagger: bool = False,
        autoreset: bool = True,
    ):
        """With `stagger`, episodes start at ages spread evenly in multiples of L."""
        check_fit(skills, task)
        self._skills = skills
        self._length = decision_length or skills.skill_length
        self._size = skills.spec.observation_size
        self._autoreset = autoreset
        self._channels = len(task.spec.channels)
        self._stepper = CompiledStepper(
            task,
            num_envs,
            task.spec.episode_length,
            stagger=self._length if stagger else 0,
            autoreset=False,
        )

    def init(self, key: jax.Array) -> tuple[Episodes, jax.Array]:
        """New episodes and their observations [n, D]."""
        return self._stepper.init(key)

    def step(
        self, params: Any, episodes: Episodes, key: jax.Array, skill: jax.Array
    ) -> tuple[Episodes, Step]:
        """L steps under one skill each, [n, W]; the reward [n, K] is the mean over them."""
        keys = jax.random.split(key, self._length + 1)
        count = self._stepper.num_envs

        def low_level(carry, key):
            episodes, observation, earned, terminated, done = carry
            action = self._skills.mean_action(params, observation[:, : self._size], skill)
            moved, step = self._stepper.step(episodes, key, action)
            # What is done stays as it is.
            episodes = select(done, episodes, moved)
            observation = jnp.where(done[:, None], observation, step.next_observation)
            earned += jnp.where(done[:, None], 0.0, step.reward)
            terminated |= step.terminated & ~done
            return (episodes, observation, earned, terminated, done | step.done), None

        no = jnp.zeros(count, bool)
        nothing = jnp.zeros((count, self._channels))
        carry = (episodes, self._stepper.observe(episodes), nothing, no, no)
        carry, _ = jax.lax.scan(low_level, carry, keys[1:])
        episodes, next_observation, earned, terminated, done = carry
        observation = next_observation
        if self._autoreset:
            episodes = self._stepper.reset_where(episodes, keys[0], done)
            observation = self._stepper.observe(episodes)
        reward = earned / self._length
        return episodes, Step(next_observation, reward, terminated, done, observation)


class HostHierarchy:
    """n environments of any task, stepped by skills from the host with NumPy arrays."""

    def __init__(
        self,
        task: World,
        skills: Skills,
        num_envs: int,
        *,
        decision_length: int = 0,
        stagger: bool = False,
        autoreset: bool = True,
        pictures: bool = False,
    ):
        """Without `autoreset`, call `reset` when an episode is done."""
        check_fit(skills, task)
        self.task = task
        self._skills = skills
        self._length = decision_length or skills.skill_length
        self._size = skills.spec.observation_size
        self._num_envs = num_envs
        self._autoreset = autoreset
        self._stepper = HostStepper(
            task,
            num_envs,
            stagger=self._length if stagger else 0,
            autoreset=False,
            rewarded=True,
            pictures=pictures,
        )

    def reset(self, seed: int) -> np.ndarray:
        """New episodes everywhere, [n, D]; all that follows is determined by the seed."""
        self._observation = self._stepper.reset(seed)
        return self._observation

    def step(self, skill: Array) -> Step:
        """L steps under one skill each, [n, W]; the reward [n, K] is the mean over them."""
        skill = np.asarray(skill)
        done = np.zeros(self._num_envs, bool)
        terminated = np.zeros(self._num_envs, bool)
        earned = np.zeros((self._num_envs, len(self.task.spec.channels)), np.float32)
        observation = self._observation
        next_observation = observation.copy()
        for _ in range(self._length):
            action = self._skills.act(observation[:, : self._size], skill)
            step = self._stepper.step(action)
            observation = step.next_observation
            going = ~done
            earned[going] += step.reward[going]
            next_observation[going] = observation[going]
            terminated |= going & step.terminated
            done |= step.done
            if done.all():
                break
            # All environments step together, so what is done plays on without counting; a world
            # may have to be reset for that.
            if step.done.any():
                observation = self._stepper.reset_where(step.done)
        if done.any() and self._autoreset:
            observation = self._stepper.reset_where(done)
        self._observation = observation
        return Step(next_observation, earned / self._length, terminated, done, observation)

    def render(self, index: int = 0) -> np.ndarray:
        """A picture of one environment, uint8 [height, width, 3]."""
        return self._stepper.render(index)

    def close(self) -> None:
        self._stepper.close()


class SkillStepper:
    """n environments of any task, stepped by skills from the host as fast as it goes.

    Tasks in JAX are one compiled call per high-level step.
    """

    def __init__(
        self,
        task: World,
        skills: Skills,
        num_envs: int,
        *,
        decision_length: int = 0,
        autoreset: bool = True,
        pictures: bool = False,
    ):
        self.task = task
        self._skills = skills
        self._host: HostHierarchy | None = None
        options: Any = {"decision_length": decision_length, "autoreset": autoreset}
        if isinstance(task, JaxWorld):
            hierarchy = CompiledHierarchy(task, skills, num_envs, **options)
            self._init = jax.jit(hierarchy.init)
            self._step = jax.jit(hierarchy.step, donate_argnums=1)
        else:
            self._host = HostHierarchy(task, skills, num_envs, pictures=pictures, **options)

    def reset(self, seed: int) -> np.ndarray:
        """New episodes everywhere, [n, D]; all that follows is determined by the seed."""
        if self._host:
            return self._host.reset(seed)
        key, self._key = jax.random.split(jax.random.PRNGKey(seed))
        self._episodes, observation = self._init(key)
        return np.array(observation)

    def step(self, skill: Array) -> Step:
        """L steps under one skill each, [n, W]; the reward [n, K] is the mean over them."""
        if self._host:
            return self._host.step(skill)
        self._key, key = jax.random.split(self._key)
        self._episodes, step = self._step(
            self._skills.params, self._episodes, key, jnp.asarray(skill)
        )
        return Step(*map(np.array, step))

    def render(self, index: int = 0) -> np.ndarray:
        """A picture of one environment, uint8 [height, width, 3]."""
        if self._host:
            return self._host.render(index)
        assert isinstance(self.task, JaxWorld)
        state = jax.tree.map(lambda x: np.asarray(x[index]), self._episodes.state)
        return self.task.render(state)

    def close(self) -> None:
        if self._host:
            self._host.close()
