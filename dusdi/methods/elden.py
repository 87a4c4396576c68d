"""ELDEN: a bonus where it is uncertain which factor depends on which (Wang et al. 2023).

An ensemble of models predicts how each factor changes, from all of state and action. Factor j
depends on input i, locally in (s, a), if the prediction's gradient with regard to i is at least a
threshold. The members of the ensemble vote, and the bonus is the variance of their votes,

    r = mean over all pairs (j, i) of Var_e[ 1[ |d f_ej / d x_i| >= theta ] ],

where |d f_ej / d x_i| is summed over the entries of i, and f_ej is the sum of j's entries.

All factors are nodes, controlled or not; each action entry is an input of its own. There are no
skills.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct

from dusdi import normalise
from dusdi.methods.base import Method, MethodSettings
from dusdi.nets import EnsembleMLP, masked_columns
from dusdi.presets import PLAIN_SAC
from dusdi.settings import POSITIVE, WIDEST, setting
from dusdi.skill_space import SkillSpace


@dataclasses.dataclass(frozen=True)
class EldenSettings(MethodSettings):
    """The settings of ELDEN."""

    model_members: int = setting(
        5, "E, models of each factor that vote (ELDEN: 5)", low=2, high=1_000
    )
    model_hidden: tuple[int, ...] = setting(
        (128, 128),
        "hidden layers of each model (ELDEN: attention over tokens of 64 units)",
        low=1,
        high=WIDEST,
    )
    model_lr: float = setting(1e-5, "learning rate of the models (ELDEN: 1e-5)", low=POSITIVE)
    model_batch: int = setting(
        32, "transitions that each member draws of a batch for itself (ELDEN: 32)", low=1
    )
    dependency_threshold: float = setting(
        0.2,
        "theta, the least gradient of a dependency, in deviations of the change per unit of the "
        "input (ELDEN: 3e-4, in discrete worlds)",
        low=POSITIVE,
    )


class EldenState(struct.PyTreeNode):
    """`changes` are the moments of s' - s, `moments` those of all bonuses so far."""

    params: Any
    optimiser: optax.OptState
    changes: normalise.Normaliser
    moments: normalise.Normaliser


