"""Running mean and deviation of observations, so that networks see entries of comparable size."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from dusdi.types import Array

CLIP = 10.0  # deviations that networks see at most
EPSILON = 1e-6  # added to variances, so that constant entries do no harm


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


def apply(normaliser: Normaliser, observations: Array, *, used: bool = True) -> jax.Array:
    """Observations with mean 0 and deviation 1, clipped at ten; as they are if not `used`."""
    if not used:
        return jnp.asarray(observations)
    scaled = (observations - normaliser.mean) / jnp.sqrt(normaliser.variance + EPSILON)
    return jnp.clip(scaled, -CLIP, CLIP)
