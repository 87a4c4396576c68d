"""Stepping many copies of a world: inside the compiled program, on the host, and for evaluation.

Both steppers answer alike: the true successor, whether the world ended, whether the episode is over for any reason, and
the observation to go on from (after a reset where it is over). Episodes start staggered, if wanted, so that resets spread evenly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import EnvState, JaxWorld, VectorWorld, World, select
from dusdi.errors import NonFiniteError, WorldError
from dusdi.skills import SkillSpace
from dusdi.types import Array, WorldSpec

#: Observations must be smaller than this, so that their squares stay finite in single precision.
LARGEST = 1e15
#: A rollout for evaluation has at least so many episodes, shorter than the world's if need be.
MIN_EPISODES = 10
#: The most copies of a world that are made for evaluation; those with physics take 10 MB each.
MAX_COPIES = 100


class Step(NamedTuple):
    """What a step of n copies gave.

    Attributes:
      successor: s', [n, D].
      terminated: [n], nothing follows s'.
      over: [n], the episode ended here, for whatever reason.
      observation: where to go on, [n, D]; differs from `successor` where over.
      reward: what the step earned, [n, K].
    """

    successor: Array
    terminated: Array
    over: Array
    observation: Array
    reward: Array


class GraphStepper:
    """Steps n copies of a `JaxWorld` by pure functions; the state is (world states, episode ages)."""

    def __init__(self, world: JaxWorld, count: int, episode_length: int, *, stagger: bool = True):
        self._world, self._count, self._length, self._stagger = (
            world,
            count,
            episode_length,
            stagger,
        )

    def init(self, key: jax.Array) -> tuple[EnvState, jax.Array]:
        state = jax.vmap(self._world.reset)(jax.random.split(key, self._count))
        age = jnp.arange(self._count, dtype=jnp.int32) * self._length // self._count * self._stagger
        return (state, age), jax.vmap(self._world.observe)(state)

    def step(self, carry: EnvState, key: jax.Array, action: jax.Array) -> tuple[EnvState, Step]:
        state, age = carry
        step_key, reset_key = jax.random.split(key)
        state = jax.vmap(self._world.step)(state, action, jax.random.split(step_key, self._count))
        successor, reward = (
            jax.vmap(self._world.observe)(state),
            jax.vmap(self._world.reward)(state),
        )
        over = age + 1 >= self._length
        fresh = jax.vmap(self._world.reset)(jax.random.split(reset_key, self._count))
        state = select(over, fresh, state)
        observation = jax.vmap(self._world.observe)(state)
        terminated = jnp.zeros(self._count, bool)
        return (state, jnp.where(over, 0, age + 1)), Step(
            successor, terminated, over, observation, reward
        )


class HostStepper:
    """Steps n copies of any world from the host; refuses non-finite numbers where they appear."""

    def __init__(self, world: World, count: int, episode_length: int, *, rewarded: bool = False):
        """Rewards are checked if they count (`rewarded`)."""
        self._vector: VectorWorld = world.vector(count)
        self._spec, self._count, self._length = world.spec, count, episode_length
        self._age, self._steps, self._rewarded = np.zeros(count, int), 0, rewarded

    def restart(self, seed: int, *, stagger: bool = True) -> np.ndarray:
        """New episodes everywhere; everything that follows is determined by the seed."""
        self._age = np.arange(self._count) * self._length // self._count * stagger
        return self._checked(self._vector.reset(seed))

    def step(self, action: np.ndarray) -> Step:
        check_actions(action, self._spec)
        successor, terminated, truncated = self._vector.step(action)
        self._steps += 1
        self._checked(successor)
        reward = (
            self._vector.rewards()
            if self._spec.channels
            else np.zeros((self._count, 0), np.float32)
        )
        if self._rewarded:
            check_rewards(reward, self._spec, self._steps)
        self._age += 1
        over = terminated | truncated | (self._age >= self._length)
        observation = successor
        if over.any():
            observation = self._checked(self._vector.reset(mask=over))
            self._age[over] = 0
        return Step(successor, terminated, over, observation, reward)

    def close(self) -> None:
        self._vector.close()

    def _checked(self, observation: np.ndarray) -> np.ndarray:
        check_finite(observation, self._spec, self._steps)
        return observation


def check_finite(observation: np.ndarray, spec: WorldSpec, step: int) -> None:
    """Raises a `WorldError` that names the entries of [n, D] that are not finite or too large after so many steps."""
    bad = ~(np.abs(observation) <= LARGEST)
    if bad.any():
        copy, entry = np.argwhere(bad)[0]
        value = observation[copy, entry]
        names = ", ".join(spec.entry_name(int(i)) for i in np.flatnonzero(bad.any(0)))
        what = "too large an observation" if np.isfinite(value) else "a non-finite observation"
        place = f"copy {copy} after {step} steps, observation entry {entry}"
        told = f"world {spec.name!r} gave {what} ({value}) in {place}"
        raise WorldError(f"{told}; entries concerned: {names}")


def check_rewards(reward: np.ndarray, spec: WorldSpec, step: int) -> None:
    """Raises a `WorldError` if rewards [n, K] are not finite after so many steps."""
    bad = ~np.isfinite(reward)
    if bad.any():
        copy, channel = np.argwhere(bad)[0]
        told = f"world {spec.name!r} gave a reward that is not finite ({reward[copy, channel]})"
        raise WorldError(
            f"{told} in copy {copy} after {step} steps, channel {spec.channels[channel]!r}"
        )


def check_actions(action: np.ndarray, spec: WorldSpec) -> None:
    """Raises a `NonFiniteError` if actions [n, A] are not finite, which is the policy's fault."""
    bad = ~np.isfinite(action)
    if bad.any():
        copy, entry = np.argwhere(bad)[0]
        raise NonFiniteError(
            f"the policy gave a non-finite action ({action[copy, entry]}) for copy {copy} of world "
            f"{spec.name!r}, action entry {entry}; its parameters have become useless"
        )


