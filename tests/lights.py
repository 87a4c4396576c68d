"""A task with a known answer, and perfect skills for it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from probes import linear_skills, make_space

from dusdi.envs.base import JaxWorld
from dusdi.spaces import Categorical
from dusdi.types import Factor, WorldSpec


class Lights(JaxWorld):
    """Each of three lamps is on while its action is positive; a lamp that is as wanted pays 1.

    What is wanted are the last three observation entries, drawn anew in each episode of ten steps.
    """

    causal = np.eye(3, dtype=bool)
    spec = WorldSpec(
        "lights/as-wanted",
        {},
        observation_size=6,
        action_size=3,
        factors=(
            Factor("a", (0,)),
            Factor("b", (1,)),
            Factor("c", (2,)),
            Factor("wanted", (3, 4, 5), controlled=False),
        ),
        episode_length=10,
        channels=("a", "b", "c"),
    )

    def reset(self, key):
        return jnp.concatenate([jnp.zeros(3), jax.random.bernoulli(key, shape=(3,)).astype(float)])

    def step(self, state, action, key):
        return state.at[:3].set(action > 0)

    def observe(self, state):
        return state

    def reward(self, state):
        return (state[:3] == state[3:]).astype(float)

    def render(self, state):
        return np.zeros((8, 8, 3), np.uint8)


LAMPS = dataclasses.replace(
    Lights.spec, name="lights", observation_size=3, factors=Lights.spec.factors[:3], channels=()
)


def switches(skill_length=5):
    """Skills of which component i switches lamp i: value 0 off, value 1 on."""
    space = make_space(a=Categorical(2), b=Categorical(2), c=Categorical(2))
    off_and_on = np.array([[-3.0], [3.0]])
    return linear_skills(LAMPS, space, np.kron(np.eye(3), off_and_on), skill_length)
