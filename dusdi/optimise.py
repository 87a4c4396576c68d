"""The optimiser of all networks: Adam, with a learning rate that may fall to zero over the run."""

from __future__ import annotations

import optax

from dusdi.config import Config


def adam(learning_rate: float, config: Config) -> optax.GradientTransformation:
    """Adam at a constant rate, or at one that falls linearly to zero at the end of the run."""
    if not config.decay_lr:
        return optax.adam(learning_rate)
    updates = max(1, (config.steps - config.random_steps) // config.steps_per_update)
    return optax.adam(optax.linear_schedule(learning_rate, 0.0, updates))
