"""What a run's description says about its settings and its world.

Descriptions may come from another version or be damaged: what can't be understood is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dusdi.config import Config, PPOConfig, configure, from_json
from dusdi.envs import WORLDS, make
from dusdi.envs.base import HostWorld
from dusdi.objectives import make_objective
from dusdi.skills import Discrete
from dusdi.task_learning import agent_config
from dusdi.tasks import TASKS, make_task
from dusdi.types import WorldSpec

#: Settings that say what a run is, rather than how it differs from its preset.
NAMING = {"preset", "method", "agent", "seed", "seeds"}


def is_description(found: Any) -> bool:
    """Whether it holds a run's settings and its world, as far as `dusdi info` needs them."""
    if not isinstance(found, dict):
        return False
    config = found.get("config")
    world = found.get("world")
    if not isinstance(config, dict) or not isinstance(world, dict):
        return False
    expected = [
        (world.get("name"), str),
        (world.get("options", {}), dict),
        (config.get("steps"), int),
        (config.get("seeds", 1), int),
        (found.get("made_with", {}), dict),
    ]
    return all(isinstance(value, kind) for value, kind in expected)


def changed_settings(description: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The settings that differ from the preset's in the run's world: the run's and the preset's."""
    config = json.loads(json.dumps(description["config"]))
    try:
        preset = json.loads(json.dumps(_preset_config(description).to_json()))
    except Exception:  # a preset, a world or options that this version does not know
        return {}
    names = [name for name in config if name in preset and name not in NAMING]
    return {name: (config[name], preset[name]) for name in names if config[name] != preset[name]}


def _preset_config(description: Mapping[str, Any]) -> Config | PPOConfig:
    """The config that the run would have if nobody had changed a setting."""
    config = description["config"]
    preset = config["preset"]
    name = description["world"]["name"]
    options = description["world"].get("options", {})
    world: Any = HostWorld  # what a user's own world most likely is
    if name in TASKS:
        world = make_task(name, **options)
    elif name in WORLDS:
        world = make(name, **options)
    if "agent" in config:
        return agent_config(world, config["agent"], preset, {})
    if config["method"] == "extrinsic":
        return agent_config(world, "sac", preset, {})
    return configure(preset, world.presets, {"method": config["method"]})


def chance_accuracy(description: Mapping[str, Any]) -> float | None:
    """The accuracy of guessing the value of a component; None if that is not known."""
    try:
        spec = WorldSpec.from_json(description["world"])
        space = make_objective(spec, from_json(description["config"])).skill_space
    except Exception:  # a run of a task, or of another version
        return None
    return 1.0 / space.component_size if isinstance(space, Discrete) else None


def component_order(description: Mapping[str, Any]) -> list[str]:
    """The names of the world's factors and reward channels in the world's own order."""
    spec = _world(description)
    return [*(factor.name for factor in spec.factors), *spec.channels] if spec else []


def factor_texts(description: Mapping[str, Any]) -> list[str]:
    """The factors with their sizes; those that no skill component controls say so."""
    spec = _world(description)
    texts = []
    for factor in spec.factors if spec else ():
        kind = "" if factor.controlled else ", no skill"
        texts.append(f"{factor.name} ({len(factor.indices)}{kind})")
    return texts


def _world(description: Mapping[str, Any]) -> WorldSpec | None:
    try:
        return WorldSpec.from_json(description["world"])
    except Exception:  # a world that is not described as it should be
        return None
