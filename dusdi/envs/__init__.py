"""Worlds, by name; `make` makes a registered one, `from_gymnasium` any other."""

from __future__ import annotations

from typing import Any

import gymnasium

from dusdi.envs.base import HostWorld, JaxWorld, VectorWorld, World
from dusdi.envs.from_gymnasium import from_gymnasium
from dusdi.envs.gunner import Gunner2D
from dusdi.envs.gymnasium_view import GymnasiumView
from dusdi.envs.household import Household
from dusdi.envs.importing import PREFIX, import_world
from dusdi.envs.particle import MultiParticle
from dusdi.envs.pictured import Encoded, PicturedWorld, encoded
from dusdi.envs.walker import Walker
from dusdi.envs.wrapper import HostWorldWrapper, WorldWrapper
from dusdi.errors import UsageError, unknown_name

__all__ = [
    "WORLDS", "Encoded", "GymnasiumView", "HostWorld", "HostWorldWrapper", "JaxWorld",
    "PicturedWorld", "VectorWorld", "World", "WorldWrapper", "as_world", "from_gymnasium",
    "import_world", "make", "make_gymnasium",
]  # fmt: skip

WORLDS: dict[str, type[World]] = {
    "multi-particle": MultiParticle,
    "gunner-2d": Gunner2D,
    "walker": Walker,
    "household": Household,
}


def make(name: str, /, **options: Any) -> World:
    """The registered world of that name.

    With the option `encoder` (a file, its folder, or an `Encoder`) it is seen in pictures.
    """
    if name not in WORLDS:
        known = name.removeprefix(PREFIX)
        if known in gymnasium.registry:
            raise UsageError(
                f"{known} is a Gymnasium environment, whose factors you name: "
                f"{PREFIX}{known} --factor NAME=ENTRIES on the command line, "
                f"dusdi.from_gymnasium({known!r}, factors={{...}}) in Python"
            )
        raise unknown_name("world", name, WORLDS)
    encoder = options.pop("encoder", None)
    try:
        world = WORLDS[name](**options)
    except TypeError as error:
        raise UsageError(f"world {name!r} does not take these options: {error}") from error
    return world if encoder is None else encoded(world, encoder)


def make_gymnasium(world: str, render_mode: str | None = None, **options: Any) -> gymnasium.Env:
    """A registered world as a Gymnasium environment without reward; what `gymnasium.make` calls."""
    return GymnasiumView(make(world, **options), render_mode)


def as_world(env: World | str) -> World:
    """A world, or the registered one of that name; a `UsageError` for anything else."""
    if isinstance(env, World):
        return env
    if isinstance(env, str):
        return make(env)
    advice = "dusdi.from_gymnasium(env, factors={...}) makes one of a Gymnasium environment"
    raise UsageError(f"{env!r} is not a world; {advice}")
