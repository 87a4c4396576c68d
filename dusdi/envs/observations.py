"""What environments give, as arrays: observations by their spaces, and words for what is wrong."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from dusdi.errors import WorldError

#: For each kind of number that a space holds, the kinds that an observation may consist of.
KINDS = {"f": "fiub", "i": "iub", "u": "iub", "b": "b"}


def raised(name: str, where: str, error: Exception, advice: str = "") -> WorldError:
    """The error that reports an exception in the environment; raise it from that."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {str(error).rstrip('.') or frame.line}"
    return WorldError(f"world {name!r}: {where} raised {what}{advice}")


def flatten(space: spaces.Space, observation: Any) -> np.ndarray:
    """An observation as a vector in Gymnasium's order.

    Raises a `ValueError` that says what is wrong with one that is not of that space.
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(observation, Mapping) or set(observation) != set(space):
            keys = ", ".join(map(str, space))
            raise ValueError(f"that is {described(observation)}, not a dict of {keys}")
        return np.concatenate([_flatten_part(space, observation, key) for key in space])
    if not isinstance(space, spaces.Box):
        if not space.contains(observation):
            raise ValueError(f"that is {described(observation)}, not one of {space}")
        return np.asarray(spaces.flatten(space, observation))
    found = as_array(observation)
    if found.shape != space.shape or found.dtype.kind not in KINDS[space.dtype.kind]:
        expected = f"{shape_text(space.shape)} of {space.dtype}"
        raise ValueError(f"that is {described(observation)}, not {expected}, as its space says")
    return found.ravel()


def _flatten_part(space: spaces.Dict, observation: Mapping[str, Any], key: str) -> np.ndarray:
    try:
        return flatten(space[key], observation[key])
    except ValueError as error:
        raise ValueError(f"with a wrong {key!r}, {error}") from error


def read_observation(world: str, space: spaces.Space, observation: Any, where: str) -> np.ndarray:
    """An observation as a vector, or a `WorldError` if it is not what its space says."""
    try:
        return flatten(space, observation)
    except ValueError as error:
        problem = f"{where} gave an observation {error}"
        raise WorldError(f"world {world!r}: {problem}") from error


def stack(
    world: str, space: spaces.Space, observations: Sequence[Any], where: Callable[[int], str]
) -> Any:
    """Observations as one: new arrays [n, ...] of the types that their space says.

    A `WorldError` says which one is not of that space; `where` is what messages call each.
    """
    batch: Any = create_empty_array(space, len(observations))
    try:
        return concatenate(space, observations, batch)
    except Exception as error:
        for place, observation in enumerate(observations):
            read_observation(world, space, observation, where(place))
        problem = f"{where(0)} gave an observation that is not of the types of {space}: {error}"
        raise WorldError(f"world {world!r}: {problem}") from error


def gather(
    values: Sequence[Any],
    shape: tuple[int, ...],
    kinds: str,
    read: Callable[[int, Any], Any],
) -> np.ndarray:
    """The values of all environments as one array of that shape and of one of these kinds.

    If they are not, `read` turns the value of each environment into what is expected or raises.
    """
    found = as_array(values)
    if found.shape == shape and found.dtype.kind in kinds:
        return found
    return np.array([read(index, value) for index, value in enumerate(values)])


def as_array(value: Any) -> np.ndarray:
    """A new array of a value, or one of nothing if that can't be."""
    try:
        return np.array(value)
    except Exception:  # lists of different lengths, for instance
        return np.array(None)


def in_single_precision(numbers: np.ndarray) -> np.ndarray:
    """A new array; numbers that are too large become infinite, which is refused later."""
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


def described(value: Any) -> str:
    """What a value is, for messages."""
    if isinstance(value, np.ndarray):
        return f"{shape_text(value.shape)} of {value.dtype}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, Mapping):
        return f"a dict of {', '.join(map(str, value)) or 'nothing'}"
    return "None" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"


def shape_text(shape: tuple[int, ...]) -> str:
    return f"an array of shape {list(shape)}" if shape else "a number"