class Elden(Method):
    """Uncertainty about local dependencies between factors."""

    name = "elden"
    Settings = EldenSettings
    grid = {"discount": (0.93, 0.99), "target_entropy": (-0.5, 0.0)}
    used_by = "fine-tuning"
    experiments = ("fig4",)
    presets = {
        "paper": dict(discount=0.99),
        "fast": {**PLAIN_SAC, "episode_length": 0, "model_hidden": (32, 32), "model_lr": 1e-3},
        "debug": dict(model_hidden=(16, 16), model_batch=8),
    }

    def __init__(self, spec, settings: EldenSettings):
        self.skill_space = SkillSpace(())
        self.channels = ("bonus",)
        self._settings = settings
        size = spec.observation_size
        actions = spec.action_size
        factors = len(spec.factors)
        owned = np.zeros((factors, size), bool)
        for row, factor in zip(owned, spec.factors, strict=True):
            row[list(factor.indices)] = True
        # The entries of each factor, [J, m], and which of these are no padding.
        self._columns, self._visible = masked_columns(owned)
        # Which of the entries of (s, a) each of the I inputs consists of, [D + A, I].
        inputs = np.zeros((size + actions, factors + actions), np.float32)
        inputs[:size, :factors] = owned.T
        inputs[size:, factors:] = np.eye(actions)
        self._inputs = inputs
        self.input_names = (
            *(factor.name for factor in spec.factors),
            *(f"action {i}" for i in range(actions)),
        )
        self._size = size
        # One network for each member and factor; those of the first member come first.
        self._models = EnsembleMLP(
            settings.model_members * factors, settings.model_hidden, self._columns.shape[1]
        )
        self._optimiser = optax.adam(settings.model_lr)

    def init(self, key):
        params = self._models.init(key, jnp.zeros((self._models.members, 1, len(self._inputs))))
        return EldenState(
            params=params,
            optimiser=self._optimiser.init(params),
            changes=normalise.init(self._size),
            moments=normalise.init(1),
        )

    def _predicted(self, params: Any, x: jax.Array) -> jax.Array:
        """The changes that networks predict for x [E J, B, D + A]: [E J, B, m], padded with 0."""
        out: Any = self._models.apply(params, x)
        return out * np.tile(self._visible, (self._settings.model_members, 1))[:, None]

    def _scaled_changes(self, changes: normalise.Normaliser, batch) -> jax.Array:
        """s' - s in units of its running deviation, for each factor, [J, B, m]."""
        change = batch.next_observation - batch.observation
        scaled = change / jnp.sqrt(changes.variance + normalise.EPSILON)
        return jnp.moveaxis(scaled[:, self._columns], 1, 0) * self._visible[:, None]

    def gradients(self, params: Any, batch) -> jax.Array:
        """|d f_ej / d x_i|, [E, J, B, I]."""
        x = jnp.concatenate([batch.observation, batch.action], axis=-1)
        each = jnp.broadcast_to(x, (self._models.members, *x.shape))
        # Networks and rows do not influence each other, so one pass gives all gradients.
        gradients = jax.grad(lambda x: self._predicted(params, x).sum())(each)
        found = jnp.abs(gradients) @ self._inputs
        return found.reshape(self._settings.model_members, -1, *found.shape[1:])

    def votes(self, state: EldenState, batch) -> jax.Array:
        """Whether each member says that factor j depends on input i, float32 [E, J, B, I]."""
        found = self.gradients(state.params, batch) >= self._settings.dependency_threshold
        return found.astype(jnp.float32)

    def dependencies(self, state: EldenState, batch) -> jax.Array:
        """The share of members that say that factor j depends on input i, [B, J, I]."""
        return jnp.moveaxis(self.votes(state, batch).mean(0), 1, 0)

    def update(self, state: EldenState, key, batch, step):
        del step
        changes = normalise.update(state.changes, batch.next_observation - batch.observation)
        x = jnp.concatenate([batch.observation, batch.action], axis=-1)
        # Each member draws transitions of its own, which all of its networks learn from.
        shape = (self._settings.model_members, self._settings.model_batch)
        rows = jax.random.randint(key, shape, 0, len(x))
        seen = jnp.repeat(x[rows], len(self._columns), axis=0)
        wanted = jnp.swapaxes(self._scaled_changes(changes, batch)[:, rows], 0, 1)  # [E, J, b, m]
        wanted = wanted.reshape(*seen.shape[:2], -1)

        def loss_fn(params):
            # Summed over networks, so that each learns as if it were alone.
            return jnp.sum((self._predicted(params, seen) - wanted) ** 2) / shape[1]

        loss, grads = jax.value_and_grad(loss_fn)(state.params)
        updates, optimiser = self._optimiser.update(grads, state.optimiser)
        params = optax.apply_updates(state.params, updates)
        state = state.replace(params=params, optimiser=optimiser, changes=changes)
        votes = self.votes(state, batch)
        bonus = disagreement(votes)
        state = state.replace(moments=normalise.update(state.moments, bonus[:, None]))
        metrics = {
            "disagreement": bonus.mean(),
            "dependencies": votes.mean(0).sum((0, 2)).mean() / len(self._columns),
            "model_error": loss / (shape[0] * self._visible.sum()),
        }
        return state, metrics

    def reward(self, state: EldenState, key, batch, step):
        del key, step
        bonus = disagreement(self.votes(state, batch))[:, None]
        # The mean over many pairs is tiny beside any temperature.
        return jax.lax.stop_gradient(bonus / (jnp.sqrt(state.moments.variance) + 1e-8))

    def headline(self, row):
        return {"disagreement": row["disagreement"]}


def disagreement(votes: jax.Array) -> jax.Array:
    """The mean over all pairs of the unbiased variance of votes [E, J, B, I]: [B]."""
    return votes.var(0, ddof=1).mean((0, 2))
