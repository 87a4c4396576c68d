"""RND: a bonus for observations that were seldom seen (Burda et al. 2019).

A network P learns to give what a random, frozen network T gives. Where it was not trained it is
wrong, so the bonus of a step into s' is

    r = e(s') / (running deviation of e),    e(s) = mean over the outputs of (P(x) - T(x))^2,

where x is the observation, normalised and clipped. There are no skills. As in URLB the bonus is not
centred; URLB pays it for s instead of s', one step earlier.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from dusdi import normalise
from dusdi.methods.base import Method, MethodSettings
from dusdi.nets import EnsembleMLP
from dusdi.presets import PLAIN_SAC
from dusdi.settings import POSITIVE, WIDEST, setting
from dusdi.skill_space import SkillSpace

CLIP = 5.0  # of what the networks see, in deviations
EPSILON = 1e-5  # added to the variances of a batch


@dataclasses.dataclass(frozen=True)
class RndSettings(MethodSettings):
    """The settings of RND."""

    rnd_hidden: tuple[int, ...] = setting(
        (1024, 1024), "hidden layers of both networks (URLB: 1024,1024)", low=1, high=WIDEST
    )
    rnd_outputs: int = setting(512, "outputs of both networks (URLB: 512)", low=1, high=WIDEST)
    rnd_lr: float = setting(1e-4, "learning rate of the predictor (URLB: 1e-4)", low=POSITIVE)
    batch_norm: bool = setting(
        True, "the networks see observations normalised by the moments of the batch (URLB: yes)"
    )


class RndState(struct.PyTreeNode):
    """`moments` are those of all errors so far."""

    target: Any
    params: Any
    optimiser: optax.OptState
    moments: normalise.Normaliser


class Rnd(Method):
    """Novelty of all of the observation."""

    name = "rnd"
    Settings = RndSettings
    grid = {"discount": (0.93, 0.99), "target_entropy": (-0.5, 0.0)}
    used_by = "fine-tuning"
    experiments = ("fig4",)
    presets = {
        "paper": dict(discount=0.99),
        "fast": {
            **PLAIN_SAC,
            "episode_length": 0,
            "alpha": 0.02,  # bonuses get smaller
            "rnd_hidden": (256, 256),
            "rnd_outputs": 128,
            "rnd_lr": 1e-3,
            "batch_norm": False,  # all networks see normalised observations
        },
        "debug": dict(rnd_hidden=(16, 16), rnd_outputs=8),
    }

    def __init__(self, spec, settings: RndSettings):
        self.skill_space = SkillSpace(())
        self.channels = ("bonus",)
        self._batch_norm = settings.batch_norm
        self._inputs = spec.observation_size
        self._network = EnsembleMLP(1, settings.rnd_hidden, settings.rnd_outputs)
        self._optimiser = optax.adam(settings.rnd_lr)

    def init(self, key):
        keys = jax.random.split(key)
        target, params = (self._network.init(key, jnp.zeros((1, self._inputs))) for key in keys)
        return RndState(target, params, self._optimiser.init(params), normalise.init(1))

    def _seen(self, observation: jax.Array) -> jax.Array:
        if self._batch_norm:
            centred = observation - observation.mean(0)
            observation = centred / jnp.sqrt(observation.var(0) + EPSILON)
        return jnp.clip(observation, -CLIP, CLIP)

    def errors(self, state: RndState, params: Any, batch) -> jax.Array:
        """e(s'), [B]."""
        seen = self._seen(batch.next_observation)
        wanted: Any = self._network.apply(state.target, seen)
        given: Any = self._network.apply(params, seen)
        return jnp.mean((given - jax.lax.stop_gradient(wanted))[0] ** 2, axis=-1)

    def update(self, state: RndState, key, batch, step):
        del key, step

        def loss_fn(params):
            return self.errors(state, params, batch).mean()

        loss, grads = jax.value_and_grad(loss_fn)(state.params)
        updates, optimiser = self._optimiser.update(grads, state.optimiser)
        params = optax.apply_updates(state.params, updates)
        moments = normalise.update(state.moments, self.errors(state, params, batch)[:, None])
        state = state.replace(params=params, optimiser=optimiser, moments=moments)
        return state, {"error": loss}

    def reward(self, state: RndState, key, batch, step):
        del key, step
        error = self.errors(state, state.params, batch)[:, None]
        return jax.lax.stop_gradient(error / (jnp.sqrt(state.moments.variance) + 1e-8))

    def headline(self, row):
        return {"error": row["error"]}
