"""The spaces that a component of a skill can have: categories, a box, a sphere.

A `Space` says all there is to say about one kind of component: how its values are drawn, stored and
shown to networks, what a discriminator q(z^i|s) and a policy over it look like, and how users write
it. Nothing outside this file asks which kind a component is.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from dusdi.errors import UsageError
from dusdi.types import Array

LOG_2PI = math.log(2 * math.pi)
INITIAL_LOG_STD = -0.5  # of a policy over continuous components
MOST_VALUES = 1_000_000
MOST_DIMENSIONS = 1_000


class LogRatio(NamedTuple):
    """What a discriminator says about the components of a skill, each [...].

    Attributes:
      at_value: log q(z^i|s) - log p(z^i) at the value in force.
      over_prior: its mean over values drawn from the prior.
      score: how well the value is predicted, see `Space.score_name`.
    """

    at_value: jax.Array
    over_prior: jax.Array
    score: jax.Array


@dataclasses.dataclass(frozen=True)
class Space(abc.ABC):
    """The values that a component of a skill can take; `...` are any leading dimensions.

    Attributes:
      kind: its name for users.
      width: numbers that store a value.
      size: network inputs of a value, and outputs of a policy over it.
      head_size: outputs of a discriminator for it.
      score_name: what a discriminator's score is called; 1 is perfect.
      chance: that score for a discriminator that knows nothing.
      categories: how many values there are, None if there is a continuum.
    """

    kind: ClassVar[str]
    score_name: ClassVar[str]

    @property
    def chance(self) -> float:
        return 0.0

    @property
    def categories(self) -> int | None:
        return None

    @property
    def width(self) -> int:
        raise NotImplementedError

    @property
    def size(self) -> int:
        raise NotImplementedError

    @property
    def head_size(self) -> int:
        return self.size

    @abc.abstractmethod
    def sample(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Values drawn from the prior, [*shape, width]."""

    @abc.abstractmethod
    def encode(self, value: Array, xp: Any = jnp) -> Any:
        """Network inputs [..., size] of values [..., width]; `xp` is jax.numpy or numpy."""

    def direction(self, value: jax.Array) -> jax.Array:
        """The directions [..., size] that values [..., width] name, for distances travelled."""
        return self.encode(value)

    @abc.abstractmethod
    def decode(self, code: np.ndarray) -> np.ndarray:
        """The values [..., width] nearest to numbers [..., size] in [-1, 1]."""

    @abc.abstractmethod
    def check(self, value: np.ndarray) -> bool:
        """Whether all values [..., width] are in the space."""

    @abc.abstractmethod
    def describe(self) -> str:
        """What its values are, in words."""

    @abc.abstractmethod
    def log_ratio(self, head: jax.Array, value: jax.Array, background: bool = False) -> LogRatio:
        """What discriminator outputs [..., head_size] say about values [..., width].

        With `background`, a categorical discriminator has one more class, which is no value's.
        """

    def log_background(self, head: jax.Array) -> jax.Array:
        """The log probability of the background class, [...]; 0 where there is none."""
        return jnp.zeros(head.shape[:-1])

    @property
    def policy_parameters(self) -> np.ndarray:
        """Where parameters of a policy start that depend on no observation, [p]."""
        return np.zeros(0, np.float32)

    @abc.abstractmethod
    def draw(self, key: jax.Array, out: jax.Array, free: jax.Array) -> jax.Array:
        """Choices [..., width] by policy outputs [..., size] and free parameters [..., p]."""

    @abc.abstractmethod
    def log_prob(self, out: jax.Array, free: jax.Array, choice: jax.Array) -> jax.Array:
        """The log probability (density) of choices, [...]."""

    @abc.abstractmethod
    def entropy(self, out: jax.Array, free: jax.Array) -> jax.Array:
        """The entropy of the choice, [...]."""

    @abc.abstractmethod
    def mode(self, out: jax.Array) -> jax.Array:
        """The most probable values, [..., width]."""

    def bounded(self, choice: jax.Array) -> jax.Array:
        """The values in the space that choices stand for."""
        return choice


def _is_whole(number: Any) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


@dataclasses.dataclass(frozen=True)
class Categorical(Space):
    """One of k values, 0 to k - 1, drawn uniformly; networks see it one-hot."""

    k: int = 5

    kind = "categorical"
    score_name = "accuracy"

    def __post_init__(self):
        if not _is_whole(self.k) or not 2 <= self.k <= MOST_VALUES:
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


@dataclasses.dataclass(frozen=True)
class _Continuous(Space):
    """What boxes and spheres share: m numbers, and a policy that draws them from a Gaussian."""

    m: int = 2

    def _check_dimensions(self, least: int) -> None:
        if not _is_whole(self.m) or not least <= self.m <= MOST_DIMENSIONS:
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
        return _unit(jax.random.normal(key, (*shape, self.m)))

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
        return _unit(choice)


def _unit(vector: jax.Array) -> jax.Array:
    return vector / jnp.sqrt(jnp.sum(vector**2, axis=-1, keepdims=True) + 1e-12)


@functools.cache
def _quadrature(m: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for means over a coordinate of a random direction in m dimensions.

    Its density is proportional to (1 - t^2)^((m - 3) / 2), the weight of Gegenbauer polynomials.
    """
    nodes, weights = special.roots_gegenbauer(48, (m - 2) / 2)
    return nodes.astype(np.float32), (weights / weights.sum()).astype(np.float32)


SPACES: dict[str, Callable[[int], Space]] = {
    space.kind: space for space in (Categorical, Box, Sphere)
}


def parse_space(text: str | Space) -> Space:
    """A space as users write it: `categorical:5`, `box:2` or `sphere:3`."""
    if isinstance(text, Space):
        return text
    kind, _, number = str(text).partition(":")
    try:
        make = SPACES[kind.strip()]
        size = int(number)
    except (KeyError, ValueError):
        forms = "categorical:K, box:M or sphere:M, for instance categorical:5"
        raise UsageError(f"a component's space is {forms}; got {text!r}") from None
    return make(size)


def space_text(space: Space) -> str:
    """What `parse_space` reads."""
    return f"{space.kind}:{space.size}"
