"""Worlds that users name on the command line: by a Gymnasium id, or by a function of their own."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium

from dusdi.envs.base import World
from dusdi.envs.factors import Entries
from dusdi.envs.from_gymnasium import GymnasiumWorld, environment_name, make_world
from dusdi.envs.gymnasium_vector import close_environments
from dusdi.envs.pictures import choose_opengl
from dusdi.errors import DusdiError, UsageError, WorldError
from dusdi.modules import import_name
from dusdi.types import WorldSpec, difference

PREFIX = "gym:"


def import_world(
    text: str,
    factors: Mapping[str, Entries] | None = None,
    proprioception: Entries | None = None,
    options: Mapping[str, Any] | None = None,
    like: WorldSpec | None = None,
    encoder: str | None = None,
) -> World:
    """The world that `gym:ID`, `package.module:function` or `path/to/file.py:function` names.

    Args:
      text: a Gymnasium id, or what returns a world or a Gymnasium environment (or is one).
      factors: of a Gymnasium environment; see `from_gymnasium`.
      proprioception: entries or factors of it that no skill component is to control.
      options: that a Gymnasium environment is made with.
      like: the world of a run, whose factors a Gymnasium environment gets if none are given.
      encoder: what encodes its observations; see `from_gymnasium`.

    What a function makes is called by `function_name`, unless it has a name of its own.
    """
    choose_opengl()
    options = options or {}
    found = text.removeprefix(PREFIX) if text.startswith(PREFIX) else _find(text, options)
    if isinstance(found, World):
        if factors or proprioception or encoder:
            problem = "--factor, --proprioception and --encoder are for Gymnasium environments"
            raise UsageError(f"{problem}; {text} gives a world, which has its factors")
        return found
    name = None if isinstance(found, str | type) else function_name(text)
    if like is not None and like.name == environment_name(found):
        name = like.name  # in Python, where nobody named a file, it is called by the function alone
    world = _make_world(found, options, encoder, name)
    if like is None or factors or proprioception:
        try:
            world.name_factors(factors or {}, proprioception)
        except WorldError as error:  # the words that name them are wrong, not the world
            raise UsageError(str(error)) from None
        return world
    if world.spec.observation_size != like.observation_size:
        problem = f"{text} is not the world of that run, {like.name!r}"
        raise UsageError(f"{problem}, but one with {difference(world.spec, like)}")
    world.spec = dataclasses.replace(world.spec, factors=like.factors)
    return world


def _make_world(
    found: Any, options: Mapping[str, Any], encoder: str | None, name: str | None
) -> GymnasiumWorld:
    """A world whose only factor is the whole observation."""
    everything = {"everything": slice(None)}
    try:
        return make_world(found, everything, None, options, encoder=encoder, name=name)
    except WorldError as error:
        if options and isinstance(error.__cause__, TypeError):  # there is no such option
            raise UsageError(str(error)) from error.__cause__
        raise


def function_name(text: str) -> str:
    """A function as part of a name: its file without folders, or its module, and often itself.

    The function in `path/to/tank.py:make` is called "tank", another one "tank.heavy". One in a file
    with the name of a world of dusdi's own has both words.
    """
    from dusdi.envs import WORLDS  # which imports this file

    place, _, name = text.rpartition(":")
    place = Path(place).stem if place.endswith(".py") else place
    return place if name == "make" and place not in WORLDS else f"{place}.{name}"


def _find(text: str, options: Mapping[str, Any]) -> Any:
    """What a function or variable of the user gives: a world, or what makes environments."""
    found = import_name(text)
    if isinstance(found, World) and options:
        raise UsageError(f"{text} is a world that was made already; --env-option comes too late")
    if isinstance(found, World) or (isinstance(found, type) and issubclass(found, gymnasium.Env)):
        return found
    made = _call(text, found, options)
    if isinstance(made, gymnasium.Env):
        close_environments(text, [made])
        return found
    if not isinstance(made, World) and not callable(made):
        wanted = "a world or a Gymnasium environment"
        raise WorldError(f"{text} gave {type(made).__name__}, not {wanted}")
    if options and not isinstance(made, World):
        raise UsageError(
            f"{text} was called with the options and gave another function; "
            "options are for the first"
        )
    return made


def _call(text: str, function: Any, options: Mapping[str, Any]) -> Any:
    if not callable(function):
        raise UsageError(f"{text} is {type(function).__name__}, not a function that makes a world")
    try:
        inspect.signature(function).bind(**options)
    except TypeError as error:
        raise UsageError(f"{text} can't be called with these options: {error}") from None
    except ValueError:  # it has no signature
        pass
    try:
        return function(**options)
    except DusdiError:
        raise
    except Exception as error:
        raise WorldError(f"{text} raised {type(error).__name__}: {error}") from error
