"""Words of the command line as values of settings, and values as text."""

from __future__ import annotations

import json
import typing
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from dusdi.errors import UsageError


def read_value(option: str, annotation: Any, text: str) -> Any:
    """The value of a setting that a word stands for; a `UsageError` if it can't be one.

    Whether it is in the setting's range is checked where settings are made.
    """
    try:
        if annotation is int:
            return whole(text)
        if annotation is float:
            return float(text)
        if is_layers(annotation):
            return () if text == "none" else tuple(whole(part) for part in text.split(","))
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{option} takes {form(annotation)}, not {text!r}") from error
    return text


def whole(text: str) -> int:
    """A whole number, which may be written as 1000000, 1_000_000 or 1e6."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise
        return int(number)


def form(annotation: Any) -> str:
    """What the words of a setting look like, for messages."""
    if annotation is int:
        return "a whole number like 1000000, 1_000_000 or 1e6"
    if annotation is float:
        return "a number"
    return "layers like 64,64 or none"


def metavar(annotation: Any) -> str:
    """What stands for the value of a setting in help."""
    if typing.get_origin(annotation) is Literal:
        return "|".join(typing.get_args(annotation))
    if is_layers(annotation):
        return "N,N"
    if is_texts(annotation):
        return "TEXT ..."
    names = {int: "INT", float: "FLOAT"}
    return names.get(annotation, "TEXT")


def is_layers(annotation: Any) -> bool:
    """Whether a setting is a list of whole numbers."""
    return typing.get_origin(annotation) is tuple and typing.get_args(annotation)[0] is int


def is_texts(annotation: Any) -> bool:
    """Whether a setting is a list of texts."""
    return typing.get_origin(annotation) is tuple and typing.get_args(annotation)[0] is str


def value_text(value: Any) -> str:
    """A setting's value as people read it, and may write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:_}"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        separator = ", " if any(isinstance(entry, str) for entry in value) else ","
        return separator.join(map(str, value)) or "none"
    return str(value)


def read_json(text: str) -> Any:
    """The value of a world's option: a number, true, false or null, else the text itself."""
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except json.JSONDecodeError:
        return text


def read_pairs(option: str, shape: str, texts: Sequence[str]) -> dict[str, str]:
    """What texts of the form NAME=VALUE say; `shape` describes that form in messages."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"{option} takes {shape}, not {text!r}")
        if name in pairs:
            raise UsageError(f"{option} is given twice for {name!r}")
        pairs[name] = value
    return pairs


def read_skill(text: str) -> np.ndarray:
    """A skill: a number for each column."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"a skill is a list of numbers like 0,3,1, not {text!r}") from error
    return np.array(values)
