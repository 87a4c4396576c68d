"""The data that flows through the program, named once.

Shape letters used everywhere: B batch, n environments, D observation entries, A action entries,
C skill components, W numbers that store a skill, K reward channels, S seeds.
"""

from __future__ import annotations

import dataclasses
import json
import math
import operator
import textwrap
from collections.abc import Iterator, Mapping
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
      controlled: whether a skill component is to control it; proprioceptive factors are not.
    """

    name: str
    indices: tuple[int, ...]
    controlled: bool = True

    def __post_init__(self):
        try:
            if any(isinstance(i, bool | np.bool_) for i in self.indices):
                raise TypeError("a mask")
            object.__setattr__(self, "indices", tuple(operator.index(i) for i in self.indices))
        except TypeError:
            raise WorldError(
                f"factor {self.name!r}: {self.indices!r} is not a list of observation entries"
            ) from None


LARGEST_SIZE = 10_000_000


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
      categorical: observation entries that are categories, like the number of a target.
      channels: names of the parts its reward consists of; none if it gives no reward.
    """

    name: str
    options: Mapping[str, Any]
    observation_size: int
    action_size: int
    factors: tuple[Factor, ...]
    episode_length: int = 1000
    categorical: tuple[int, ...] = ()
    channels: tuple[str, ...] = ()

    def __post_init__(self):
        for name in ("observation_size", "action_size", "episode_length"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 1 <= value <= LARGEST_SIZE:
                raise WorldError(
                    f"{name} of a world is a number from 1 to {LARGEST_SIZE:,}, not {value!r}"
                )
        if not isinstance(self.name, str):
            raise WorldError(f"the name of a world is a word, not {self.name!r}")
        if not isinstance(self.options, Mapping):
            raise WorldError(f"the options of a world are names and values, not {self.options!r}")
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
        factors = tuple(
            Factor(f["name"], tuple(f["indices"]), f["controlled"]) for f in data["factors"]
        )
        lists = {name: tuple(data.get(name, ())) for name in ("categorical", "channels")}
        return cls(**{**data, **lists, "factors": factors})


def _is_unicode(text: str) -> bool:
    """Whether a text can be written into a file; bytes that a terminal could not read can't."""
    return text.encode("utf-8", errors="replace").decode() == text


def check_factors(factors: tuple[Factor, ...], observation_size: int) -> None:
    """Raises a `WorldError` that names factor and entry unless the factors are well described."""
    owner: dict[int, str] = {}
    names = [factor.name for factor in factors]
    for factor in factors:
        if (
            not isinstance(factor.name, str)
            or not factor.name.strip()
            or not _is_unicode(factor.name)
        ):
            raise WorldError(f"factors have names that are not empty; {factor.name!r} is no name")
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
                    f"observation entry {index} is in factor {owner[index]!r} and again in "
                    f"{factor.name!r}; factors must not overlap"
                )
            owner[index] = factor.name
    if not any(factor.controlled for factor in factors):
        raise WorldError(
            "no factor is controlled, so there is nothing for a skill to do; name at least one"
        )


#: So many differences of two worlds a message names.
NAMED_DIFFERENCES = 3
#: The fields of a world's description that it says in a few words.
DIFFERENCES = {
    "observation_size": "{} observations",
    "action_size": "{} actions",
    "episode_length": "episodes of {} steps",
    "channels": "reward channels {}",
    "categorical": "categories in entries {}",
}


def difference(ours: WorldSpec, theirs: WorldSpec) -> str:
    """The first few things that two worlds differ in: `option g = 10, not 1; 6 actions, not 3`.

    What is so in our world comes first: it may follow "another world:" or "a world with".
    """
    found = [*_differing_parts(ours, theirs), *_differing_factors(ours, theirs)]
    more = len(found) - NAMED_DIFFERENCES
    shown = "; ".join(found[:NAMED_DIFFERENCES])
    return f"{shown}; and {more} more" if more > 0 else shown


