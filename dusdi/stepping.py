"""Stepping many environments at once: inside a compiled program, or from the host.

Both steppers answer alike (`Step`), count the age of episodes, and begin new ones where the old
ones are done. Pretraining, hierarchy, evaluation and video all step here; only `GymnasiumView`
counts by itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import EnvState, JaxWorld, VectorWorld, World, select
from dusdi.errors import NonFiniteError, WorldError
from dusdi.types import Array, WorldSpec

#: Observations must be smaller than this, so that their squares stay finite in single precision.
LARGEST = 1e15


class Step(NamedTuple):
    """What a step of n environments gave.

    Attributes:
      next_observation: s', [n, D]; the true next observation, also where the episode is done.
      reward: what the step earned in each channel, [n, K].
      terminated: [n], the world ended for good, so that nothing follows s'.
      done: [n], the episode ended here, for whatever reason.
      observation: where to go on, [n, D]; that of a new episode where the old one is done.
    """

    next_observation: Array
    reward: Array
    terminated: Array
    done: Array
    observation: Array


class Episodes(NamedTuple):
    """Episodes under way: states of the worlds, leading with [n], and their ages [n]."""

    state: EnvState
    age: Array


def derived_seed(seed: int, *path: int) -> int:
    """The seed of something that happens in what has a seed itself: at an iteration of a run, say.

    Environments may count on from a seed (the next one has the next seed), so that neighbouring
    seeds would share most of their episodes; these are far apart.
    """
    sequence = np.random.SeedSequence([seed, *path])
    return int(sequence.generate_state(1)[0] // 2)


def first_ages(num_envs: int, episode_length: int, stagger: int) -> np.ndarray:
    """Ages that environments start with, [n]: all 0, or spread evenly in multiples of `stagger`.

    Staggered episodes don't end all at once, so that resets spread over time.
    """
    if not stagger:
        return np.zeros(num_envs, np.int32)
    spread = np.arange(num_envs) * episode_length // num_envs
    return (spread // stagger * stagger).astype(np.int32)


class CompiledStepper:
    """Steps n environments of a `JaxWorld` by pure functions."""

    def __init__(
        self,
        world: JaxWorld,
        num_envs: int,
        episode_length: int,
        *,
        stagger: int = 0,
        autoreset: bool = True,
    ):
        """Without `autoreset`, episodes that are done stay as they are until `reset_where`."""
        self.world = world
        self.num_envs = num_envs
        self._length = episode_length
        self._stagger = stagger
        self._autoreset = autoreset
        self._observe = jax.vmap(world.observe)

    def init(self, key: jax.Array) -> tuple[Episodes, jax.Array]:
        """New episodes and their observations [n, D]."""
        state = self._fresh(key)
        ages = first_ages(self.num_envs, self._length, self._stagger)
        return Episodes(state, jnp.asarray(ages)), self._observe(state)

    def _fresh(self, key: jax.Array) -> EnvState:
        return jax.vmap(self.world.reset)(jax.random.split(key, self.num_envs))

    def step(self, episodes: Episodes, key: jax.Array, action: jax.Array) -> tuple[Episodes, Step]:
        """A step by actions [n, A]."""
        step_key, reset_key = jax.random.split(key)
        keys = jax.random.split(step_key, self.num_envs)
        state = jax.vmap(self.world.step)(episodes.state, action, keys)
        age = episodes.age + 1
        terminated = jax.vmap(self.world.terminated)(state)
        done = terminated | (age >= self._length)
        next_observation = self._observe(state)
        reward = jax.vmap(self.world.reward)(state)
        moved = Episodes(state, age)
        observation = next_observation
        if self._autoreset:
            moved = self.reset_where(moved, reset_key, done)
            observation = self._observe(moved.state)
        return moved, Step(next_observation, reward, terminated, done, observation)

    def reset_where(self, episodes: Episodes, key: jax.Array, mask: jax.Array) -> Episodes:
        """The episodes, with new ones where `mask` [n]; worlds are reset only if there are any."""

        def begin(episodes: Episodes) -> Episodes:
            fresh = Episodes(self._fresh(key), jnp.zeros_like(episodes.age))
            return select(mask, fresh, episodes)

        return jax.lax.cond(mask.any(), begin, lambda same: same, episodes)

    def observe(self, episodes: Episodes) -> jax.Array:
        """Observations [n, D]."""
        return self._observe(episodes.state)


class HostStepper:
    """Steps n environments of any world from the host, with NumPy arrays.

    It refuses numbers that are not finite where they appear.
    """

    def __init__(
        self,
        world: World,
        num_envs: int,
        episode_length: int | None = None,
        *,
        stagger: int = 0,
        autoreset: bool = True,
        rewarded: bool = False,
        pictures: bool = False,
    ):
        """Rewards are checked if they count (`rewarded`); `pictures` will be drawn by `render`."""
        self._spec = world.spec
        self._num_envs = num_envs
        self._length = episode_length or world.spec.episode_length
        self._stagger = stagger
        self._autoreset = autoreset
        self._rewarded = rewarded
        self._steps = 0
        self._age = np.zeros(num_envs, np.int32)
        make = world.vector_with_pictures if pictures else world.vector
        self._vector: VectorWorld = make(num_envs)

    def reset(self, seed: int) -> np.ndarray:
        """New episodes everywhere; everything that follows is determined by the seed."""
        self._age = first_ages(self._num_envs, self._length, self._stagger)
        return self._checked(self._vector.reset(seed))

    def step(self, action: np.ndarray) -> Step:
        """A step by actions [n, A]."""
        check_actions(action, self._spec)
        next_observation, terminated, truncated = self._vector.step(action)
        self._steps += 1
        self._checked(next_observation)
        reward = self._rewards()
        self._age += 1
        done = terminated | truncated | (self._age >= self._length)
        observation = next_observation
        if self._autoreset and done.any():
            observation = self.reset_where(done)
        return Step(next_observation, reward, terminated, done, observation)

    def _rewards(self) -> np.ndarray:
        if not self._spec.channels:
            return np.zeros((self._num_envs, 0), np.float32)
        reward = self._vector.rewards()
        if self._rewarded:
            check_rewards(reward, self._spec, self._steps)
        return reward

    def reset_where(self, mask: np.ndarray) -> np.ndarray:
        """Begins new episodes where `mask` [n] and gives all observations [n, D]."""
        self._age[mask] = 0
        return self._checked(self._vector.reset(mask=mask))

    def state(self) -> Any:
        """The state of all environments, which scripted experts read."""
        return self._vector.state()

    def render(self, index: int = 0) -> np.ndarray:
        """A picture of one environment, uint8 [height, width, 3]."""
        return self._vector.render(index)

    def close(self) -> None:
        self._vector.close()

    def _checked(self, observation: np.ndarray) -> np.ndarray:
        check_finite(observation, self._spec, self._steps)
        return observation


def check_finite(observation: np.ndarray, spec: WorldSpec, step: int) -> None:
    """Raises a `WorldError` that names entries of [n, D] that are not finite or too large."""
    bad = ~(np.abs(observation) <= LARGEST)
    if bad.any():
        env, entry = np.argwhere(bad)[0]
        value = observation[env, entry]
        names = ", ".join(spec.entry_name(int(i)) for i in np.flatnonzero(bad.any(0)))
        what = "too large an observation" if np.isfinite(value) else "a non-finite observation"
        place = f"environment {env} after {step} steps, observation entry {entry}"
        told = f"world {spec.name!r} gave {what} ({value}) in {place}"
        raise WorldError(f"{told}; entries concerned: {names}")


def check_rewards(reward: np.ndarray, spec: WorldSpec, step: int) -> None:
    """Raises a `WorldError` if rewards [n, K] are not finite after so many steps."""
    bad = ~np.isfinite(reward)
    if bad.any():
        env, channel = np.argwhere(bad)[0]
        told = f"world {spec.name!r} gave a reward that is not finite ({reward[env, channel]})"
        place = f"in environment {env} after {step} steps, channel {spec.channels[channel]!r}"
        raise WorldError(f"{told} {place}")


def check_actions(action: np.ndarray, spec: WorldSpec) -> None:
    """Raises a `NonFiniteError` if actions [n, A] are not finite, which is the policy's fault."""
    bad = ~np.isfinite(action)
    if bad.any():
        env, entry = np.argwhere(bad)[0]
        raise NonFiniteError(
            f"the policy gave a non-finite action ({action[env, entry]}) for environment {env} of "
            f"world {spec.name!r}, action entry {entry}; its parameters have become useless"
        )
