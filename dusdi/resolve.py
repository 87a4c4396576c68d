"""The settings of whole runs, and how they come about: defaults, presets, the world, and the user.

A run of skill discovery has the groups run, networks, sac and the method's own; a run over skills
has run and ppo. `resolve_pretrain` and `resolve_downstream` put them together layer by layer and
remember which layer every value comes from.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from dusdi.envs.base import World
from dusdi.errors import CheckpointError, UsageError, unknown_name
from dusdi.methods import find_method, method_name
from dusdi.methods.base import Method, MethodSettings
from dusdi.presets import PPO_PRESETS, PRESETS, inherited
from dusdi.settings import (
    Group,
    NetworkSettings,
    PPOSettings,
    RunSettings,
    SACSettings,
    TaskRunSettings,
    without_groups,
)

DEFAULT = "default"  # where a value comes from that nobody changed
USER = "you"
AGENTS = ("ppo", "cpg", "sac")  # that learn tasks: two over skills, the last one flat


class _WholeRun:
    """What the settings of both kinds of runs can do."""

    def groups(self) -> dict[str, Group]:
        """The groups by name."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in found.items() if isinstance(value, Group)}

    def flat(self) -> dict[str, Any]:
        """All fields by name, without their groups."""
        return without_groups({name: dict(_items(group)) for name, group in self.groups().items()})

    def defaults(self) -> dict[str, Any]:
        """The defaults of all fields by name, without their groups."""
        groups = self.groups().values()
        return {name: field.default for kind in groups for name, field in kind.fields().items()}

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)  # type: ignore[call-overload]

    def changed_to_json(self) -> dict[str, Any]:
        """The same without the fields that have their default."""
        found = self.to_json()
        usual = self.defaults()
        for name, group in self.groups().items():
            changed_here = [field for field, value in _items(group) if value != usual[field]]
            found[name] = {field: found[name][field] for field in changed_here}
        return found


def _items(group: Group) -> Iterator[tuple[str, Any]]:
    for name in group.fields():
        yield name, getattr(group, name)


@dataclasses.dataclass(frozen=True)
class PretrainSettings(_WholeRun):
    """All settings of a run of skill discovery, or of soft actor-critic on a task's reward."""

    method: str
    preset: str
    run: RunSettings
    networks: NetworkSettings
    sac: SACSettings
    objective: MethodSettings

    def __post_init__(self):
        run = self.run
        sac = self.sac
        random = max(sac.random_steps, sac.batch_size)
        if math.ceil(run.steps / run.num_envs) <= math.ceil(random / run.num_envs):
            raise UsageError(
                f"nothing would be learned in {run.steps:,} steps: the first {random:,} are random "
                "(random_steps, or batch_size if that is more); make steps larger or those smaller"
            )
        if run.num_envs % sac.steps_per_update:
            divisor = math.gcd(run.num_envs, sac.steps_per_update)
            fit = dict.fromkeys([divisor, run.num_envs])
            raise UsageError(
                f"num_envs ({run.num_envs}) must be a multiple of steps_per_update "
                f"({sac.steps_per_update}), since there are whole updates after each step of all "
                f"environments; set steps_per_update, "
                f"too, for instance to {' or '.join(map(str, fit))}"
            )
        if sac.replay_capacity % run.num_envs:
            nearest = max(1, round(sac.replay_capacity / run.num_envs)) * run.num_envs
            raise UsageError(
                f"replay_capacity ({sac.replay_capacity}) must be a multiple of num_envs "
                f"({run.num_envs}), for instance {nearest}"
            )
        self.objective.check_with(run, self.networks)

    @property
    def updates_per_iteration(self) -> int:
        """Gradient updates after each step of all environments."""
        return self.run.num_envs // self.sac.steps_per_update

    @classmethod
    def from_json(cls, data: Any) -> PretrainSettings:
        """The settings that `to_json` wrote; else a `CheckpointError`."""
        named = _named(data, ("method", "preset"), pretrain_groups(method_in(data)))
        return _built(cls, named)


@dataclasses.dataclass(frozen=True)
class DownstreamSettings(_WholeRun):
    """All settings of a run over skills: PPO, plain or with the causal policy gradient."""

    agent: Literal["ppo", "cpg"]
    preset: str
    run: TaskRunSettings
    ppo: PPOSettings

    def __post_init__(self):
        steps = self.run.num_envs * self.run.rollout_length
        if steps < self.ppo.batch_size:
            raise UsageError(
                f"batch_size ({self.ppo.batch_size}) must not be more than the {steps} high-level "
                f"steps between two updates (num_envs x rollout_length = {self.run.num_envs} x "
                f"{self.run.rollout_length})"
            )

    @classmethod
    def from_json(cls, data: Any) -> DownstreamSettings:
        """The settings that `to_json` wrote; else a `CheckpointError`."""
        return _built(cls, _named(data, ("agent", "preset"), DOWNSTREAM_GROUPS))


DOWNSTREAM_GROUPS: dict[str, type[Group]] = {"run": TaskRunSettings, "ppo": PPOSettings}


def pretrain_groups(method: type[Method]) -> dict[str, type[Group]]:
    """The groups of a run of a method."""
    shared: dict[str, type[Group]] = {
        "run": RunSettings,
        "networks": NetworkSettings,
        "sac": SACSettings,
    }
    return {**shared, "objective": method.Settings}


