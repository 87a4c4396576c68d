"""Checkpoints: atomic, complete, safe to load, self-describing.

A checkpoint is one safetensors file: every array of a pytree under its path, and a JSON description in the header. Nothing in
it is ever executed. A digest over all of it tells a damaged file, which is refused in favour of the one before.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from dusdi.errors import CheckpointError

FORMAT = 1
KEEP = 2
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
            raise CheckpointError(f"checkpoint does not fit: {name} {found}, expected {leaf.dtype}{list(leaf.shape)}")
        return array

    return jax.tree_util.tree_map_with_path(pick, like)


def subtree(arrays: Mapping[str, np.ndarray], root: str) -> dict[str, Any]:
    """The nested dictionary of all arrays below a path."""
    nested: dict[str, Any] = {}
    for name, array in arrays.items():
        if name.startswith(root + "/"):
            *parents, leaf = name.removeprefix(root + "/").split("/")
            branch = nested
            for parent in parents:
                branch = branch.setdefault(parent, {})
            branch[leaf] = array
    return nested


def _path_name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def save(folder: Path, step: int, tree: Any, description: Mapping[str, Any]) -> Path:
    """Writes a checkpoint so that it appears whole or not at all, and drops all but the newest `KEEP`."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = flatten(tree)
    text = json.dumps({**description, "format": FORMAT, "step": step})
    path = folder / f"step-{step:012d}.safetensors"
    partial = path.with_suffix(".partial")
    save_file(arrays, partial, metadata={"description": text, "digest": _digest(arrays, text)})
    _flush(partial)
    os.replace(partial, path)
    _flush(folder)
    for old in list(_newest_first(folder))[KEEP:]:
        old.unlink()
    return path


def load(path: Path) -> Checkpoint:
    """Reads one file; raises a `CheckpointError` if it is not exactly what was written."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is damaged or not a checkpoint: {error}") from error
    text = metadata.get("description", "")
    if metadata.get("digest") != _digest(arrays, text):
        raise CheckpointError(f"{path} was altered or damaged: its contents do not match its digest")
    description = json.loads(text)
    if description["format"] != FORMAT:
        raise CheckpointError(f"{path} has format {description['format']}; this version reads format {FORMAT}")
    return Checkpoint(arrays, description, path)


def load_newest(folder: Path) -> Checkpoint | None:
    """The newest sound checkpoint; warns about damaged ones. None if there never was any."""
    refused = []
    for path in _newest_first(folder):
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


def _newest_first(folder: Path) -> Iterator[Path]:
    found = [path for path in folder.glob("step-*.safetensors") if _NAME.fullmatch(path.name)]
    yield from sorted(found, reverse=True)


def _digest(arrays: Mapping[str, np.ndarray], text: str) -> str:
    digest = hashlib.blake2b(text.encode(), digest_size=32)
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _flush(path: Path) -> None:
    """Makes sure that a file's or folder's contents are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
