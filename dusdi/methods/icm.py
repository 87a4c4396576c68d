"""ICM: curiosity, a bonus for steps that a model of the world predicts badly (Pathak et al. 2017).

There are no skills. As in URLB, the model F predicts the next observation itself, and the bonus is

    r = log(1 + |s' - F(s, a)|).

On observations of states, the features of ICM are the state, so its inverse model would share
nothing with F and have no influence on the bonus; it is left out.
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


@dataclasses.dataclass(frozen=True)
class IcmSettings(MethodSettings):
    """The settings of ICM."""

    model_hidden: tuple[int, ...] = setting(
        (1024,), "hidden layers of the forward model (URLB: 1024)", low=1, high=WIDEST
    )
    model_lr: float = setting(1e-4, "learning rate of the model (URLB: 1e-4)", low=POSITIVE)
    normalise_bonus: bool = setting(
        False, "the bonus is divided by its running deviation (URLB: no, but errors of three steps)"
    )


class IcmState(struct.PyTreeNode):
    """`moments` are those of all bonuses so far, before they are normalised."""

    params: Any
    optimiser: optax.OptState
    moments: normalise.Normaliser


class Icm(Method):
    """Curiosity about all of the observation."""

    name = "icm"
    Settings = IcmSettings
    grid = {"discount": (0.93, 0.99), "target_entropy": (-0.5, 0.0)}
    used_by = "fine-tuning"
    experiments = ("fig4",)
    presets = {
        "paper": dict(discount=0.99),
        "fast": {
            **PLAIN_SAC,
            "episode_length": 0,
            "model_hidden": (256,),
            "model_lr": 1e-3,
            "normalise_bonus": True,
        },
        "debug": dict(model_hidden=(16,)),
    }

    def __init__(self, spec, settings: IcmSettings):
        self.skill_space = SkillSpace(())
        self.channels = ("bonus",)
        self._settings = settings
        self._inputs = spec.observation_size + spec.action_size
        self._model = EnsembleMLP(1, settings.model_hidden, spec.observation_size)
        self._optimiser = optax.adam(settings.model_lr)

    def init(self, key):
        params = self._model.init(key, jnp.zeros((1, self._inputs)))
        return IcmState(params, self._optimiser.init(params), normalise.init(1))

    def errors(self, params: Any, batch) -> jax.Array:
        """|s' - F(s, a)|, [B]."""
        seen = jnp.concatenate([batch.observation, batch.action], axis=-1)
        predicted: Any = self._model.apply(params, seen)
        square = jnp.sum((batch.next_observation - predicted[0]) ** 2, axis=-1)
        return jnp.sqrt(square + 1e-8)  # the root has no gradient at 0

    def update(self, state: IcmState, key, batch, step):
        del key, step

        def loss_fn(params):
            return self.errors(params, batch).mean()

        loss, grads = jax.value_and_grad(loss_fn)(state.params)
        updates, optimiser = self._optimiser.update(grads, state.optimiser)
        params = optax.apply_updates(state.params, updates)
        bonus = jnp.log1p(self.errors(params, batch))
        moments = normalise.update(state.moments, bonus[:, None])
        return IcmState(params, optimiser, moments), {"error": loss}

    def reward(self, state: IcmState, key, batch, step):
        del key, step
        bonus = jnp.log1p(self.errors(state.params, batch))[:, None]
        if self._settings.normalise_bonus:
            bonus /= jnp.sqrt(state.moments.variance) + 1e-8
        return jax.lax.stop_gradient(bonus)

    def headline(self, row):
        return {"error": row["error"]}
