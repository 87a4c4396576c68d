"""Continuous values: points in a box, and directions."""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from dusdi.errors import UsageError
from dusdi.spaces.base import Grouping, LogRatio, Space, is_whole

LOG_2PI = math.log(2 * math.pi)
INITIAL_LOG_STD = -0.5  # of a policy over continuous components
MOST_DIMENSIONS = 1_000


@dataclasses.dataclass(frozen=True)
class _Continuous(Space):
    """What boxes and spheres share: m numbers, and a policy that draws them from a Gaussian."""

    m: int = 2

    grouping_note = (
        "Of a continuous component z, one number z[i] is shown, by thirds of its values."
    )

    def _check_dimensions(self, least: int) -> None:
        if not is_whole(self.m) or not least <= self.m <= MOST_DIMENSIONS:
            range_text = f"{least} to {MOST_DIMENSIONS:,} dimensions"
            raise UsageError(f"a {self.kind} component has {range_text}, not {self.m!r}")

    @property
    def width(self) -> int:
        return self.m

    @property
    def size(self) -> int:
        return self.m

    def encode(self, value, xp=jnp):
        return xp.asarray(value).astype(np.float32)

    def groupings(self, value):
        return [_thirds(column, f"z[{i}]") for i, column in enumerate(value.T)]

    def merged(self, others, most):
        return type(self)(sum(other.m for other in (self, *others)))

    @property
    def policy_parameters(self) -> np.ndarray:
        return np.full(self.m, INITIAL_LOG_STD, np.float32)

    def draw(self, key, out, free):
        return out + jnp.exp(free) * jax.random.normal(key, out.shape)

    def log_prob(self, out, free, choice):
        density = -0.5 * ((choice - out) / jnp.exp(free)) ** 2 - free - 0.5 * LOG_2PI
        return density.sum(-1)

    def entropy(self, out, free):
        entropy = jnp.sum(free + 0.5 * (1 + LOG_2PI), axis=-1)
        return jnp.broadcast_to(entropy, out.shape[:-1])

    def mode(self, out):
        return self.bounded(out)


@dataclasses.dataclass(frozen=True)
class Box(_Continuous):
    """A point in [-1, 1]^m, drawn uniformly; a discriminator is a Gaussian with its own deviations.

    The score is the share of the variance explained: 1 - (error / variance of the prior).
    """

    kind = "box"
    score_name = "explained_variance"

    def __post_init__(self):
        self._check_dimensions(1)

    @property
    def head_size(self) -> int:
        return 2 * self.m

    def sample(self, key, shape):
        return jax.random.uniform(key, (*shape, self.m), minval=-1.0, maxval=1.0)

    def decode(self, code):
        return np.clip(code, -1.0, 1.0)

    def check(self, value):
        return bool((np.abs(value) <= 1).all())

    def describe(self):
        return f"{self.m} numbers from -1 to 1"

    def log_ratio(self, head, value, background=False):
        mean, log_std = jnp.split(head, 2, axis=-1)
        mean = jnp.tanh(mean)
        log_std = jnp.clip(log_std, -4.0, 1.0)
        precision = jnp.exp(-2 * log_std)
        log_prior = -math.log(2.0)  # of each dimension
        normaliser = log_std + 0.5 * LOG_2PI + log_prior
        at_value = jnp.sum(-0.5 * (value - mean) ** 2 * precision - normaliser, axis=-1)
        # E (z - mean)^2 = 1/3 + mean^2 for z uniform in [-1, 1].
        over_prior = jnp.sum(-0.5 * (1 / 3 + mean**2) * precision - normaliser, axis=-1)
        score = 1 - 3 * jnp.mean((value - mean) ** 2, axis=-1)
        return LogRatio(at_value, over_prior, score)

    def bounded(self, choice):
        return jnp.clip(choice, -1.0, 1.0)


@dataclasses.dataclass(frozen=True)
class Sphere(_Continuous):
    """A direction in m dimensions, drawn uniformly; a discriminator is a von Mises-Fisher density.

    The score is the cosine between the value and the predicted direction.
    """

    kind = "sphere"
    score_name = "cosine"
    sharpest = 50.0  # the largest concentration of a discriminator

    def __post_init__(self):
        self._check_dimensions(2)

    def sample(self, key, shape):
        return unit(jax.random.normal(key, (*shape, self.m)))

    def decode(self, code):
        norm = np.linalg.norm(code, axis=-1, keepdims=True)
        first_axis = np.eye(1, self.m, dtype=np.float32)[0]
        return np.where(norm > 1e-6, code / np.maximum(norm, 1e-6), first_axis)

    def check(self, value):
        return bool((np.abs(np.linalg.norm(value, axis=-1) - 1) < 1e-3).all())

    def describe(self):
        return f"{self.m} numbers whose squares sum to 1"

    def log_ratio(self, head, value, background=False):
        # q(z|s) / p(z) = exp(h.z) / E_p exp(h.z), with concentration |h|.
        norm = jnp.sqrt(jnp.sum(head**2, axis=-1) + 1e-12)
        concentration = jnp.minimum(norm, self.sharpest)
        cosine = jnp.sum(head * value, axis=-1) / norm
        normaliser = self._log_mean_exp(concentration)
        return LogRatio(concentration * cosine - normaliser, -normaliser, cosine)

    def _log_mean_exp(self, concentration: jax.Array) -> jax.Array:
        """log E exp(concentration * t), where t is one coordinate of a random direction."""
        nodes, weights = _quadrature(self.m)
        return jax.nn.logsumexp(concentration[..., None] * nodes, b=weights, axis=-1)

    def bounded(self, choice):
        return unit(choice)


def unit(vector: jax.Array) -> jax.Array:
    """Vectors [..., n] scaled to length 1."""
    return vector / jnp.sqrt(jnp.sum(vector**2, axis=-1, keepdims=True) + 1e-12)


def _thirds(values: np.ndarray, name: str) -> Grouping:
    """Rows by the thirds of a number, which are named by their bounds."""
    low, high = np.quantile(values, (1 / 3, 2 / 3))
    names = [f"{name} < {low:.2f}", f"{low:.2f} to {high:.2f}", f"{name} > {high:.2f}"]
    return np.digitize(values, (low, high)), names


@functools.cache
def _quadrature(m: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for means over a coordinate of a random direction in m dimensions.

    Its density is proportional to (1 - t^2)^((m - 3) / 2), the weight of Gegenbauer polynomials.
    """
    nodes, weights = special.roots_gegenbauer(48, (m - 2) / 2)
    return nodes.astype(np.float32), (weights / weights.sum()).astype(np.float32)
