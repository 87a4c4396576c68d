"""Worlds, by name; each is one file. `make` builds a registered one, `from_gymnasium` brings any other."""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium

from dusdi.envs.base import GymnasiumView, HostWorld, JaxWorld, VectorWorld, World
from dusdi.envs.from_gymnasium import from_gymnasium
from dusdi.envs.gunner import Gunner2D
from dusdi.envs.household import Household
from dusdi.envs.particle import MultiParticle
from dusdi.envs.walker import Walker
from dusdi.errors import UsageError, unknown_name

__all__ = [
    "WORLDS", "GymnasiumView", "HostWorld", "JaxWorld", "VectorWorld", "World", "from_gymnasium", "import_world", "make",
    "make_gymnasium",
]  # fmt: skip

WORLDS: dict[str, type[World]] = {
    "multi-particle": MultiParticle,
    "gunner-2d": Gunner2D,
    "walker": Walker,
    "household": Household,
}


def make(name: str, **options: Any) -> World:
    """The registered world of that name."""
    if name not in WORLDS:
        raise unknown_name("world", name, WORLDS)
    try:
        return WORLDS[name](**options)
    except TypeError as error:
        raise UsageError(f"world {name!r} does not take these options: {error}") from error


def make_gymnasium(world: str, render_mode: str | None = None, **options: Any) -> gymnasium.Env:
    """A registered world as a Gymnasium environment without reward; what `gymnasium.make` calls."""
    return GymnasiumView(make(world, **options), render_mode)


def import_world(path: str) -> World:
    """The world that `package.module:attribute` names: a `World`, or a function that returns one."""
    module, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"can't import the world {path!r}: {error}") from error
    world = found() if callable(found) and not isinstance(found, World) else found
    if not isinstance(world, World):
        raise UsageError(f"{path!r} gave {type(world).__name__}, not a world; see dusdi.from_gymnasium")
    return world
