"""Checks of a method that somebody wrote: what is missing or wrong is said before any training."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from dusdi.errors import UsageError
from dusdi.methods.base import Method, MethodSettings
from dusdi.settings import NetworkSettings, RunSettings, SACSettings
from dusdi.skill_space import SkillSpace

#: Groups of settings that all methods share; a method must not use the names of their fields.
SHARED = (RunSettings, NetworkSettings, SACSettings)


def check_class(found: type[Method]) -> None:
    """Raises a `UsageError` unless a class says all that a method has to say of itself."""
    where = f"the method {found.__module__}:{found.__qualname__}"
    if inspect.isabstract(found):
        raise UsageError(f"{where} lacks {', '.join(sorted(found.__abstractmethods__))}")
    if not isinstance(getattr(found, "name", None), str):
        raise UsageError(f"{where} needs a name, for instance name = {found.__name__.lower()!r}")
    settings = getattr(found, "Settings", None)
    if not (isinstance(settings, type) and issubclass(settings, MethodSettings)):
        raise UsageError(f"{where} needs Settings, a dataclass of MethodSettings, not {settings!r}")
    for name, field in settings.fields().items():
        if "doc" not in field.metadata:
            raise UsageError(f'{where}: define its setting {name} by setting(default, "meaning")')
        if any(name in group.fields() for group in SHARED):
            raise UsageError(f"{where}: its setting {name} has the name of another; rename it")
    presets = found.presets
    if not isinstance(presets, Mapping) or not all(
        isinstance(fields, Mapping) for fields in presets.values()
    ):
        raise UsageError(f"{where}: presets should be like {{'fast': {{'discount': 0.8}}}}")


def check_made(method: Method) -> None:
    """Raises a `UsageError` unless a method's skills and reward channels go together."""
    where = f"the method {method.name!r}"
    for name in ("skill_space", "channels"):
        if not hasattr(method, name):
            raise UsageError(f"{where} has no {name}; set it in __init__")
    space = method.skill_space
    if not isinstance(space, SkillSpace):
        raise UsageError(f"{where}: skill_space should be a SkillSpace, not {space!r}")
    for what, names in (("channel", method.channels), ("component", space.names)):
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise UsageError(f"{where} has more than one {what} called {twice[0]!r}")
    if not method.channels:
        raise UsageError(f"{where} needs at least one reward channel; its channels are empty")


def check_update(method: Method, before: Any, result: Any) -> None:
    """Raises a `UsageError` unless `update` gave a state like the one before, and numbers."""
    where = f"update of the method {method.name!r}"
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], Mapping):
        raise UsageError(f"{where} must return the new state and a dict of metrics")
    state, metrics = result
    if _structure(state) != _structure(before):
        raise UsageError(
            f"{where} must return a state like that of init, with the same shapes and types: "
            f"{_structure(before)}, not {_structure(state)}"
        )
    for name, value in metrics.items():
        if not _is_number(value):
            raise UsageError(f"{where}: the metric {name!r} must be one number, not {value!r}")


def check_reward(method: Method, reward: Any, rows: int) -> None:
    """Raises a `UsageError` unless `reward` gave a number for each row and channel."""
    expected = (rows, len(method.channels))
    shape = getattr(reward, "shape", None)
    if shape != expected:
        found = type(reward).__name__ if shape is None else f"shape {list(shape)}"
        raise UsageError(
            f"reward of the method {method.name!r} must give [rows, channels] = {list(expected)}, "
            f"not {found}"
        )
    if not np.issubdtype(reward.dtype, np.floating):
        raise UsageError(
            f"reward of the method {method.name!r} must be float32, not {reward.dtype}"
        )


def check_init(method: Method, state: Any) -> None:
    """Raises a `UsageError` unless a method's first state consists of arrays."""
    for leaf in jax.tree.leaves(state):
        if not isinstance(leaf, jax.Array):
            raise UsageError(
                f"init of the method {method.name!r} must return JAX arrays, in any nesting, "
                f"not {leaf!r}"
            )


def _is_number(value: Any) -> bool:
    try:
        return np.shape(value) == () and np.issubdtype(jax.numpy.result_type(value), np.number)
    except TypeError:
        return False


def _structure(state: Any) -> str:
    """The nesting, shapes and types of a state, as text."""
    return str(jax.tree.map(lambda leaf: jax.typeof(leaf).str_short(), state))
