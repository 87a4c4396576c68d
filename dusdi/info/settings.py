"""What a run's description says about its settings and its world.

Descriptions may come from another version or be damaged: what can't be understood is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dusdi.resolve import USER
from dusdi.settings import without_groups
from dusdi.skill_space import SkillSpace
from dusdi.types import WorldSpec

#: Settings that say what a run is, rather than how it differs from its preset.
NAMING = {"seed", "seeds"}


def is_description(found: Any) -> bool:
    """Whether it holds a run's settings and its world, as far as `dusdi info` needs them."""
    if not isinstance(found, dict):
        return False
    settings = found.get("settings")
    world = found.get("world")
    if not isinstance(settings, dict) or not isinstance(world, dict):
        return False
    flat = without_groups(settings)
    made_with = found.get("made_with", [])
    expected = [
        (world.get("name"), str),
        (world.get("options", {}), dict),
        (flat.get("steps"), int),
        (flat.get("seeds", 1), int),
        (found.get("origins", {}), dict),
        (made_with, list),
    ]
    sound = all(isinstance(value, kind) for value, kind in expected)
    return sound and all(isinstance(entry, dict) for entry in made_with)


def changed_settings(description: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that the user chose."""
    flat = without_groups(description["settings"])
    origins = description.get("origins", {})
    chosen = [name for name, origin in origins.items() if origin == USER and name in flat]
    return {name: flat[name] for name in chosen if name not in NAMING}


def skill_space(description: Mapping[str, Any]) -> SkillSpace | None:
    """The skills of a run; None if it does not say."""
    try:
        return SkillSpace.from_json(description["skill_space"])
    except Exception:  # a run on a task, or a description that was damaged
        return None


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