class Rollout(NamedTuple):
    """Steps of a skill policy for evaluation, one row a step.

    Attributes:
      observation: the state after the step, [n, D].
      skill: the skill in force, [n, C] or [n, C, M].
      episode: the number of the episode that the row comes from, over all copies, [n].
    """

    observation: np.ndarray
    skill: np.ndarray
    episode: np.ndarray


Policy = Callable[[np.ndarray, np.ndarray], np.ndarray]


def collect(
    world: World,
    policy: Policy,
    space: SkillSpace,
    *,
    steps: int,
    skill_length: int,
    seed: int,
    advance: Callable[[int], None] = lambda done: None,
) -> Rollout:
    """About `steps` steps of a policy of observations and skills.

    Skills are redrawn every `skill_length` steps and at resets. The steps are those of at most
    `MAX_COPIES` copies, which begin a new episode whenever one is over. `advance` is told how many
    are done.
    """
    length = min(world.spec.episode_length, max(skill_length, steps // MIN_EPISODES))
    episodes = max(1, steps // length)
    count = min(MAX_COPIES, episodes)
    key = jax.random.PRNGKey(seed)
    skill = np.array(space.sample(key, count))
    age, episode, begun, rows = np.zeros(count, int), np.arange(count), count, []
    stepper = HostStepper(world, count, length)
    try:
        observation = stepper.restart(seed, stagger=False)
        for t in range(episodes * length // count):
            step = stepper.step(policy(observation, skill))
            rows.append(Rollout(step.successor, skill.copy(), episode.copy()))
            observation, age = step.observation, age + 1
            used_up = (age >= skill_length) | step.over
            if used_up.any():
                key, skill_key = jax.random.split(key)
                skill[used_up] = np.asarray(space.sample(skill_key, count))[used_up]
                age[used_up] = 0
            fresh = int(np.count_nonzero(step.over))
            episode[step.over] = begun + np.arange(fresh)
            begun += fresh
            advance((t + 1) * count)
    finally:
        stepper.close()
    return Rollout(*(np.concatenate(column) for column in zip(*rows, strict=True)))
