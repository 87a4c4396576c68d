"""DUSDi: each skill component moves its own factor and leaves the others alone (the paper, Section 3).

Two discriminators for each component: q_phi sees its own factor, q_psi all other controlled factors. Reward
channel i is what the first knows about z^i, less lambda times what the second knows.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.objectives.base import Objective
from dusdi.objectives.discriminator import Discriminators, DiscriminatorState
from dusdi.skills import factored_space


class Dusdi(Objective):
    def __init__(self, spec, config):
        self.skill_space = factored_space(spec, config)
        self.channels = tuple(factor.name for factor in spec.controlled)
        components = tuple(range(len(self.channels)))
        self.channel_components = components
        self._config = config
        own = spec.factor_masks()
        others = own.any(0) & ~own
        self._discriminators = Discriminators(
            skill_space=self.skill_space,
            masks=np.concatenate([own, others]),
            targets=components * 2,
            names=self.channels + tuple(f"not {name}" for name in self.channels),
            config=config,
        )

    def init(self, key):
        return self._discriminators.init(key)

    def update(self, state, key, batch):
        return self._discriminators.update(state, key, batch)

    def reward(self, state: DiscriminatorState, batch, step):
        log_ratio, over_prior, _ = self._discriminators.log_ratio(state.params, batch)
        association, entanglement = jnp.split(log_ratio, 2, axis=-1)
        if self._config.penalty == "club":
            # CLUB (Cheng et al. 2020): log q(z|s) - E_{z'~p} log q(z'|s), an upper bound of the information if q is good
            entanglement -= jnp.split(over_prior, 2, axis=-1)[1]
        weight = jnp.where(step >= self._config.penalty_start, self._config.penalty_weight, 0.0)
        # Eq. 4: r^i = log q_phi(z^i|s'^i) - lambda log q_psi(z^i|s'^-i), each relative to the prior
        reward = association - weight * entanglement
        return jax.lax.stop_gradient(reward * self._discriminators.counts(batch)[:, None])
