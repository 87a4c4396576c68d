"""What a world is: a factored MDP, stepped inside the compiled program or on the host.

`JaxWorld` is for worlds written in JAX: pure functions of one state, which the caller vmaps and
compiles into its own loop. `HostWorld` is for everything else: it makes vectors of environments
that step together outside of the compiled program.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.errors import UsageError, unknown_name
from dusdi.types import Array, WorldSpec

EnvState = Any  # a pytree, different in each world
EXPERT_VALUES = 5  # how many values of a component the scripted experts know

#: Settings that the agents "ppo" and "sac" need on a task, by preset and agent:
#: {"fast": {"sac": {"num_envs": 16}}}
TaskPresets = Mapping[str, Mapping[str, Mapping[str, Any]]]


class Discounting(NamedTuple):
    """How the discounted return of a task is defined, whoever solves it.

    It is the sum over t of factor^t times the mean reward of the t-th `steps` steps.

    Attributes:
      factor: gamma.
      steps: over which rewards are averaged: a decision of those who defined it.
    """

    factor: float
    steps: int

    def weights(self, length: int) -> np.ndarray:
        """What the reward of each step of an episode counts, [length]."""
        return self.factor ** (np.arange(length) // self.steps) / self.steps


class VectorWorld(abc.ABC):
    """n environments of a world that step together, driven from the host with NumPy arrays."""

    @abc.abstractmethod
    def reset(self, seed: int | None = None, mask: np.ndarray | None = None) -> np.ndarray:
        """Starts new episodes where `mask` (bool [n], default: everywhere) is true.

        Returns all observations [n, D]. With a seed, everything that follows is determined by it;
        without one, the random stream continues.
        """

    @abc.abstractmethod
    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Steps all environments by actions [n, A] in [-1, 1].

        Returns observations [n, D], terminated [n] and truncated [n]. It does not reset: the
        observation is the true next observation, and the caller resets what is done. `truncated` is
        only what the world itself truncates; the caller counts steps up to the episode length.
        """

    def rewards(self) -> np.ndarray:
        """The reward of the last step in each channel, [n, K]; needed only if there are some."""
        raise NotImplementedError

    def state(self) -> EnvState:
        """A NamedTuple of arrays [n, ...] that experts and tasks read; needed only for those."""
        raise NotImplementedError

    @abc.abstractmethod
    def render(self, index: int = 0) -> np.ndarray:
        """An image of one environment, uint8 [height, width, 3]."""

    def close(self) -> None:  # noqa: B027
        """Frees the resources of the environments; nothing by default."""


class World(abc.ABC):
    """A factored world. One with reward channels is a task.

    Attributes:
      spec: all that a learner needs to know of it.
      presets: settings that every method needs in this world, by preset: {"fast": {"steps": 9}}.
      method_presets: settings that single methods need, by preset and method, which count more:
        {"fast": {"dusdi": {"alpha": 0.05}}}.
      task_presets: the same for the agents that learn it as a task.
      expert: a scripted policy that does what each skill component asks; None if there is none. It
        takes a state and a skill [C] of `EXPERT_VALUES` values and returns an action [A]. On the
        host all of them have a leading [n].
      tuning_task: the task by which settings of methods are chosen in this world, if they are.
      causal: bool [K, C], whether a reward channel can depend on a skill component, for the causal
        policy gradient; None if that is not known.
      discounting: of a task whose discounted return is reported beside the plain one.
      views: the kinds of images it can render, if there are several.
      shows_truth: whether observations are the true state, not what an encoder saw of it.
      larger: options that make it larger than in the publication.
      published_dci: disentanglement, completeness and informativeness in Table 1 of the DUSDi
        paper, by method.
      published_returns: discounted returns that papers report of a task, by method.
      published_note: how the published world or task differs from this one, if it does.
    """

    spec: WorldSpec
    presets: Mapping[str, Mapping[str, Any]] = {}
    method_presets: Mapping[str, Mapping[str, Mapping[str, Any]]] = {}
    task_presets: TaskPresets = {}
    expert: Callable[[EnvState, Array], Array] | None = None
    tuning_task: str = ""
    causal: np.ndarray | None = None
    discounting: Discounting | None = None
    views: Sequence[str] = ()
    shows_truth: bool = True
    larger: Sequence[Mapping[str, Any]] = ()
    published_dci: Mapping[str, tuple[float, float, float]] = {}
    published_returns: Mapping[str, float] = {}
    published_note: str = ""

    @property
    def unwrapped(self) -> World:
        """The world inside all wrappers."""
        return self

    def check_installed(self) -> None:  # noqa: B027
        """Raises a `UsageError` if packages that it needs are missing; most worlds need none."""

    def save_parts(self, folder: Path) -> None:  # noqa: B027
        """Writes what making it again needs besides its options; nothing by default."""

    def true_observations(self, state: EnvState) -> np.ndarray:
        """What a world that does not show the truth would show if it did, in states [n, ...]."""
        raise NotImplementedError

    def choose_view(self, view: str) -> None:
        """Makes vectors from now on render that kind of image."""
        if not self.views:
            raise UsageError(f"there is only one view of {self.spec.name!r}")
        if view not in self.views:
            raise unknown_name("view", view, self.views)
        self.view = view

    @abc.abstractmethod
    def vector(self, num_envs: int) -> VectorWorld:
        """`num_envs` environments of this world."""

    def vector_with_pictures(self, num_envs: int) -> VectorWorld:
        """The same, for environments that will be rendered; some must know that when made."""
        return self.vector(num_envs)


