"""What a world is: a factored MDP, stepped inside the compiled program or on the host.

`JaxWorld` is for worlds written in JAX: pure functions of one state, which the learner vmaps and compiles
into its own loop. `HostWorld` is for everything else: n copies that step together outside of it.
Evaluation, rendering and Gymnasium see both kinds through `vector(n)`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from dusdi.errors import UsageError, unknown_name
from dusdi.types import Array, WorldSpec

EnvState = Any  # a pytree, different in each world
ORACLE_VALUES = 5  # how many values of a component the hand-written oracles know


class VectorWorld(abc.ABC):
    """n copies of a world that step together, driven from the host with NumPy arrays."""

    @abc.abstractmethod
    def reset(self, seed: int | None = None, mask: np.ndarray | None = None) -> np.ndarray:
        """Starts new episodes where `mask` (bool [n], default: everywhere) and returns all observations [n, D].

        With a seed, everything that follows is determined by it; without, the random stream goes on.
        """

    @abc.abstractmethod
    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Steps all copies by actions [n, A] in [-1, 1]: observations [n, D], terminated [n], truncated [n].

        Does not reset: the observation is the true successor, and the caller resets what is over.
        """

    def rewards(self) -> np.ndarray:
        """What the last step earned in each reward channel, [n, K]; only asked of worlds that have some."""
        raise NotImplementedError

    @abc.abstractmethod
    def render(self, index: int = 0) -> np.ndarray:
        """A picture of one copy, uint8 [height, width, 3]."""

    def close(self) -> None:  # noqa: B027
        """Frees what the copies hold; nothing by default."""


class World(abc.ABC):
    """A factored world. `spec` says all that a skill learner needs to know of it; with reward channels it is a task."""

    spec: WorldSpec
    #: config fields that this world wants different, by preset: {"fast": {"alpha": 0.05}}
    presets: Mapping[str, Mapping[str, Any]] = {}
    #: for tasks: config fields that the agents "ppo" and "sac" want different, by preset: {"fast": {"sac": {"num_envs": 16}}}
    task_presets: Mapping[str, Mapping[str, Mapping[str, Any]]] = {}
    #: disentanglement, completeness and informativeness in Table 1 of the paper, by method
    paper_dci: Mapping[str, tuple[float, float, float]] = {}
    #: options that make it larger than the paper's
    larger: Sequence[Mapping[str, Any]] = ()
    #: a hand-written policy (observations [n, D], skills [n, C] of `ORACLE_VALUES` values -> actions [n, A]) that does what each
    #: component asks, so that its scores are a ceiling; None if nobody wrote one
    oracle: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None

    #: which reward channel depends on which skill component, bool [K, C], for the causal policy gradient; None if nobody said
    causal: np.ndarray | None = None

    #: what to know of the paper's figures for it, if they are not of the very same world
    paper_note: str = ""

    def check_installed(self) -> None:  # noqa: B027
        """Raises a `UsageError` if it needs packages that are not there; most worlds need none."""

    #: the kinds of pictures it can draw, if there are several
    views: Sequence[str] = ()

    def choose_view(self, view: str) -> None:
        """Makes copies from now on draw that kind of picture."""
        if not self.views:
            raise UsageError(f"there is only one view of {self.spec.name!r}")
        if view not in self.views:
            raise unknown_name("view", view, self.views)
        self.view = view

    @abc.abstractmethod
    def vector(self, count: int) -> VectorWorld:
        """`count` copies of this world."""

    def vector_with_pictures(self, count: int) -> VectorWorld:
        """`count` copies that will be drawn; for worlds that want to know so beforehand."""
        return self.vector(count)


