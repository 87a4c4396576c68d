"""What there is to say about the space of a component."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.types import Array

Grouping = tuple[np.ndarray, list[str]]  # which group each row is in, int [n], and their names


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
      grouping_note: what to say of the groups of `groupings`.
    """

    kind: ClassVar[str]
    score_name: ClassVar[str]
    grouping_note: ClassVar[str] = ""

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

    def plain(self, value: jax.Array) -> jax.Array:
        """The values as functions of users get them: [..., width], or [...] for categories."""
        return value

    @abc.abstractmethod
    def groupings(self, value: np.ndarray) -> list[Grouping]:
        """The ways to group rows by their values [n, width]."""

    @abc.abstractmethod
    def merged(self, others: Sequence[Self], most: int) -> Space:
        """One space for all combinations of values with those of others of this kind.

        Where combinations can be counted, there are `most` of them at most.
        """

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


def is_whole(number: Any) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool)
