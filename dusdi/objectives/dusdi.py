"""DUSDi: each skill component moves its own factor and leaves the others alone (the paper, Section 3).

Two discriminators for each component: q_phi sees its own factor, q_psi all other controlled factors. Reward
channel i is what the first knows about z^i, less lambda times what the second knows.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.objectives.base import Objective
from dusdi.objectives.discriminator import Discriminators, DiscriminatorState, own_discriminators
from dusdi.skills import factored_space


class DusdiState(NamedTuple):
    own: DiscriminatorState
    others: DiscriminatorState


class Dusdi(Objective):
    def __init__(self, spec, config):
        self.skill_space = factored_space(spec, config)
        self.channels = tuple(factor.name for factor in spec.controlled)
        components = tuple(range(len(self.channels)))
        self.channel_components = components
        self._config = config
        own = spec.factor_masks()
        self._own = own_discriminators(spec, config, self.skill_space, own, self.channels)
        self._others = Discriminators(
            name="penalty",
            skill_space=self.skill_space,
            masks=own.any(0) & ~own,
            targets=components,
            names=self.channels,
            prefix="penalty_",
            hidden=config.penalty_hidden,
            bumps=0,
            bumpy=np.zeros(spec.observation_size, bool),
            learning_rate=config.penalty_lr,
            mask_steps=config.mask_steps,
        )

    def init(self, key):
        own_key, others_key = jax.random.split(key)
        return DusdiState(self._own.init(own_key), self._others.init(others_key))

    def update(self, state, key, batch, step):
        own, own_metrics = self._own.update(state.own, key, batch, step)
        others, others_metrics = self._others.update(state.others, key, batch, step)
        return DusdiState(own, others), own_metrics | others_metrics

    def reward(self, state: DusdiState, batch, step):
        entanglement, over_prior, _ = self._others.log_ratio(state.others.params, batch)
        if self._config.penalty == "club":
            # CLUB (Cheng et al. 2020): log q(z|s) - E_{z'~p} log q(z'|s), an upper bound of the information if q is good
            entanglement -= over_prior
        weight = jnp.where(step >= self._config.penalty_start, self._config.penalty_weight, 0.0)
        # Eq. 4: r^i = log q_phi(z^i|s'^i) - lambda log q_psi(z^i|s'^-i), each relative to the prior
        association = self._own.reward(state.own.params, batch)
        return jax.lax.stop_gradient(
            association - weight * entanglement * self._own.counts(batch)[:, None]
        )
