"""How hard changes of the state are to predict: the distance of CSD (Park et al. 2023).

A Gaussian q(s' - s | s) with means mu(s) and deviations sigma(s) is fitted to the changes that
occur. What it predicts well is easily controlled and counts little; what it predicts badly counts
much.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct

from dusdi.nets import EnsembleMLP
from dusdi.settings import POSITIVE, WIDEST, Group, setting
from dusdi.types import Batch

LARGEST_DEVIATION = 1e6


@dataclasses.dataclass(frozen=True)
class ControllabilitySettings(Group):
    """How the density of changes is built and trained."""

    density_hidden: tuple[int, ...] = setting(
        (512, 512),
        "hidden layers of mu and of sigma in q(s'-s|s) (CSD: 512,512)",
        low=1,
        high=WIDEST,
    )
    density_lr: float = setting(1e-4, "learning rate of q(s'-s|s) (CSD: 1e-4)", low=POSITIVE)
    least_deviation: float = setting(
        1e-6,
        "smallest sigma of q(s'-s|s); with a small one, entries that never move outweigh the rest "
        "(CSD: 1e-6)",
        low=POSITIVE,
        high=1,
    )


class ControllabilityState(struct.PyTreeNode):
    params: Any
    optimiser: optax.OptState


@dataclasses.dataclass(frozen=True, eq=False)
class Controllability:
    """The density of changes of some observation entries, given these entries.

    Attributes:
      entries: bool [D], the n entries that are seen and predicted.
      settings: of the networks.
    """

    entries: np.ndarray
    settings: ControllabilitySettings

    @functools.cached_property
    def columns(self) -> np.ndarray:
        """The places of these entries, [n]."""
        return np.flatnonzero(self.entries)

    @property
    def _networks(self) -> EnsembleMLP:
        """Two separate networks: one for the means, one for the log deviations."""
        return EnsembleMLP(2, self.settings.density_hidden, len(self.columns))

    @property
    def _optimiser(self) -> optax.GradientTransformation:
        return optax.adam(self.settings.density_lr)

    def init(self, key: jax.Array) -> ControllabilityState:
        params = self._networks.init(key, jnp.zeros((1, len(self.columns))))
        return ControllabilityState(params, self._optimiser.init(params))

    def _density(self, params: Any, batch: Batch) -> tuple[jax.Array, jax.Array]:
        """The errors s' - s - mu(s) and the log deviations, each [B, n]."""
        before = batch.observation[:, self.columns]
        out: Any = self._networks.apply(params, before)
        mean, log_std = out
        least = math.log(self.settings.least_deviation)
        log_std = jnp.clip(log_std, least, math.log(LARGEST_DEVIATION))
        return batch.next_observation[:, self.columns] - before - mean, log_std

    def surprise(self, params: Any, batch: Batch) -> jax.Array:
        """(s'_j - s_j - mu_j)^2 w_j^2 for each entry, [B, n].

        The weights w_j = (1 / sigma_j) / (geometric mean of 1 / sigma) have geometric mean 1, so
        only the relative predictability of entries counts.
        """
        error, log_std = self._density(params, batch)
        log_weight = log_std.mean(-1, keepdims=True) - log_std
        return jax.lax.stop_gradient(error**2 * jnp.exp(2 * log_weight))

    def update(
        self, state: ControllabilityState, batch: Batch
    ) -> tuple[ControllabilityState, jax.Array]:
        """One Adam step on the negative log likelihood; gives its mean over entries, too."""

        def loss_fn(params):
            error, log_std = self._density(params, batch)
            surprise = 0.5 * (error * jnp.exp(-log_std)) ** 2 + log_std
            return jnp.mean(surprise.sum(-1)) + 0.5 * math.log(2 * math.pi) * len(self.columns)

        loss, grads = jax.value_and_grad(loss_fn)(state.params)
        updates, optimiser = self._optimiser.update(grads, state.optimiser)
        params = optax.apply_updates(state.params, updates)
        return ControllabilityState(params, optimiser), loss / len(self.columns)
