"""Replay: a ring of transitions with pure `init`, `add` and `sample`.

The place to write follows from the number of transitions ever added, which the caller keeps. It is
the same for all seeds, so that a vmapped `add` stays one contiguous write.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from dusdi.types import Transition


def init(example: Transition, capacity: int) -> Transition:
    """Room for `capacity` transitions like those of the batch `example`."""
    return jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape[1:]), x.dtype), example)


def add(replay: Transition, batch: Transition, added: jax.Array) -> Transition:
    """Writes a batch after the `added` transitions before it.

    The capacity must be a multiple of the batch size.
    """
    capacity = replay.terminated.shape[0]
    start = added % capacity

    def write(ring, rows):
        return jax.lax.dynamic_update_slice_in_dim(ring, rows.astype(ring.dtype), start, axis=0)

    return jax.tree.map(write, replay, batch)


def sample(replay: Transition, key: jax.Array, count: int, added: jax.Array) -> Transition:
    """`count` transitions drawn uniformly, with replacement, from those present."""
    capacity = replay.terminated.shape[0]
    rows = jax.random.randint(key, (count,), 0, jnp.minimum(added, capacity))
    return jax.tree.map(lambda ring: ring.at[rows].get(mode="promise_in_bounds"), replay)