def method_in(data: Any) -> type[Method]:
    """The method that settings in JSON name."""
    try:
        return find_method(data["method"])
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError("the settings of this run name no method") from error
    except UsageError as error:
        raise CheckpointError(str(error)) from error


def _named(data: Any, words: Sequence[str], groups: Mapping[str, type[Group]]) -> dict[str, Any]:
    """What settings in JSON say, group by group; a `CheckpointError` if something is amiss."""
    if not isinstance(data, Mapping) or set(data) != {*words, *groups}:
        raise CheckpointError(
            f"the settings of this run should have the parts {', '.join([*words, *groups])}; they "
            "were edited, or made by another version of dusdi"
        )
    for word in words:
        if not isinstance(data[word], str):
            raise CheckpointError(f"{word} in the settings of this run should be a word")
    named = {word: data[word] for word in words}
    return named | {name: group.from_json(data[name]) for name, group in groups.items()}


def _built(kind: Any, named: Mapping[str, Any]) -> Any:
    try:
        return kind(**named)
    except UsageError as error:
        raise CheckpointError(f"the settings of this run can't be: {error}") from error


class Resolved(NamedTuple):
    """Settings, and for each field the layer that its value comes from."""

    settings: Any
    origins: dict[str, str]

    def without_defaults(self) -> Resolved:
        """The same settings, but only the origins of values that are not defaults."""
        named = {name: origin for name, origin in self.origins.items() if origin != DEFAULT}
        return Resolved(self.settings, named)


class Layer(NamedTuple):
    """Values of some fields, and what they come from; a `strict` layer names only known fields."""

    origin: str
    values: Mapping[str, Any]
    strict: bool = False


def resolve_pretrain(
    world: World,
    method: str | type[Method] = "dusdi",
    preset: str = "fast",
    fields: Mapping[str, Any] | None = None,
    *,
    more: Sequence[Layer] = (),
) -> Resolved:
    """The settings of a run of skill discovery in a world.

    Args:
      world: its presets count more than the method's, if the method learns no task.
      method: a method's name or class.
      preset: settings to start from.
      fields: what the user says; counts most.
      more: layers between the world's and the user's.
    """
    name = method_name(method)
    found = find_method(name)
    _check_preset(preset, PRESETS)
    layers = []
    for base in inherited(preset):
        layers.append(Layer(f"preset {base}", PRESETS[base]))
        own = found.presets.get(base, {})
        layers.append(Layer(f"{found.name}'s preset {base}", own, strict=True))
    if not found.learns_task:
        where = f"world {world.spec.name}"
        layers.append(Layer(where, world.presets.get(preset, {})))
        own = world.method_presets.get(preset, {}).get(found.name, {})
        layers.append(Layer(where, own, strict=True))
    layers += [*more, Layer(USER, fields or {}, strict=True)]
    values, origins = _stacked(pretrain_groups(found), layers)
    settings = PretrainSettings(method=name, preset=preset, **values)  # type: ignore[arg-type]
    return Resolved(settings, origins)


def resolve_downstream(
    task: World,
    agent: str = "ppo",
    preset: str = "fast",
    fields: Mapping[str, Any] | None = None,
    *,
    more: Sequence[Layer] = (),
) -> Resolved:
    """The settings of a run on a task: over skills (ppo, cpg), or flat (sac)."""
    if agent not in AGENTS:
        raise unknown_name("agent", agent, AGENTS)
    _check_preset(preset, PRESETS if agent == "sac" else PPO_PRESETS)
    wanted = task.task_presets.get(preset, {}).get("sac" if agent == "sac" else "ppo", {})
    own = Layer(f"task {task.spec.name}", wanted)
    if agent == "sac":
        return resolve_pretrain(task, "sac", preset, fields, more=[own, *more])
    layers = [Layer(f"preset {base}", PPO_PRESETS[base]) for base in inherited(preset)]
    layers += [own, *more, Layer(USER, fields or {}, strict=True)]
    values, origins = _stacked(DOWNSTREAM_GROUPS, layers)
    return Resolved(DownstreamSettings(agent=agent, preset=preset, **values), origins)  # type: ignore[arg-type]


def _check_preset(preset: str, presets: Mapping[str, Any]) -> None:
    if preset not in presets:
        raise unknown_name("preset", preset, presets)


def _stacked(
    groups: Mapping[str, type[Group]], layers: Sequence[Layer]
) -> tuple[dict[str, Group], dict[str, str]]:
    """The groups with the values of all layers, later ones first, and where each comes from."""
    home = {name: group for group, kind in groups.items() for name in kind.fields()}
    values: dict[str, dict[str, Any]] = {group: {} for group in groups}
    origins = dict.fromkeys(home, DEFAULT)
    for layer in layers:
        for name, value in layer.values.items():
            if name in home:
                values[home[name]][name] = value
                origins[name] = layer.origin
            elif layer.strict:
                raise unknown_name("setting", name, home)
    return {name: kind(**values[name]) for name, kind in groups.items()}, origins


def changed(settings: Any, fields: Mapping[str, Any]) -> Any:
    """Settings with some fields changed, which are named without their groups."""
    replaced = {}
    known = settings.flat()
    for name in fields:
        if name not in known:
            raise unknown_name("setting", name, known)
    for group_name, group in settings.groups().items():
        own = {name: value for name, value in fields.items() if name in group.fields()}
        if own:
            replaced[group_name] = dataclasses.replace(group, **own)
    return dataclasses.replace(settings, **replaced)
