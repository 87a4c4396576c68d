"""Factors as users name them: entries of a flat observation, or keys of a `Dict` observation."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from dusdi.errors import WorldError, unknown_name
from dusdi.types import Factor

#: An index, a slice, a text like "0,1", "2:5", "block" or "hand[0:3]", or a list of those.
Entries = int | slice | str | Iterable[int | slice | str]

COMMA = re.compile(r",(?![^\[]*\])")  # not inside brackets
SLICE = re.compile(r"(-?\d*):(-?\d*)(?::(-?\d*))?")
KEY = re.compile(r"(.+)\[(.*)\]")
NUMBERS = re.compile(r"[-:\d]+")


def make_factors(
    factors: Mapping[str, Entries],
    proprioception: Entries | None,
    space: spaces.Space,
) -> tuple[Factor, ...]:
    """The factors of an observation space.

    `proprioception` names entries, or factors by their names, that no skill component controls.
    What is named nowhere becomes a factor of that kind, too.
    """
    layout = Layout(space)
    if not isinstance(factors, Mapping):
        example = '{"arm": [0, 1]}'
        raise WorldError(f"factors must be a dict like {example}, not {factors!r}")
    if not factors:
        raise WorldError(f"name at least one factor (--factor NAME=ENTRIES); {layout}")
    names, entries = _split_proprioception(proprioception, factors, layout)
    found = []
    for name, given in factors.items():
        found.append(Factor(name, _find(name, given, layout), name not in names))
    if entries:
        found.append(Factor("proprioception", entries, controlled=False))
    taken = {index for factor in found for index in factor.indices}
    rest = tuple(index for index in range(layout.size) if index not in taken)
    if rest:
        found.append(Factor("unnamed entries", rest, controlled=False))
    return tuple(found)


def _find(name: str, given: Entries, layout: Layout) -> tuple[int, ...]:
    try:
        return layout.find(given)
    except ValueError as error:
        raise WorldError(f"factor {name!r} {error}") from None


def _split_proprioception(
    given: Entries | None, factors: Mapping[str, Entries], layout: Layout
) -> tuple[set[str], tuple[int, ...]]:
    """The names of factors in it, and the entries that the rest of it names."""
    names: set[str] = set()
    entries: list[int] = []
    for part in [] if given is None else _as_list(given):
        whole = not isinstance(part, str) or part in factors
        for piece in [part] if whole else map(str.strip, COMMA.split(part)):
            if isinstance(piece, str) and piece in factors:
                names.add(piece)
                continue
            try:
                entries += layout.find(piece)
            except ValueError as error:
                if not isinstance(piece, str):
                    raise WorldError(f"proprioception {error}") from None
                raise WorldError(
                    f"proprioception names the factor {piece!r}, but the factors are "
                    f"{', '.join(map(str, factors))}; as observation entries, it {error}"
                ) from None
    return names, tuple(entries)


class Layout:
    """Where the entries of an observation space are once it is flattened."""

    def __init__(self, space: spaces.Space):
        self.size = spaces.flatdim(space)
        self.keys: dict[str, range] = {}
        start = 0
        for key, part in space.items() if isinstance(space, spaces.Dict) else ():
            self.keys[key] = range(start, start + spaces.flatdim(part))
            start = self.keys[key].stop

    def __str__(self) -> str:
        keys = ", ".join(f"{key}[0:{len(entries)}]" for key, entries in self.keys.items())
        return f"the observation has the entries {keys or f'0:{self.size}'}"

    def find(self, given: Entries) -> tuple[int, ...]:
        """The entries that are meant, or a `ValueError` that says "names entry 9, but …"."""
        return tuple(index for part in _as_list(given) for index in self._find_part(part))

    def _find_part(self, part: Any) -> Iterable[int]:
        if not isinstance(part, str):
            return _pick(range(self.size), part)
        return [index for piece in COMMA.split(part) for index in self._find_text(piece.strip())]

    def _find_text(self, text: str) -> Iterable[int]:
        if text in self.keys:
            return self.keys[text]
        match = KEY.fullmatch(text)
        key = match[1] if match else text
        if match and key in self.keys:
            entries = self.keys[key]
            inside = range(len(entries))
            parts = [_read(piece) for piece in match[2].split(",")]
            return [entries[i] for part in parts for i in _pick(inside, part)]
        if self.keys and not NUMBERS.fullmatch(key):
            raise ValueError(f"names an {unknown_name('key', key, self.keys)}")
        return _pick(range(self.size), _read(text))


def _read(text: str) -> int | slice:
    """An index or a slice."""
    if match := SLICE.fullmatch(text.strip()):
        return slice(*(int(number) if number else None for number in match.groups()))
    try:
        return int(text)
    except ValueError:
        wanted = "an index, a slice or a list of indices"
        raise ValueError(f"is given as {text!r}, which is not {wanted}") from None


def _pick(entries: range, part: Any) -> Iterable[int]:
    """The entries that an index or a slice means; a `ValueError` if some are outside."""
    found: Iterable[int]
    try:
        if isinstance(part, slice):
            found = entries[part]
            ends = [end for end in (part.start, part.stop) if end is not None]
            outside = [end for end in ends if abs(end) > len(entries)]
        elif isinstance(part, bool | np.bool_):
            raise TypeError("a mask")
        else:
            found = [operator.index(part)]
            outside = [index for index in found if index not in entries]
    except (TypeError, ValueError):
        wanted = "an index, a slice or a list of indices"
        raise ValueError(f"is given as {part!r}, which is not {wanted}") from None
    if outside:
        last = len(entries) - 1
        raise ValueError(f"names observation entry {outside[0]}, but those are 0 to {last}")
    return found


def _as_list(given: Any) -> list[Any]:
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
