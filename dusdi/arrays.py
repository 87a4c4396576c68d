"""Files of named arrays that say what they are: policies and encoders.

A file is safetensors, with a description in JSON in its header, and a digest of both. Nothing in it
is ever executed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

from dusdi.checkpoint import digest
from dusdi.errors import CheckpointError
from dusdi.files import replacing

FORMAT = 1
#: Of an encoder, in its own folder and in those of runs that see pictures.
ENCODER_NAME = "encoder.safetensors"


def write_arrays(path: Path, arrays: dict[str, np.ndarray], description: Mapping[str, Any]) -> None:
    """Writes a file; it appears once it is whole."""
    text = json.dumps({"format": FORMAT, **description})
    metadata = {"description": text, "digest": digest(arrays, text)}
    with replacing(path) as partial:
        partial.write_bytes(save(arrays, metadata=metadata))


def read_arrays(
    path: Path, what: str, advice: str, whole: bool = True
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description and the arrays in a file; no arrays unless it is read as a `whole`.

    Errors say that the file is not `what` it should be, and end with an advice.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in list(file.keys())} if whole else {}
        text = metadata.get("description", "")
        description = json.loads(text)
        altered = whole and metadata.get("digest") != digest(arrays, text)
    except BaseException as error:  # safetensors' panics are no ordinary exceptions
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise _damaged(path, what, str(error), advice) from error
    if altered:
        raise _damaged(path, what, "its contents do not match its digest", advice)
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise _damaged(path, what, f"it should say format {FORMAT}", advice)
    broken = [name for name, array in arrays.items() if np.isnan(array).any()]
    if broken:
        raise _damaged(path, what, f"{broken[0]} is not finite", advice)
    return description, arrays


def _damaged(path: Path, what: str, why: str, advice: str) -> CheckpointError:
    """The error for a file that can't be used."""
    return CheckpointError(f"{path} is damaged or not {what} of dusdi's: {why}; {advice}")
