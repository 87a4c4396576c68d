"""Encoders: a small network that says where things are in a picture, and the file it lives in.

It has one heat map for each thing; a thing's place is the mean of its heat map. Like a policy file,
an encoder's file says what it is, and using it needs nothing that training it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax.errors import FlaxError

from dusdi.arrays import ENCODER_NAME, read_arrays, write_arrays
from dusdi.checkpoint import digest, flatten
from dusdi.errors import CheckpointError, UsageError
from dusdi.files import remembered

WHAT = "an encoder"
ADVICE = "train one by dusdi encode"
STRIDE = 2  # pixels of a cell of a heat map


class HeatMaps(nn.Module):
    """The logarithms of heat maps [B, cells, things] for pictures [B, rows, columns, 3].

    Attributes:
      things: how many there are.
      features: channels of the two convolutions.
    """

    things: int
    features: tuple[int, int] = (16, 32)

    @nn.compact
    def __call__(self, pictures: jax.Array) -> jax.Array:
        x = pictures.astype(jnp.float32) / 255 - 0.5
        x = nn.relu(nn.Conv(self.features[0], (5, 5), (STRIDE, STRIDE))(x))
        x = nn.relu(nn.Conv(self.features[1], (3, 3))(x))
        x = nn.Conv(self.things, (1, 1))(x)
        return jax.nn.log_softmax(x.reshape(len(x), -1, self.things), axis=1)


class Encoder:
    """A trained network.

    Attributes:
      params: of `HeatMaps`.
      description: what it was trained for and how well it does.
      names: of the things, in order.
      lines: where the columns of heat maps are, from left to right, in the world's units.
    """

    def __init__(self, params: Any, description: Mapping[str, Any]):
        self.params = params
        self.description = dict(description)
        self.names = tuple(description["things"])
        self.lines = np.asarray(description["lines"], np.float32)
        self.network = HeatMaps(len(self.names), tuple(description["features"]))

    def places(self, pictures: jax.Array) -> jax.Array:
        """Where things are in pictures uint8 [B, rows, columns, 3], [B, things, 2]."""
        log_maps: Any = self.network.apply(self.params, pictures)
        return mean_places(jnp.exp(log_maps), self.lines)

    @cached_property
    def digest(self) -> str:
        """Names what it is: a short hash of its parameters."""
        return digest(flatten(self.params), "")[:12]

    def check_fit(self, world: str, names: Sequence[str], pixels: int) -> None:
        """Raises a `UsageError` unless it was trained for pictures of such things."""
        ours = (self.description["world"], len(self.names), self.description["pixels"])
        if ours != (world, len(names), pixels) or self.names != tuple(names):
            raise UsageError(
                f"the encoder is for {ours[1]} things in pictures of {ours[0]!r} of {ours[2]} "
                f"pixels, not for {len(names)} in those of {world!r} of {pixels}; "
                "train one for this world by dusdi encode"
            )

    def save(self, path: Path) -> None:
        """Writes the encoder's file."""
        write_arrays(path, flatten(self.params), self.description)


def mean_places(weights: jax.Array, lines: np.ndarray) -> jax.Array:
    """The mean places [B, things, 2] of heat maps [B, cells, things]."""
    count = len(lines)
    maps = weights.reshape(len(weights), count, count, -1)  # rows, columns
    x = jnp.einsum("brct,c->bt", maps, lines)
    y = jnp.einsum("brct,r->bt", maps, -lines)
    return jnp.stack([x, y], axis=-1)


def load_encoder(place: str | Path) -> Encoder:
    """The encoder in a file or a folder, or the one with that digest of a run that was loaded."""
    path = remembered(str(place)) or Path(place)
    file = path / ENCODER_NAME if path.is_dir() else path
    if not file.exists():
        raise UsageError(f"there is no encoder at {path}; {ADVICE}")
    description, arrays = read_arrays(file, WHAT, ADVICE)
    try:
        encoder = Encoder(_nested(arrays), description)
        side = int(description["pixels"])
        encoder.places(jnp.zeros((1, side, side, 3), jnp.uint8))
    except (KeyError, TypeError, ValueError, AttributeError, FlaxError) as error:
        raise CheckpointError(
            f"{file} does not say what encoder it is: {type(error).__name__}: {error}; {ADVICE}"
        ) from error
    return encoder


def _nested(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Parameters by the path that `flatten` gave them."""
    nested: dict[str, Any] = {}
    for path, array in arrays.items():
        *groups, name = path.split("/")
        place = nested
        for group in groups:
            place = place.setdefault(group, {})
        place[name] = array
    return nested
