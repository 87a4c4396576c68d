"""Categories: one of k values."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.errors import UsageError
from dusdi.spaces.base import LogRatio, Space, is_whole

MOST_VALUES = 1_000_000


@dataclasses.dataclass(frozen=True)
class Categorical(Space):
    """One of k values, 0 to k - 1, drawn uniformly; networks see it one-hot."""

    k: int = 5

    kind = "categorical"
    score_name = "accuracy"

    def __post_init__(self):
        if not is_whole(self.k) or not 2 <= self.k <= MOST_VALUES:
            hint = "; with one value it can't express anything" if self.k == 1 else ""
            raise UsageError(
                f"a categorical component has 2 to {MOST_VALUES:,} values, not {self.k!r}{hint}"
            )

    @property
    def chance(self) -> float:
        return 1 / self.k

    @property
    def categories(self) -> int:
        return self.k

    @property
    def width(self) -> int:
        return 1

    @property
    def size(self) -> int:
        return self.k

    def sample(self, key, shape):
        return jax.random.randint(key, (*shape, 1), 0, self.k)

    def encode(self, value, xp=jnp):
        return (xp.asarray(value) == xp.arange(self.k)).astype(np.float32)

    def direction(self, value):
        # Centred one-hots, as in METRA and CSD: 1 at the value, -1 / (k - 1) elsewhere.
        return (self.encode(value) - 1 / self.k) * self.k / (self.k - 1)

    def decode(self, code):
        return code.argmax(-1)[..., None].astype(np.int32)

    def plain(self, value):
        return value[..., 0]

    def groupings(self, value):
        found, group = np.unique(value[:, 0].astype(int), return_inverse=True)
        return [(group.reshape(-1), list(map(str, found)))]

    def merged(self, others, most):
        return Categorical(min(math.prod([self.k, *(other.k for other in others)]), most))

    def check(self, value):
        return bool(
            (value == np.floor(value)).all() and (value >= 0).all() and (value < self.k).all()
        )

    def describe(self):
        return f"whole numbers from 0 to {self.k - 1}"

    def log_ratio(self, head, value, background=False):
        log_q = jax.nn.log_softmax(head)
        if background:
            # The logit of the background class is 0, and those of the values are relative to it.
            log_q = head + self.log_background(head)[..., None]
        value = value.astype(jnp.int32)
        at_value = jnp.take_along_axis(log_q, value, axis=-1)[..., 0]
        # As argmax, which is slow for many values; where several are likeliest, one of them counts.
        likeliest = log_q >= log_q.max(-1, keepdims=True)
        score = (at_value >= log_q.max(-1)) / likeliest.sum(-1)
        return LogRatio(at_value + math.log(self.k), log_q.mean(-1) + math.log(self.k), score)

    def log_background(self, head):
        return -jnp.logaddexp(jax.nn.logsumexp(head, axis=-1), 0.0)

    def draw(self, key, out, free):
        return jax.random.categorical(key, out)[..., None].astype(jnp.int32)

    def log_prob(self, out, free, choice):
        log_p = jax.nn.log_softmax(out)
        return jnp.take_along_axis(log_p, choice.astype(jnp.int32), axis=-1)[..., 0]

    def entropy(self, out, free):
        log_p = jax.nn.log_softmax(out)
        return -jnp.sum(jnp.exp(log_p) * log_p, axis=-1)

    def mode(self, out):
        return out.argmax(-1)[..., None].astype(jnp.int32)