class HostWorld(World):
    """A world whose copies are stepped outside the compiled program."""

    #: for tasks: steps take most of the time, so there are fewer, and more updates for each of them
    task_presets = {
        "fast": {
            "ppo": {
                "steps": 256_000,
                "num_envs": 64,
                "rollout_length": 2,
                "batch_size": 64,
                "log_every": 64_000,  # by then all copies' episodes of 1000 steps are over
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
    """A world of pure functions on a single state; the learner vmaps them."""

    @abc.abstractmethod
    def reset(self, key: jax.Array) -> EnvState:
        """Draws the state an episode starts in."""

    @abc.abstractmethod
    def step(self, state: EnvState, action: jax.Array, key: jax.Array) -> EnvState:
        """The state after `action` [A] in [-1, 1]; `key` is for worlds with chance in them."""

    @abc.abstractmethod
    def observe(self, state: EnvState) -> jax.Array:
        """The observation [D] in a state."""

    def terminated(self, state: EnvState) -> jax.Array:
        """Whether the world ends for good in a state, bool []."""
        return jnp.zeros((), bool)

    def reward(self, state: EnvState) -> jax.Array:
        """What the step into a state earned in each reward channel, [K]."""
        return jnp.zeros(len(self.spec.channels))

    @abc.abstractmethod
    def render(self, state: EnvState) -> np.ndarray:
        """A picture of a state, uint8 [height, width, 3]."""

    def vector(self, count: int) -> VectorWorld:
        return _JaxVector(self, count)


class _JaxVector(VectorWorld):
    """Copies of a `JaxWorld`, stepped in one compiled call; episodes are cut at the world's episode length."""

    def __init__(self, world: JaxWorld, count: int):
        self._world, self._count = world, count
        self._reset = jax.jit(self._reset_where)
        self._step = jax.jit(self._step_all)
        self._reward = jax.jit(jax.vmap(world.reward))
        self._key = jax.random.PRNGKey(
            np.random.SeedSequence().generate_state(1)[0]
        )  # until a reset with a seed
        self._state = jax.jit(jax.vmap(world.reset))(jax.random.split(self._key, count))
        self._age = np.zeros(count, np.int32)

    def _reset_where(self, state, key, mask):
        key, reset_key = jax.random.split(key)
        fresh = jax.vmap(self._world.reset)(jax.random.split(reset_key, self._count))
        state = select(mask, fresh, state)
        return state, key, jax.vmap(self._world.observe)(state)

    def _step_all(self, state, key, actions):
        key, step_key = jax.random.split(key)
        state = jax.vmap(self._world.step)(state, actions, jax.random.split(step_key, self._count))
        return state, key, jax.vmap(self._world.observe)(state)

    def reset(self, seed=None, mask=None):
        if seed is not None:
            self._key = jax.random.PRNGKey(seed)
        mask = np.ones(self._count, bool) if mask is None else mask
        self._state, self._key, observation = self._reset(self._state, self._key, mask)
        self._age[mask] = 0
        return np.array(observation)

    def step(self, actions):
        self._state, self._key, observation = self._step(
            self._state, self._key, np.asarray(actions, np.float32)
        )
        self._age += 1
        truncated = self._age >= self._world.spec.episode_length
        return np.array(observation), np.zeros(self._count, bool), truncated

    def rewards(self):
        return np.asarray(self._reward(self._state))

    def render(self, index=0):
        return self._world.render(jax.tree.map(lambda x: np.asarray(x[index]), self._state))


def select(mask: Array, if_true: EnvState, if_false: EnvState) -> EnvState:
    """Picks whole rows of two pytrees by a mask [n]."""

    def pick(a, b):
        return jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, if_true, if_false)


class GymnasiumView(gymnasium.Env):
    """A world as an ordinary `gymnasium.Env` without reward, for use with other people's tools."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(self, world: World, render_mode: str | None = None):
        self._vector = world.vector_with_pictures(1) if render_mode else world.vector(1)
        self.render_mode = render_mode
        size = world.spec.observation_size
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (world.spec.action_size,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        world_seed = None if seed is None else int(self.np_random.integers(2**31))
        return self._vector.reset(world_seed)[0], {}

    def step(self, action):
        observation, terminated, truncated = self._vector.step(np.asarray(action)[None])
        return observation[0], 0.0, bool(terminated[0]), bool(truncated[0]), {}

    def render(self):
        return self._vector.render() if self.render_mode == "rgb_array" else None

    def close(self):
        self._vector.close()
