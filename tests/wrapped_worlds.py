"""Small worlds and wrappers with known answers, and rollouts of scripted experts."""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs import HostWorldWrapper, JaxWorld, WorldWrapper
from dusdi.types import Factor, WorldSpec


class EdgeSlider(JaxWorld):
    """A point on a line that starts at 0, moves by up to 0.25 and terminates at -1 and 1."""

    spec = WorldSpec(
        "edge-slider",
        {},
        observation_size=2,
        action_size=1,
        factors=(Factor("place", (0,)), Factor("last move", (1,), controlled=False)),
        episode_length=40,
    )

    def reset(self, key):
        return jnp.zeros(2)

    def step(self, state, action, key):
        move = 0.25 * jnp.clip(action[0], -1.0, 1.0)
        return jnp.stack([jnp.clip(state[0] + move, -1.0, 1.0), move])

    def observe(self, state):
        return state

    def terminated(self, state):
        return jnp.abs(state[0]) >= 1.0

    def render(self, state):
        return np.zeros((8, 8, 3), np.uint8)


def mix(spec):
    """A linear map [D + 2, D] of observations, and the description of the world it makes.

    Entries come in reverse order, those of a factor are rotated, and the first two new entries are
    mixtures of all.
    """
    size = spec.observation_size
    rng = np.random.default_rng(0)
    matrix = np.zeros((size + 2, size), np.float32)
    matrix[:2] = rng.normal(size=(2, size))
    factors = [Factor(f"mixtures of {spec.name}", (0, 1), controlled=False)]
    for factor in spec.factors:
        indices = tuple(size + 1 - index for index in factor.indices)
        rotation, _ = np.linalg.qr(rng.normal(size=(len(indices), len(indices))))
        matrix[np.ix_(indices, factor.indices)] = rotation
        factors.append(Factor(factor.name, indices, factor.controlled))
    name = f"{spec.name}-mixed"
    changes = {"name": name, "observation_size": size + 2, "factors": tuple(factors)}
    return matrix, dataclasses.replace(spec, **changes, categorical=())


class Mixed(WorldWrapper):
    """The same world with another observation."""

    def __init__(self, world):
        super().__init__(world)
        self.matrix, self.spec = mix(world.spec)

    def observe(self, state):
        return self.matrix @ super().observe(state)


class MixedOnHost(HostWorldWrapper):
    """The same for worlds on the host."""

    def __init__(self, world):
        super().__init__(world)
        self.matrix, self.spec = mix(world.spec)

    def observe(self, observations, state):
        return observations @ self.matrix.T


class Remembered(NamedTuple):
    inner: object
    last: jax.Array


class Stacked(WorldWrapper):
    """A wrapper with a state of its own: it also shows the observation before."""

    def __init__(self, world):
        super().__init__(world)
        size = world.spec.observation_size
        before = Factor("before", tuple(range(size, 2 * size)), controlled=False)
        changes = {"observation_size": 2 * size, "factors": (*world.spec.factors, before)}
        self.spec = dataclasses.replace(world.spec, name=f"{world.spec.name}-stacked", **changes)

    def inner_state(self, state):
        return state.inner

    def with_inner_state(self, state, inner):
        return state._replace(inner=inner)

    def reset(self, key):
        inner = self.world.reset(key)
        return Remembered(inner, self.world.observe(inner))

    def step(self, state, action, key):
        last = self.world.observe(state.inner)
        return Remembered(self.world.step(state.inner, action, key), last)

    def observe(self, state):
        return jnp.concatenate([super().observe(state), state.last])


def roll_out(world, act, *, steps, num_envs=8, seed=0):
    """The last states and the rewards [steps, n, K] of a policy `act(state, key)` in JAX."""

    def advance(state, key):
        act_key, step_key = jax.random.split(key)
        action = jax.vmap(act)(state, jax.random.split(act_key, num_envs))
        keys = jax.random.split(step_key, num_envs)
        state = jax.vmap(world.step)(state, action, keys)
        return state, jax.vmap(world.reward)(state)

    @jax.jit
    def run(key):
        reset_key, key = jax.random.split(key)
        start = jax.vmap(world.reset)(jax.random.split(reset_key, num_envs))
        return jax.lax.scan(advance, start, jax.random.split(key, steps))

    return run(jax.random.PRNGKey(seed))


def random_action(world):
    """A policy of uniform actions for `roll_out`."""
    return lambda state, key: jax.random.uniform(key, (world.spec.action_size,), minval=-1.0)


def roll_out_on_host(world, act, *, steps, num_envs=8, seed=0):
    """The last observations and the rewards [steps, n, K] of a policy `act(state)` on the host."""
    vector = world.vector(num_envs)
    observation = vector.reset(seed)
    rewards = []
    for _ in range(steps):
        observation, _, _ = vector.step(act(vector.state()))
        rewards.append(vector.rewards())
    vector.close()
    return observation, np.array(rewards)


@functools.cache
def settle_expert(world):
    """A compiled function of a seed and a skill: the observation after 40 steps of the expert."""

    def advance(state, skill):
        return world.step(state, world.expert(state, skill), jax.random.PRNGKey(0)), None

    def settle(seed, skill):
        state = world.reset(jax.random.PRNGKey(seed))
        state, _ = jax.lax.scan(advance, state, jnp.broadcast_to(skill, (40, *skill.shape)))
        return world.observe(state)

    return jax.jit(settle)
