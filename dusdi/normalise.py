"""Running mean and deviation of observations, so that networks see entries of comparable size."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from dusdi.types import Array


class Normaliser(struct.PyTreeNode):
    """Moments of all observations seen: `count` [], `mean` [D], `variance` [D]."""

    count: jax.Array
    mean: jax.Array
    variance: jax.Array


def init(size: int) -> Normaliser:
    return Normaliser(jnp.float32(0), jnp.zeros(size), jnp.ones(size))


def update(normaliser: Normaliser, observations: jax.Array) -> Normaliser:
    """Adds a batch [B, D] to the moments (Chan et al. 1979)."""
    size = observations.shape[0]
    total = normaliser.count + size
    delta = observations.mean(0) - normaliser.mean
    squares = normaliser.variance * normaliser.count + observations.var(0) * size
    squares += delta**2 * normaliser.count * size / total
    return Normaliser(total, normaliser.mean + delta * size / total, squares / total)


def apply(normaliser: Normaliser, observations: Array) -> jax.Array:
    """Observations with mean 0 and deviation 1, cut at ten deviations; before any update, unchanged but for the cut."""
    scaled = (observations - normaliser.mean) / jnp.sqrt(normaliser.variance + 1e-6)
    return jnp.clip(scaled, -10.0, 10.0)
