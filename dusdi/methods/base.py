"""What a method of skill discovery is: its settings, its skills, and pure functions around a state.

A method is one file that owns everything about itself. The loop, SAC and replay know no method:
they draw skills from `skill_space`, call `update` on a batch and learn one Q function for each of
the `channels` that `reward` returns.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import jax
import numpy as np

from dusdi.errors import UsageError, unknown_name
from dusdi.settings import Group, NetworkSettings, RunSettings, setting
from dusdi.skill_space import Component, SkillSpace
from dusdi.spaces import Space, parse_space, space_text
from dusdi.types import Batch, Metrics, WorldSpec

MethodState = Any  # a pytree, different in each method
LARGEST_GRID = 8  # combinations of settings that a method is tuned by, so that all have equal care


@dataclasses.dataclass(frozen=True)
class MethodSettings(Group):
    """The settings of a method; each method has its own."""

    def check_with(self, run: RunSettings, networks: NetworkSettings) -> None:
        """Raises a `UsageError` if these settings don't go with the others of a run."""


@dataclasses.dataclass(frozen=True)
class FactoredSkillSettings(Group):
    """The skills of methods with one component for each factor."""

    component: str = setting(
        "categorical:5",
        "space of each skill component: categorical:K, box:M or sphere:M (paper: categorical:5)",
    )
    components: tuple[str, ...] = setting(
        (), "spaces of single components that differ from that, each NAME=SPACE"
    )

    def __post_init__(self):
        if isinstance(self.component, Space):
            object.__setattr__(self, "component", space_text(self.component))
        if isinstance(self.components, Mapping):
            named = self.components.items()
            texts = [f"{name}={space_text(parse_space(space))}" for name, space in named]
            object.__setattr__(self, "components", tuple(texts))
        super().__post_init__()

    def check(self):
        parse_space(self.component)
        for space in named_pairs("components", self.components).values():
            parse_space(space)

    def factored_space(self, spec: WorldSpec) -> SkillSpace:
        """One component for each controlled factor of a world."""
        factors = [factor.name for factor in spec.controlled]
        others = named_pairs("components", self.components)
        check_known("components", others, factors)
        return SkillSpace(
            tuple(
                Component(name, parse_space(others.get(name, self.component))) for name in factors
            )
        )


@dataclasses.dataclass(frozen=True)
class SingleSkillSettings(Group):
    """The skills of methods with a single component, which is about the whole state."""

    component: str = setting(
        "sphere:3",
        "space of the single skill component: categorical:K, box:M or sphere:M (paper: 3-D)",
    )

    def __post_init__(self):
        if isinstance(self.component, Space):
            object.__setattr__(self, "component", space_text(self.component))
        super().__post_init__()

    def check(self):
        parse_space(self.component)

    def single_space(self) -> SkillSpace:
        """The one component."""
        return SkillSpace((Component("skill", parse_space(self.component)),))


def named_pairs(setting_name: str, texts: tuple[str, ...]) -> dict[str, str]:
    """What texts of the form NAME=VALUE say, or a `UsageError`."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")  # a factor's name may have an = of its own
        if not equals or not name.strip() or not value.strip():
            raise UsageError(f"each entry of {setting_name} is NAME=VALUE, not {text!r}")
        if name in pairs:
            raise UsageError(f"{setting_name} names {name!r} twice")
        pairs[name] = value.strip()
    return pairs


def check_known(setting_name: str, named: Mapping[str, Any], factors: list[str]) -> None:
    """Raises a `UsageError` if a setting names a factor that no component is about."""
    for name in named:
        if name not in factors:
            raise unknown_name(f"factor in {setting_name}", name, factors)


class Method(abc.ABC):
    """A method of skill discovery for one world.

    Attributes:
      name: what users call it.
      Settings: its group of settings.
      presets: fields of a run in which its presets differ from those that all methods share.
      grid: the settings that `dusdi reproduce tuning` tries, each with its values, in all
        combinations; at most `LARGEST_GRID` of them.
      used_by: what its result is for: a hierarchy that chooses skills, or fine-tuning.
      experiments: those of `dusdi reproduce` that have it unless methods are chosen.
      learns_task: whether its reward is the world's, so that returns mean something.
      skill_space: the skills it learns.
      channels: the names of its reward channels, one Q function each.
    """

    name: ClassVar[str]
    Settings: ClassVar[type[MethodSettings]]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {}
    used_by: ClassVar[Literal["hierarchy", "fine-tuning"]] = "hierarchy"
    experiments: ClassVar[tuple[str, ...]] = ()
    learns_task: ClassVar[bool] = False

    skill_space: SkillSpace
    channels: tuple[str, ...]

    @abc.abstractmethod
    def __init__(self, spec: WorldSpec, settings: Any): ...

    @abc.abstractmethod
    def init(self, key: jax.Array) -> MethodState:
        """The state before learning."""

    @abc.abstractmethod
    def update(
        self, state: MethodState, key: jax.Array, batch: Batch, step: jax.Array
    ) -> tuple[MethodState, Metrics]:
        """One step of learning on a batch; `step` counts environment steps."""

    @abc.abstractmethod
    def reward(
        self, state: MethodState, key: jax.Array, batch: Batch, step: jax.Array
    ) -> jax.Array:
        """The intrinsic reward of a batch, float32 [B, channels]."""

    def headline(self, row: Mapping[str, float]) -> dict[str, float]:
        """The metric that sums up a log row, by its name; it leads the row. None by default."""
        return {}


def mean_score(space: SkillSpace, row: Mapping[str, float]) -> dict[str, float]:
    """The mean score of a method's discriminators, by its name: the headline of many methods."""
    scores = {}
    for component in space.components:
        metric = f"{component.space.score_name}/{component.name}"
        if metric in row:
            scores[component.name] = (component.space.score_name, row[metric])
    if not scores:
        return {}
    names = {name for name, _ in scores.values()}
    name = names.pop() if len(names) == 1 else "score"
    return {name: float(np.mean([score for _, score in scores.values()]))}