def _differing_parts(ours: WorldSpec, theirs: WorldSpec) -> Iterator[str]:
    """What differs besides the factors."""
    if ours.name != theirs.name:
        yield f"the name {ours.name!r}, not {theirs.name!r}"
    for name in dict.fromkeys([*ours.options, *theirs.options]):
        mine, other = _option(ours, name), _option(theirs, name)
        if mine != other:
            yield f"option {name} = {textwrap.shorten(mine, 60)}, not {textwrap.shorten(other, 60)}"
    for field, words in DIFFERENCES.items():
        said, wanted = getattr(ours, field), getattr(theirs, field)
        if said != wanted:
            yield f"{words.format(_listed(said))}, not {_listed(wanted)}"


def _option(spec: WorldSpec, name: str) -> str:
    return json.dumps(spec.options[name]) if name in spec.options else "unset"


def _differing_factors(ours: WorldSpec, theirs: WorldSpec) -> Iterator[str]:
    mine, others = ({factor.name: factor for factor in spec.factors} for spec in (ours, theirs))
    for name in dict.fromkeys([*mine, *others]):
        if name not in others:
            yield f"a factor {name!r}"
        elif name not in mine:
            yield f"no factor {name!r}"
        elif mine[name].indices != others[name].indices:
            a, b = mine[name].indices, others[name].indices
            yield f"factor {name!r} of entries {_listed(a)}, not {_listed(b)}"
        elif mine[name].controlled != others[name].controlled:
            with_or_without = "with" if mine[name].controlled else "without"
            yield f"factor {name!r} {with_or_without} a skill component"
    if list(mine) != list(others) and set(mine) == set(others):
        yield f"factors in the order {_listed(tuple(mine))}"


def _listed(value: Any) -> str:
    """A value in messages: lists without brackets and not too long."""
    values = value if isinstance(value, list | tuple) else [value]
    text = ", ".join(map(repr, values[:8]))
    return f"{text}, … ({len(values)} in all)" if len(values) > 8 else text or "none"


class Transition(NamedTuple):
    """One step of experience, or a batch of them.

    Attributes:
      observation: s, [B, D].
      action: a, [B, A].
      reward: what the world paid, [B, K]; K is 0 in worlds without reward.
      next_observation: s', [B, D]; not that of a new episode where the world was reset afterwards.
      terminated: [B], true where the world ended for good, so that nothing follows s'.
      skill: z, [B, W]; see `dusdi.skill_space`.
      skill_age: [B] int32, how many steps z had been in force on arriving in s' (1: the first).
    """

    observation: Array
    action: Array
    reward: Array
    next_observation: Array
    terminated: Array
    skill: Array
    skill_age: Array


class OneHot(NamedTuple):
    """Rows of zeros with a one in them, which networks look up instead of multiplying them.

    Attributes:
      places: where the ones are, int32 [B].
      size: entries of each row.
    """

    places: jax.Array
    size: int


class Batch(NamedTuple):
    """A batch of transitions as learners see it.

    The fields are those of `Transition`, with observations normalised; `raw` has them as the world
    gave them.
    """

    observation: Array
    action: Array
    reward: Array
    next_observation: Array
    terminated: Array
    skill: Array
    skill_age: Array
    raw: Transition


def at_chance(score: float, chance: float) -> bool:
    """Whether a score, of which 1 is perfect, is hardly better than guessing."""
    threshold = chance + 0.1 * (1 - chance)
    return score < (min(threshold, 1.5 * chance) if chance > 0 else threshold)


def mean_metrics(sums: Mapping[str, float], updates: int) -> dict[str, float]:
    """A log row of sums over updates.

    Returns are divided by the number of episodes, and not a number if none was done.
    """
    row = {name: value / updates for name, value in sums.items()}
    episodes = sums.get("episodes", 0.0)
    for name in row:
        if name.split("/")[0] == "return":
            row[name] = sums[name] / episodes if episodes else math.nan
    if "episodes" in row:
        row["episodes"] = episodes
    return row
