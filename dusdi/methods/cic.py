"""CIC: diverse states, whose features are learned by contrasting skills (Laskin et al. 2022).

An encoder g of the controlled entries of the state, a key p(g(s), g(s')) and a query q(z) are
trained so that the query of a skill is near the key of its own transitions (InfoNCE). The reward is
the entropy of states in the space of g, by their k nearest neighbours in the batch; as in the
authors' code it has no term of z.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct

from dusdi import normalise
from dusdi.methods.base import Method, MethodSettings, SingleSkillSettings
from dusdi.nets import EnsembleMLP
from dusdi.presets import PLAIN_SAC
from dusdi.settings import POSITIVE, WIDEST, setting
from dusdi.spaces import unit

FLOOR = 1e-6  # of the sum over other pairs in the contrastive loss


@dataclasses.dataclass(frozen=True)
class CicSettings(SingleSkillSettings, MethodSettings):
    """The settings of CIC."""

    component: str = setting(
        "box:64",
        "space of the single skill component: categorical:K, box:M or sphere:M (CIC: 64-D)",
    )
    cic_hidden: tuple[int, ...] = setting(
        (1024, 1024), "hidden layers of encoder, key and query (CIC: 1024,1024)", low=1, high=WIDEST
    )
    cic_features: int = setting(
        64, "outputs of encoder, key and query (CIC: 64)", low=1, high=WIDEST
    )
    cic_lr: float = setting(
        1e-4, "learning rate of encoder, key and query (CIC: 1e-4)", low=POSITIVE
    )
    contrast_temperature: float = setting(
        0.5, "T, by which cosines are divided in the contrastive loss (CIC: 0.5)", low=0.02
    )
    neighbours: int = setting(
        16,
        "k, nearest states in the batch that count, the state itself among them (CIC: 16)",
        low=2,
    )
    neighbour_clip: float = setting(
        5e-4, "what is subtracted from normalised distances, at most all of them (CIC: 5e-4)"
    )


class CicState(struct.PyTreeNode):
    """`moments` are those of the distances to neighbours."""

    params: dict[str, Any]
    optimiser: optax.OptState
    moments: normalise.Normaliser


class Cic(Method):
    """One component of many dimensions."""

    name = "cic"
    Settings = CicSettings
    grid = {"discount": (0.93, 0.99), "target_entropy": (-0.5, 0.0)}
    experiments = ("fig4", "fig5")
    presets = {
        "paper": dict(discount=0.99),
        "fast": {**PLAIN_SAC, "cic_hidden": (256, 256), "cic_lr": 1e-3},
        "debug": dict(cic_hidden=(16, 16), cic_features=8),
    }

    def __init__(self, spec, settings: CicSettings):
        self.skill_space = settings.single_space()
        self.channels = self.skill_space.names
        self._settings = settings
        self._entries = np.flatnonzero(spec.factor_masks().any(0))
        self._network = EnsembleMLP(1, settings.cic_hidden, settings.cic_features)
        self._optimiser = optax.adam(settings.cic_lr)

    def init(self, key):
        inputs = {
            "encoder": len(self._entries),
            "key": 2 * self._settings.cic_features,
            "query": self.skill_space.size,
        }
        keys = jax.random.split(key, len(inputs))
        params = {
            name: self._network.init(key, jnp.zeros((1, size)))
            for key, (name, size) in zip(keys, inputs.items(), strict=True)
        }
        return CicState(params, self._optimiser.init(params), normalise.init(1))

    def _apply(self, params: Any, x: jax.Array) -> jax.Array:
        out: Any = self._network.apply(params, x)
        return out[0]

    def _encoded(self, params: dict[str, Any], observation: jax.Array) -> jax.Array:
        return self._apply(params["encoder"], observation[:, self._entries])

    def _contrast(self, params: dict[str, Any], batch) -> tuple[jax.Array, jax.Array]:
        """The contrastive loss, and how often a skill's own transition is the nearest."""
        before = self._encoded(params, batch.observation)
        after = self._encoded(params, batch.next_observation)
        key = self._apply(params["key"], jnp.concatenate([before, after], axis=-1))
        query = self._apply(params["query"], self.skill_space.encode(batch.skill))
        cosines = unit(query) @ unit(key).T
        found = (cosines.argmax(1) == jnp.arange(len(cosines))).mean()
        return contrastive_loss(cosines, self._settings.contrast_temperature), found

    def _distances(self, params: dict[str, Any], batch) -> jax.Array:
        """The distances of next states to their neighbours in the batch, [B, k]."""
        count = min(self._settings.neighbours, len(batch.next_observation))
        return nearest_distances(self._encoded(params, batch.next_observation), count)

    def update(self, state: CicState, key, batch, step):
        del key, step
        learn = jax.value_and_grad(self._contrast, has_aux=True)
        (loss, found), grads = learn(state.params, batch)
        updates, optimiser = self._optimiser.update(grads, state.optimiser)
        params = optax.apply_updates(state.params, updates)
        distances = self._distances(params, batch)
        moments = normalise.update(state.moments, distances.reshape(-1, 1))
        metrics = {
            "neighbour_distance": distances.mean(),
            "contrastive_accuracy": found,
            "loss/contrastive": loss,
        }
        return CicState(params, optimiser, moments), metrics

    def reward(self, state: CicState, key, batch, step):
        del key, step
        distances = self._distances(state.params, batch)
        # The authors divide by the running variance, which they call a deviation.
        scaled = distances / state.moments.variance - self._settings.neighbour_clip
        reward = jnp.log1p(jnp.maximum(scaled, 0.0).mean(-1, keepdims=True))
        return jax.lax.stop_gradient(reward)

    def headline(self, row):
        return {"state_entropy": row["reward/skill"]}


def contrastive_loss(cosines: jax.Array, temperature: float) -> jax.Array:
    """The mean of -log(e^{C_ii} / sum_{j != i} e^{C_ij}) for C = cosines [B, B] / temperature.

    The pair itself is taken out of the sum as if its cosine were 1, as the authors do it. So in
    batches of fewer than e^(2 / temperature) rows, the loss is least if all cosines are -1.
    """
    scaled = cosines / temperature
    others = jnp.exp(scaled).sum(1) - math.exp(1 / temperature)
    return jnp.mean(jnp.log(jnp.maximum(others, FLOOR) + FLOOR) - jnp.diag(scaled))


def nearest_distances(x: jax.Array, count: int) -> jax.Array:
    """The smallest distances of rows of x [B, n] to all rows, themselves included, [B, count]."""
    squares = jnp.sum(x**2, axis=-1)
    # |a - b|^2 = |a|^2 + |b|^2 - 2 a.b, which rounding may make negative.
    between = jnp.maximum(squares[:, None] + squares - 2 * x @ x.T, 0.0)
    between = jnp.where(jnp.eye(len(x), dtype=bool), 0.0, between)
    nearest, _ = jax.lax.top_k(-between, count)
    return jnp.sqrt(-nearest)
