"""The data that flows through the program, named once.

Shape letters used everywhere: B batch, D observation entries, A action entries, C skill components,
K values of a discrete component, M dimensions of a continuous component, S seeds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from dusdi.errors import WorldError

Array = Any  # jax.Array inside compiled functions, np.ndarray on the host
Metrics = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class Factor:
    """A part of the state: an object, a body part, another agent.

    Attributes:
      name: what people call it.
      indices: the observation entries it consists of.
      controlled: whether a skill component is to control it; proprioceptive factors are not controlled.
    """

    name: str
    indices: tuple[int, ...]
    controlled: bool = True


@dataclasses.dataclass(frozen=True)
class WorldSpec:
    """What a learner knows of a world, and all that a checkpoint stores of it.

    Attributes:
      name: the registered name, or a description for worlds brought by the user.
      options: the arguments that make this world from its name.
      observation_size: D.
      action_size: A; actions are in [-1, 1].
      factors: the parts of the observation; they never overlap.
      episode_length: steps until the world is reset.
      codes: observation entries whose numbers only name things, like the number of a target.
      channels: names of the parts its reward consists of; none if it gives no reward.
    """

    name: str
    options: Mapping[str, Any]
    observation_size: int
    action_size: int
    factors: tuple[Factor, ...]
    episode_length: int = 1000
    codes: tuple[int, ...] = ()
    channels: tuple[str, ...] = ()

    def __post_init__(self):
        check_factors(self.factors, self.observation_size)

    @property
    def controlled(self) -> tuple[Factor, ...]:
        return tuple(factor for factor in self.factors if factor.controlled)

    def factor_masks(self) -> np.ndarray:
        """For each controlled factor, which observation entries it consists of: bool [C, D]."""
        masks = np.zeros((len(self.controlled), self.observation_size), bool)
        for row, factor in zip(masks, self.controlled, strict=True):
            row[list(factor.indices)] = True
        return masks

    def entry_name(self, index: int) -> str:
        """The name of an observation entry, for messages: `position[0]`."""
        for factor in self.factors:
            if index in factor.indices:
                return f"{factor.name}[{factor.indices.index(index)}]"
        return f"observation[{index}]"

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WorldSpec:
        factors = tuple(Factor(f["name"], tuple(f["indices"]), f["controlled"]) for f in data["factors"])
        lists = {name: tuple(data.get(name, ())) for name in ("codes", "channels")}
        return cls(**{**data, **lists, "factors": factors})


def check_factors(factors: tuple[Factor, ...], observation_size: int) -> None:
    """Raises a `WorldError` that names the factor and the entry if the factors are not a sound description."""
    owner: dict[int, str] = {}
    names = [factor.name for factor in factors]
    for factor in factors:
        if names.count(factor.name) > 1:
            raise WorldError(f"two factors are called {factor.name!r}; give each its own name")
        if not factor.indices:
            raise WorldError(f"factor {factor.name!r} has no observation entries")
        for index in factor.indices:
            if not 0 <= index < observation_size:
                raise WorldError(
                    f"factor {factor.name!r} names observation entry {index}, "
                    f"but the observation has entries 0 to {observation_size - 1}"
                )
            if index in owner:
                raise WorldError(
                    f"observation entry {index} is in factor {owner[index]!r} and again in {factor.name!r}; "
                    "factors must not overlap"
                )
            owner[index] = factor.name
    if not any(factor.controlled for factor in factors):
        raise WorldError("no factor is controlled, so there is nothing for a skill to do; name at least one")


class Transition(NamedTuple):
    """One step of experience, or a batch of them.

    Attributes:
      observation: s, [B, D].
      action: a, [B, A].
      reward: what the world paid, [B, K]; K is 0 in worlds without reward.
      next_observation: s', [B, D]; the true successor, also where the world was reset afterwards.
      terminated: [B], true where the world ended for good, so that nothing follows s'.
      skill: z, [B, C] int32 if discrete, [B, C, M] float32 if continuous.
      skill_age: [B] int32, how many steps z had been in force on arriving in s' (1: the first).
    """

    observation: Array
    action: Array
    reward: Array
    next_observation: Array
    terminated: Array
    skill: Array
    skill_age: Array


def mean_metrics(sums: Mapping[str, float], updates: int) -> dict[str, float]:
    """A log row of sums over updates. Returns are counted in episodes, and not a number if none was over."""
    row = {name: value / updates for name, value in sums.items()}
    episodes = sums.get("episodes", 0.0)
    for name in row:
        if name.split("/")[0] == "return":
            row[name] = sums[name] / episodes if episodes else math.nan
    if "episodes" in row:
        row["episodes"] = episodes
    return row


def at_chance(accuracy: float, chance: float) -> bool:
    """Whether a prediction is less than a tenth of the way from a constant guess to certainty."""
    return accuracy - chance < 0.1 * (1.0 - chance)
