"""Checkpoints: atomic, complete, safe to load, self-describing.

A checkpoint is one safetensors file: every array of a pytree under its path, and a JSON description
in the header. Nothing in it is ever executed. A digest of the whole content reveals damaged files;
they are refused, and the checkpoint before is used.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from dusdi.errors import CheckpointError
from dusdi.files import replacing

FORMAT = 1
KEEP = 2  # checkpoints in a folder
#: What reading a description that somebody altered may raise.
UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
)
_NAME = re.compile(r"step-(\d+)\.safetensors")


class Checkpoint(NamedTuple):
    """What a file holds: arrays by path, a JSON description, and where it came from."""

    arrays: dict[str, np.ndarray]
    description: dict[str, Any]
    path: Path


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a pytree by their paths."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {_path_name(path): np.asarray(leaf, order="C") for path, leaf in leaves}


def unflatten(like: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The pytree with the structure of `like` (arrays or shapes) that `flatten` took apart."""

    def pick(path, leaf):
        name = _path_name(path)
        array = arrays.get(name)
        if array is None or array.shape != leaf.shape or array.dtype != leaf.dtype:
            found = "is missing" if array is None else f"is {array.dtype}{list(array.shape)}"
            raise CheckpointError(
                f"checkpoint does not fit: {name} {found}, expected {leaf.dtype}{list(leaf.shape)}"
            )
        return array

    return jax.tree_util.tree_map_with_path(pick, like)


def read(found: Checkpoint, like: Any) -> Any:
    """The part of a checkpoint that has the structure of `like`.

    Raises a `CheckpointError` that names the file if there is no such part.
    """
    try:
        return unflatten(like, found.arrays)
    except CheckpointError as error:
        raise CheckpointError(f"{found.path}: {error}") from error


def _path_name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def save(folder: Path, step: int, tree: Any, description: Mapping[str, Any]) -> Path:
    """Writes a checkpoint so that it appears whole or not at all; only the newest `KEEP` stay."""
    arrays = flatten(tree)
    text = json.dumps({**description, "format": FORMAT, "step": step})
    metadata = {"description": text, "digest": digest(arrays, text)}
    path = folder / f"step-{step:012d}.safetensors"
    with replacing(path) as partial:
        try:
            save_file(arrays, partial, metadata=metadata)
        except SafetensorError as error:  # for instance if the disk is full
            raise _as_os_error(error) from error
    # Files that claim a later step stay: only a user can know what they are.
    older = [old for old in newest_first(folder) if _step_of(old) < step]
    for old in older[KEEP - 1 :]:
        old.unlink()
    return path


def _as_os_error(error: SafetensorError) -> OSError:
    """The error of the operating system that safetensors wraps in a text."""
    code = re.search(r"os error (\d+)", str(error))
    return OSError(int(code[1]), os.strerror(int(code[1]))) if code else OSError(str(error))


def load(path: Path) -> Checkpoint:
    """Reads one file; raises a `CheckpointError` if it is not exactly what was written."""
    _check_readable(path)
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text = metadata.get("description", "")
        expected = digest(arrays, text)
    except BaseException as error:  # safetensors' panics are no ordinary exceptions
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise CheckpointError(f"{path} is damaged or not a checkpoint: {error}") from error
    if metadata.get("digest") != expected:
        raise CheckpointError(
            f"{path} was altered or damaged: its contents do not match its digest"
        )
    return Checkpoint(arrays, _parse(text, path), path)


def read_description(path: Path) -> dict[str, Any]:
    """The description in a file, read without its arrays."""
    _check_readable(path)
    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get("description", "")
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is damaged or not a checkpoint: {error}") from error
    return _parse(text, path)


def _check_readable(path: Path) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise CheckpointError(f"{path} can't be read: {error.strerror}") from error


def _parse(text: str, path: Path) -> dict[str, Any]:
    """The description of a checkpoint; its step must be the one in the file's name."""
    try:
        description = json.loads(text)
        version = description["format"]
        step = description["step"]
        seconds = description.get("seconds", 0.0)
        if not isinstance(step, int) or not isinstance(seconds, int | float):
            raise TypeError("step and seconds should be numbers")
        if not math.isfinite(seconds):
            raise ValueError("seconds should be finite")
    except UNREADABLE as error:
        raise CheckpointError(
            f"{path} does not say what it holds: {type(error).__name__}: {error}"
        ) from error
    if version != FORMAT:
        raise CheckpointError(f"{path} has format {version}; this version reads format {FORMAT}")
    named = _NAME.fullmatch(path.name)
    if named and _step_of(path) != step:
        raise CheckpointError(f"{path} was renamed: it is of step {step}")
    return description


def load_newest(folder: Path) -> Checkpoint | None:
    """The newest intact checkpoint; warns about damaged ones. None if there is no checkpoint."""
    refused = []
    for path in newest_first(folder):
        try:
            checkpoint = load(path)
        except CheckpointError as error:
            refused.append(error)
            continue
        for reason in refused:
            warnings.warn(f"{reason}; using {path.name} instead", stacklevel=2)
        return checkpoint
    if refused:
        raise refused[0]
    return None


def newest_first(folder: Path) -> list[Path]:
    """The files of all checkpoints, whether they are intact or not."""
    try:
        found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name) and path.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CheckpointError(f"{folder} can't be read: {error.strerror}") from error
    return sorted(found, key=_step_of, reverse=True)


def _step_of(path: Path) -> int:
    return int(path.stem.removeprefix("step-"))


def digest(arrays: Mapping[str, np.ndarray], text: str) -> str:
    """A checksum of arrays by name and a text, which tells whether any of it was changed."""
    hashed = hashlib.blake2b(text.encode(), digest_size=32)
    for name in sorted(arrays):
        array = arrays[name]
        hashed.update(f"{name} {array.dtype} {array.shape}".encode())
        hashed.update(array.reshape(-1).view(np.uint8).data)
    return hashed.hexdigest()
