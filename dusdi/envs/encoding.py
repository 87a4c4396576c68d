"""Encoders that users hand in: what they make of observations takes the observations' place.

An encoder takes the observations of several environments at once, uint8 [n, rows, columns,
channels] for pictures or a dict of such arrays, and gives numbers [n, D]. All that it gives is
checked, and a `WorldError` says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from gymnasium import spaces

from dusdi.encoder import Encoder, load_encoder
from dusdi.envs.observations import KINDS, as_array, described, in_single_precision, raised, stack
from dusdi.errors import UsageError, WorldError
from dusdi.files import remembered
from dusdi.modules import import_name

#: A function, `package.module:function`, `path/to/file.py:function`, or an encoder of dusdi's own
#: (or its file or folder).
AnyEncoder = Callable[[Any], Any] | str | Path | Encoder
FORMS = "a function, package.module:function, path/to/file.py:function or the file of an encoder"


class Encoding:
    """What encodes observations.

    Attributes:
      name: what messages call it.
      option: what a run's description says of it, as a text or as the function itself.
      trained: the encoder of dusdi's own that it is, if it is one.
      size: D; 0 until `measure` finds it.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        name: str,
        option: Any,
        trained: Encoder | None = None,
    ):
        self._function = function
        self.name = f"the encoder {name}"
        self.option = option
        self.trained = trained
        self.size = 0

    @property
    def space(self) -> spaces.Box:
        """The space of what it gives for an observation."""
        return spaces.Box(-np.inf, np.inf, (self.size,))

    def measure(self, world: str, space: spaces.Space, observation: Any) -> None:
        """Finds out how many numbers it gives for an observation, alone and beside another."""
        if self.trained is not None:
            _check_pictures(world, space, self.trained)
        for count in (1, 2):
            batch = stack(world, space, [observation] * count, lambda place: "the first reset")
            self.size = self.encode(world, batch, count, "at first").shape[1]

    def encode(self, world: str, batch: Any, count: int, when: str) -> np.ndarray:
        """The numbers [n, D] that it gives for so many observations; the rest is for messages."""
        where = f"{self.name} {when}"
        try:
            result = self._function(batch)
        except Exception as error:
            raise raised(world, where, error) from error
        try:
            return self._read(result, count)
        except ValueError as error:
            raise WorldError(f"world {world!r}: {where} {error}") from error

    def _read(self, result: Any, count: int) -> np.ndarray:
        found = as_array(result)
        if found.dtype.kind not in KINDS["f"]:
            raise ValueError(f"must give real numbers, not {described(_array_or(result, found))}")
        wanted = f"[{count}, {self.size or 'D'}], a row for each observation"
        if found.ndim != 2 or len(found) != count:
            raise ValueError(f"must give an array of shape {wanted}, not {list(found.shape)}")
        if not found.shape[1]:
            raise ValueError("gave no numbers for an observation")
        if self.size and found.shape[1] != self.size:
            before = f"as many numbers as for the first observation, {self.size}"
            raise ValueError(f"must give {before}, not {found.shape[1]}")
        return _finite(in_single_precision(found))


def _array_or(result: Any, found: np.ndarray) -> Any:
    """What was given, for messages: the array that it became, unless it became none."""
    return result if found.ndim == 0 else found


def _finite(numbers: np.ndarray) -> np.ndarray:
    bad = ~np.isfinite(numbers)
    if bad.any():
        row, entry = np.argwhere(bad)[0]
        entries = ", ".join(map(str, np.flatnonzero(bad.any(0))))
        raise ValueError(
            f"gave a number that is not finite ({numbers[row, entry]}) for observation {row} of "
            f"{len(numbers)}; entries concerned: {entries}"
        )
    return numbers


def find_encoding(encoder: AnyEncoder) -> Encoding:
    """The encoder that is meant, or a `UsageError`."""
    if isinstance(encoder, Encoder):
        return _trained(encoder, encoder.digest)
    if isinstance(encoder, str | Path):
        return _named(str(encoder))
    if not callable(encoder):
        raise UsageError(f"encoder is {FORMS}, not {encoder!r}")
    return Encoding(encoder, _function_name(encoder), encoder)


def _named(text: str) -> Encoding:
    if Path(text).suffix != ".py" and (Path(text).exists() or remembered(text)):
        return _trained(load_encoder(text), text)
    place, _, attribute = text.rpartition(":")
    if not place:
        raise UsageError(f"there is no encoder {text!r}; name {FORMS}")
    function = import_name(text)
    if not callable(function):
        raise UsageError(f"{text} is {type(function).__name__}, not a function that encodes")
    name = f"{Path(place).stem if place.endswith('.py') else place}.{attribute}"
    return Encoding(function, name, name)


def _trained(encoder: Encoder, name: str) -> Encoding:
    """One of dusdi's own as a function: places [n, things, 2] as rows of x, y, x, y …"""
    places = jax.jit(encoder.places)

    def encode(pictures: np.ndarray) -> np.ndarray:
        return np.asarray(places(pictures)).reshape(len(pictures), -1)

    return Encoding(encode, name, encoder.digest, encoder)


def _check_pictures(world: str, space: spaces.Space, encoder: Encoder) -> None:
    """Raises a `UsageError` unless the encoder is for observations of that space."""
    side = encoder.discs.pixels
    wanted = spaces.Box(0, 255, (side, side, 3), np.uint8)
    if space != wanted:
        raise UsageError(f"{world}: the encoder is for observations {wanted}, not {space}")


def _function_name(function: Any) -> str:
    if isinstance(function, partial):
        return _function_name(function.func)
    kind = function if hasattr(function, "__qualname__") else type(function)
    return f"{kind.__module__}.{kind.__qualname__}"
