"""Options that commands have besides the settings of runs, as groups of settings."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from dusdi.settings import Group

Options = TypeVar("Options", bound=Group)
OWN = "gym:ID, package.module:function or path/to/file.py:function"


def option(default: Any, doc: str, metavar: str | None = None, **more: Any) -> Any:
    """An option of a command; `more` is what `is_repeated` and the like ask for."""
    shown = {} if metavar is None else {"metavar": metavar}
    bounds = {"low": -math.inf, "high": math.inf}
    return dataclasses.field(default=default, metadata={"doc": doc, **bounds, **shown, **more})


def argument(metavar: str, doc: str, default: Any = "") -> Any:
    """An argument of a command, which has a place instead of a name."""
    return option(default, doc, metavar, positional=True)


def flag(doc: str) -> Any:
    """An option without a value."""
    return option(False, doc, flag=True)


def repeated(metavar: str, doc: str) -> Any:
    """An option that may be given several times, each time with one value."""
    return option((), doc, metavar, repeated=True)


def is_positional(field: dataclasses.Field) -> bool:
    return field.metadata.get("positional", False)


def is_flag(field: dataclasses.Field) -> bool:
    return field.metadata.get("flag", False)


def is_repeated(field: dataclasses.Field) -> bool:
    return field.metadata.get("repeated", False)


def filled(kind: type[Options], given: Mapping[str, Any]) -> Options:
    """Options with what was given for them, and defaults for the rest."""
    return kind(**{name: value for name, value in given.items() if name in kind.fields()})


@dataclasses.dataclass(frozen=True)
class DebugOptions(Group):
    """What every command has."""

    debug: bool = flag("show the traceback of an error")


@dataclasses.dataclass(frozen=True)
class QuietOptions(DebugOptions):
    """What every command that takes time has."""

    quiet: bool = flag("show no progress")


@dataclasses.dataclass(frozen=True)
class JsonOptions(DebugOptions):
    """What every quick command that prints a table has."""

    json: bool = flag("print one JSON value instead of a table")


@dataclasses.dataclass(frozen=True)
class RunFolderOptions(Group):
    """A run that is there."""

    run_folder: str = argument("RUN", "a run's folder")


@dataclasses.dataclass(frozen=True)
class WorldOptions(Group):
    """What a world is made with."""

    env_option: tuple[str, ...] = repeated(
        "NAME=VALUE", "an option of the world, e.g. agents=5; may be repeated"
    )
    factor: tuple[str, ...] = repeated(
        "NAME=ENTRIES",
        "a factor of a Gymnasium environment: entries like 8 or 0,1 or 2:5, or a key like block "
        "or hand[0:3]; may be repeated",
    )
    proprioception: str = option(
        "", "entries or factors that no skill component is to control", "ENTRIES"
    )
    encoder: str = option(
        "",
        "what makes numbers of a Gymnasium environment's observations, pictures for instance: "
        "package.module:function, path/to/file.py:function or an encoder of dusdi's own",
        "ENCODER",
    )


@dataclasses.dataclass(frozen=True)
class OwnWorldOptions(WorldOptions):
    """The world of a run, where it is not one that dusdi can make by name."""

    env: str = option("", f"the run's world, if it is not one of dusdi's: {OWN}", "ENV")
