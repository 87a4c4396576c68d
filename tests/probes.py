"""Small worlds, skills and settings with known answers, shared by the tests."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import HostWorld, JaxWorld, VectorWorld
from dusdi.resolve import resolve_pretrain
from dusdi.skill_space import Component, SkillSpace
from dusdi.skills import Skills
from dusdi.types import Batch, Factor, Transition, WorldSpec

#: Sizes with which programs compile within a second or two.
TINY = dict(
    steps=96,
    num_envs=4,
    steps_per_update=4,
    batch_size=8,
    random_steps=16,
    replay_capacity=64,
    log_every=16,
    checkpoint_every=96,
    actor_hidden=(8,),
    critic_hidden=(8,),
    skill_length=5,
)


def settings_for(spec: WorldSpec, method: Any = "dusdi", preset: str = "debug", **fields: Any):
    """The settings of a run of skill discovery in a world of that description."""
    world: Any = SimpleNamespace(spec=spec, presets={}, method_presets={})
    return resolve_pretrain(world, method, preset, fields).settings


def make_space(**spaces: Any) -> SkillSpace:
    """A skill space of named components."""
    return SkillSpace(tuple(Component(name, space) for name, space in spaces.items()))


def make_batch(skill, next_observation=None, observation=None, skill_age=50, size=4) -> Batch:
    """Transitions [B] of a world with observations of `size` entries and two actions."""
    skill = jnp.asarray(skill)
    rows = len(skill)
    after = jnp.zeros((rows, size)) if next_observation is None else next_observation
    before = after if observation is None else observation
    raw = Transition(
        observation=jnp.asarray(before, jnp.float32),
        action=jnp.zeros((rows, 2)),
        reward=jnp.zeros((rows, 0)),
        next_observation=jnp.asarray(after, jnp.float32),
        terminated=jnp.zeros(rows),
        skill=skill,
        skill_age=jnp.full(rows, skill_age),
    )
    return Batch(*raw, raw=raw)


def linear_skills(spec: WorldSpec, space: SkillSpace, matrix: Any, skill_length: int) -> Skills:
    """Skills whose actions are tanh(encoded skill @ matrix), whatever they observe."""
    matrix = np.asarray(matrix, np.float32)
    inputs = np.eye(space.size, dtype=np.float32)
    hidden = 2 * space.size
    unbounded = np.full(spec.observation_size, np.inf, np.float32)
    params = {
        "low": -unbounded,
        "high": unbounded,
        "state_kernel": np.zeros((1, spec.observation_size, hidden), np.float32),
        "state_bias": np.zeros((1, hidden), np.float32),
        "skill_columns": np.arange(space.size, dtype=np.int32)[None],
        "skill_kernel": np.concatenate([inputs, -inputs], axis=1)[None],
        "output_kernel": np.concatenate([matrix, -matrix])[None],
        "output_bias": np.zeros(matrix.shape[1], np.float32),
    }
    description = {
        "world": spec.to_json(),
        "skill_space": space.to_json(),
        "settings": {"method": "linear", "run": {"skill_length": skill_length, "seeds": 1}},
        "seed": 0,
        "step": 1,
    }
    return Skills(description, params)


class Track(JaxWorld):
    """Two points on lines that actions move by up to 1; nothing in it is random.

    The first one terminates the episode once it is at `edge` or beyond. The channels pay the
    places of both.
    """

    spec = WorldSpec(
        "track",
        {},
        observation_size=2,
        action_size=2,
        factors=(Factor("first", (0,)), Factor("second", (1,))),
        episode_length=10,
        channels=("first", "second"),
    )
    causal = np.eye(2, dtype=bool)

    def __init__(self, edge: float = 3.0):
        self._edge = edge

    def reset(self, key):
        return jnp.zeros(2)

    def step(self, state, action, key):
        return state + action

    def observe(self, state):
        return state

    def terminated(self, state):
        return state[0] >= self._edge

    def reward(self, state):
        return state

    def render(self, state):
        return np.full((16, 16, 3), 128, np.uint8)


class HostTrack(HostWorld):
    """The same on the host; it truncates episodes in which the second point is at 6 or beyond."""

    spec = Track.spec
    causal = Track.causal

    def __init__(self, edge: float = 3.0):
        self._edge = edge

    def vector(self, num_envs: int) -> VectorWorld:
        return _TrackVector(self._edge, num_envs)


class _TrackVector(VectorWorld):
    def __init__(self, edge: float, num_envs: int):
        self._edge = edge
        self._place = np.zeros((num_envs, 2), np.float32)

    def reset(self, seed=None, mask=None):
        self._place[slice(None) if mask is None else mask] = 0.0
        return self._place  # the very array that steps change: callers must not rely on copies

    def step(self, actions):
        self._place = self._place + np.asarray(actions, np.float32)
        return self._place.copy(), self._place[:, 0] >= self._edge, self._place[:, 1] >= 6

    def rewards(self):
        return self._place.copy()

    def state(self):
        return self._place.copy()

    def render(self, index=0):
        return np.full((16, 16, 3), 128, np.uint8)


class Noise(JaxWorld):
    """Two points moved by actions and by chance, which start by chance: every seed differs."""

    spec = WorldSpec(
        "noise",
        {},
        observation_size=2,
        action_size=2,
        factors=(Factor("first", (0,)), Factor("second", (1,))),
        episode_length=20,
        channels=("near",),
    )

    def reset(self, key):
        return jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0)

    def step(self, state, action, key):
        return jnp.clip(state + 0.2 * action + 0.05 * jax.random.normal(key, (2,)), -1.0, 1.0)

    def observe(self, state):
        return state

    def reward(self, state):
        return -jnp.sum(state**2, keepdims=True)

    def render(self, state):
        return np.zeros((16, 16, 3), np.uint8)


class Edge(JaxWorld):
    """A ball on a ridge: it rolls off to either side unless it is pushed back; each step pays 1.

    Without pushing it falls within about ten steps; an episode has 50.
    """

    spec = WorldSpec(
        "edge",
        {},
        observation_size=1,
        action_size=1,
        factors=(Factor("ball", (0,)),),
        episode_length=50,
        channels=("upright",),
    )

    def reset(self, key):
        return jax.random.uniform(key, (1,), minval=-0.3, maxval=0.3)

    def step(self, state, action, key):
        return 1.2 * state + 0.2 * action

    def observe(self, state):
        return state

    def terminated(self, state):
        return jnp.abs(state[0]) > 1

    def reward(self, state):
        return jnp.ones(1)

    def render(self, state):
        return np.zeros((16, 16, 3), np.uint8)


class Points(JaxWorld):
    """Four places on lines from -1 to 1, moved by hidden mixtures of four actions.

    Its factors are a line, a bar, and a plane of two dimensions: what a category, a number and a
    direction can say. A state is paid for how near all places are to fixed targets.
    """

    MIX = np.array([[0.8, -0.6, 0, 0], [0.6, 0.8, 0, 0], [0, 0, 0, -1], [0, 0, 1, 0]], np.float32)
    TARGET = np.array([0.9, -0.5, 0.0, 1.0], np.float32)
    spec = WorldSpec(
        "points",
        {},
        observation_size=5,
        action_size=4,
        factors=(
            Factor("line", (0,)),
            Factor("bar", (1,)),
            Factor("plane", (2, 3)),
            Factor("noise", (4,), controlled=False),
        ),
        episode_length=100,
        channels=("near",),
    )

    def reset(self, key):
        return jax.random.uniform(key, (5,), minval=-1.0, maxval=1.0)

    def step(self, state, action, key):
        place = jnp.clip(state[:4] + 0.3 * action @ self.MIX, -1.0, 1.0)
        return jnp.append(place, jax.random.uniform(key, minval=-1.0, maxval=1.0))

    def observe(self, state):
        return state

    def reward(self, state):
        return 1 - jnp.mean((state[:4] - self.TARGET) ** 2, keepdims=True)

    def render(self, state):
        picture = np.zeros((64, 64, 3), np.uint8)
        rows = np.clip(32 + 30 * np.asarray(state[:4]), 0, 63).astype(int)
        picture[rows, [8, 24, 40, 56]] = 255
        return picture
