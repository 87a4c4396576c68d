"""DUSDi's entanglement penalty: what other factors know of a component costs (Eq. 4).

Discriminators q_psi(z^i | s^-i) see all controlled factors but the component's own. The penalty is
lambda times what they know of z^i, whatever the component is paid for.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.settings import POSITIVE, WIDEST, Group, setting
from dusdi.skill_space import SkillSpace
from dusdi.sources.discriminate import Discriminators, DiscriminatorState
from dusdi.types import Batch


@dataclasses.dataclass(frozen=True)
class PenaltySettings(Group):
    """How the q_psi are built and trained, and what their knowledge costs."""

    penalty_weight: float = setting(0.1, "lambda, weight of the entanglement penalty (paper: 0.1)")
    penalty: Literal["paper", "club"] = setting(
        "paper", "estimate of I(S^-i; Z^i): the paper's lower bound, or CLUB's upper bound"
    )
    penalty_start: int = setting(0, "environment steps before the penalty counts (release: 1 M)")
    penalty_hidden: tuple[int, ...] = setting(
        (1024, 1024), "hidden layers of each q_psi (paper: 1024,1024)", low=1, high=WIDEST
    )
    penalty_lr: float = setting(1e-4, "learning rate of each q_psi (paper: 1e-4)", low=POSITIVE)


@dataclasses.dataclass(frozen=True, eq=False)
class Penalty(Discriminators):
    """The q_psi of all components, and what they cost.

    Attributes:
      weight: lambda.
      estimate: of I(S^-i; Z^i).
      start: environment steps before it counts.
    """

    weight: float = 0.1
    estimate: Literal["paper", "club"] = "paper"
    start: int = 0

    def cost(self, state: DiscriminatorState, batch: Batch, step: jax.Array) -> jax.Array:
        """The penalty of each component, [B, C]; 0 in steps that do not count."""
        ratio = self.log_ratio(state.params, batch)
        entanglement = ratio.at_value
        if self.estimate == "club":
            # CLUB (Cheng et al. 2020): log q(z|s) - E_{z'~p} log q(z'|s), an upper bound of the
            # information if q is good.
            entanglement -= ratio.over_prior
        weight = jnp.where(step >= self.start, self.weight, 0.0)
        return weight * entanglement * self.counts(batch)[:, None]


def entanglement_penalty(
    skill_space: SkillSpace, masks: np.ndarray, settings: PenaltySettings, mask_steps: int
) -> Penalty:
    """The penalty of all components, whose factors have these masks [C, D]."""
    return Penalty(
        skill_space=skill_space,
        targets=tuple(range(len(skill_space))),
        masks=masks.any(0) & ~masks,
        hidden=settings.penalty_hidden,
        learning_rate=settings.penalty_lr,
        mask_steps=mask_steps,
        name="penalty",
        prefix="penalty_",
        weight=settings.penalty_weight,
        estimate=settings.penalty,
        start=settings.penalty_start,
    )
