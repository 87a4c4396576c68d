"""The world or task that a user names on the command line."""

from __future__ import annotations

import shlex

from dusdi.cli.options import WorldOptions
from dusdi.cli.values import read_json, read_pairs
from dusdi.envs import WORLDS, World, import_world, make
from dusdi.envs.importing import PREFIX, function_name
from dusdi.errors import UsageError
from dusdi.types import WorldSpec

FACTOR_FORM = "NAME=ENTRIES, for instance ball=0,1 or arm=2:5 or block=hand[0:3]"
OPTION_FORM = "NAME=VALUE, for instance agents=5"


def named_world(text: str, options: WorldOptions, like: WorldSpec | None = None) -> World:
    """The world that a user names, with the factors of a run's world (`like`) if none are given."""
    factors = read_pairs("--factor", FACTOR_FORM, options.factor)
    pairs = read_pairs("--env-option", OPTION_FORM, options.env_option)
    values = {name: read_json(value) for name, value in pairs.items()}
    if ":" in text:
        encoder = options.encoder or None
        return import_world(text, factors, options.proprioception or None, values, like, encoder)
    if text.endswith(".py"):
        raise UsageError(f"name the function in it that makes the world: {text}:FUNCTION")
    if (factors or options.proprioception) and text in WORLDS:
        raise UsageError(
            f"--factor and --proprioception are for worlds of your own; {text!r} has its factors"
        )
    if options.encoder and text in WORLDS:
        raise UsageError(
            f"--encoder is for worlds of your own; one for {text!r} is --env-option encoder=FILE"
        )
    return make(text, **values)


def own_world(text: str, options: WorldOptions, like: WorldSpec | None) -> World | None:
    """The world of the user's own that is named for a run, if one is."""
    if text:
        return named_world(text, options, like)
    if options.factor or options.proprioception or options.env_option or options.encoder:
        raise UsageError(
            "--factor, --proprioception, --encoder and --env-option are for a world that is named "
            "here; a task of dusdi's own is set in the world that the run's skills were learned in"
        )
    return None


def next_options(text: str, options: WorldOptions) -> str:
    """The options with which later commands find a run's world, if it is not one of dusdi's."""
    words = own_words(text, options)
    return f" --env {words}" if words else ""


def own_words(text: str, options: WorldOptions) -> str:
    """The words that name a world again, if it is not one of dusdi's."""
    if ":" not in text:
        return ""
    words = [text]
    for option in options.env_option:
        words += ["--env-option", option]
    if options.encoder:
        words += ["--encoder", options.encoder]
    return shlex.join(words)


def folder_name(text: str) -> str:
    """A world, a task or a method as part of a folder's name; a file without its folders."""
    if ":" in text and not text.startswith(PREFIX):
        text = function_name(text)
    return text.replace("/", "-").replace(":", ".")