class HostWorld(World):
    """A world whose environments are stepped outside the compiled program."""

    #: Steps take most of the time, so there are fewer of them, and more updates for each.
    task_presets: TaskPresets = {
        "fast": {
            "ppo": {
                "steps": 256_000,
                "num_envs": 64,
                "rollout_length": 2,
                "batch_size": 64,
                "log_every": 64_000,  # every environment ends an episode of 1000 steps by then
                "checkpoint_every": 128_000,
            },
            "sac": {
                "steps": 256_000,
                "num_envs": 64,
                "steps_per_update": 64,
                "log_every": 64_000,
                "checkpoint_every": 128_000,
            },
        }
    }


class JaxWorld(World):
    """A world of pure functions of a single state; the caller vmaps them."""

    @abc.abstractmethod
    def reset(self, key: jax.Array) -> EnvState:
        """Draws the state that an episode starts in."""

    @abc.abstractmethod
    def step(self, state: EnvState, action: jax.Array, key: jax.Array) -> EnvState:
        """The state after `action` [A] in [-1, 1]; `key` is for stochastic worlds."""

    @abc.abstractmethod
    def observe(self, state: EnvState) -> jax.Array:
        """The observation [D] in a state."""

    def terminated(self, state: EnvState) -> jax.Array:
        """Whether the episode ends for good in a state, bool []; never by default."""
        return jnp.bool_(False)

    def reward(self, state: EnvState) -> jax.Array:
        """The reward of the step into a state in each channel, [K]."""
        return jnp.zeros(len(self.spec.channels))

    @abc.abstractmethod
    def render(self, state: EnvState) -> np.ndarray:
        """An image of a state, uint8 [height, width, 3]."""

    def unwrapped_state(self, state: EnvState) -> EnvState:
        """The state of the unwrapped world."""
        return state

    def with_unwrapped_state(self, state: EnvState, unwrapped: EnvState) -> EnvState:
        """A state in which that of the unwrapped world is replaced."""
        return unwrapped

    def vector(self, num_envs: int) -> VectorWorld:
        return JaxVector(self, num_envs)


class JaxVector(VectorWorld):
    """n environments of a `JaxWorld`, stepped by one compiled call."""

    def __init__(self, world: JaxWorld, num_envs: int):
        self._world = world
        self._num_envs = num_envs
        self._reset = jax.jit(self._reset_where)
        self._step = jax.jit(self._step_all)
        # Only used until a reset with a seed.
        self._key = jax.random.PRNGKey(int(np.random.SeedSequence().generate_state(1)[0]))
        # There is always a state, so that every reset is the same program and rounds alike.
        self._state = jax.jit(jax.vmap(world.reset))(jax.random.split(self._key, num_envs))
        self._rewards = np.zeros((num_envs, len(world.spec.channels)), np.float32)

    def _reset_where(self, state, key, mask):
        key, reset_key = jax.random.split(key)
        fresh = jax.vmap(self._world.reset)(jax.random.split(reset_key, self._num_envs))
        state = select(mask, fresh, state)
        return state, key, jax.vmap(self._world.observe)(state)

    def _step_all(self, state, key, actions):
        key, step_key = jax.random.split(key)
        keys = jax.random.split(step_key, self._num_envs)
        state = jax.vmap(self._world.step)(state, actions, keys)
        parts = (self._world.observe, self._world.terminated, self._world.reward)
        return state, key, *(jax.vmap(part)(state) for part in parts)

    def reset(self, seed=None, mask=None):
        if seed is not None:
            self._key = jax.random.PRNGKey(seed)
        mask = np.ones(self._num_envs, bool) if mask is None else mask
        self._state, self._key, observation = self._reset(self._state, self._key, mask)
        return np.array(observation)

    def step(self, actions):
        actions = np.asarray(actions, np.float32)
        self._state, self._key, *results = self._step(self._state, self._key, actions)
        observation, terminated, self._rewards = map(np.array, results)
        return observation, terminated, np.zeros(self._num_envs, bool)

    def rewards(self):
        return self._rewards

    def state(self):
        return self._state

    def render(self, index=0):
        return self._world.render(jax.tree.map(lambda x: np.asarray(x[index]), self._state))


def select(mask: Array, if_true: EnvState, if_false: EnvState) -> EnvState:
    """Picks whole rows of two pytrees by a mask [n]."""

    def pick(a, b):
        return jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, if_true, if_false)
