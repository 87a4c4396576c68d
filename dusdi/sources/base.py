"""What a source of reward is: pure functions around a state, for some components of a skill."""

from __future__ import annotations

from typing import Any, Protocol

import jax

from dusdi.types import Batch, Metrics

SourceState = Any  # a pytree, different in each source


class Source(Protocol):
    """Pays some components of a skill, each in a column of its own.

    Attributes:
      targets: the components that it pays, by their place in the skill.
    """

    @property
    def targets(self) -> tuple[int, ...]: ...

    def init(self, key: jax.Array) -> SourceState:
        """The state before learning."""

    def update(
        self, state: SourceState, key: jax.Array, batch: Batch, step: jax.Array
    ) -> tuple[SourceState, Metrics]:
        """One step of learning on a batch; `step` counts environment steps."""

    def reward(self, state: SourceState, batch: Batch, step: jax.Array) -> jax.Array:
        """The reward of a batch, [B, targets]."""
