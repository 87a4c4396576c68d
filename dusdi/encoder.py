"""Encoders: a small network that says where discs are in a picture, and the file it lives in.

A heat map proposes a few places for each disc; a closer look at a window around each says how
likely the disc is there, and where exactly. All discs of one size share weights, since they differ
only in colour. Like a policy file, an encoder's file says what it is, and using it needs nothing
that training it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax.errors import FlaxError

from dusdi.arrays import ENCODER_NAME, read_arrays, write_arrays
from dusdi.checkpoint import digest, flatten
from dusdi.errors import CheckpointError, UsageError
from dusdi.files import remembered
from dusdi.raster import Discs

WHAT = "an encoder"
ADVICE = "train one by dusdi encode"
CELL = 4  # pixels of a cell of a heat map
BLOCK = 2  # pixels that a heat map sees as one
WINDOW = 16  # pixels of the window in which a disc is looked at closely
PROPOSED = 4  # places at which a disc is looked for


class Found(NamedTuple):
    """What a `Finder` sees in pictures.

    Attributes:
      log_maps: logarithms of heat maps, [B, cells, m].
      proposed: places to look closer at, in pixels from the left and from the top, [B, m, P, 2].
      scores: of the proposed places, [B, m, P]; the highest is the most likely.
      pixels: these places after a closer look, [B, m, P, 2].
    """

    log_maps: jax.Array
    proposed: jax.Array
    scores: jax.Array
    pixels: jax.Array

    @property
    def best(self) -> jax.Array:
        """The most likely places, [B, m, 2]."""
        chosen = self.scores.argmax(-1)[..., None, None]
        return jnp.take_along_axis(self.pixels, chosen, axis=2)[:, :, 0]


class Finder(nn.Module):
    """Finds discs in pictures uint8 [B, pixels, pixels, 3].

    Attributes:
      discs: what they look like.
      features: of the network of heat maps.
      hidden: units of the network that looks closely.
    """

    discs: Discs
    features: int = 16
    hidden: int = 64

    @nn.compact
    def __call__(self, pictures: jax.Array) -> Found:
        own, paper = planes(self.discs, pictures)
        log_maps = self._search(own, paper)
        proposed = proposals(jax.lax.stop_gradient(log_maps), self.discs.pixels // CELL)
        return Found(log_maps, proposed, *self._look_closer(own, paper, proposed))

    def _search(self, own: jax.Array, paper: jax.Array) -> jax.Array:
        """The logarithms of heat maps, from planes [B, c, pixels, pixels] and the paper's."""
        batch, colours = own.shape[:2]
        cells = self.discs.pixels // CELL
        x = nn.Conv(self.features, (3, 3))(grouped(own.reshape(-1, *own.shape[2:])))
        x = x.reshape(batch, colours, cells, cells, -1)
        x = nn.relu(x + nn.Conv(self.features, (3, 3))(grouped(paper))[:, None])
        x = nn.Dense(len(self.discs.sizes))(x).reshape(batch, colours, cells**2, -1)
        maps = x[:, self.discs.colour_of, :, self.discs.size_of]  # [m, B, cells]
        return jax.nn.log_softmax(maps.transpose(1, 2, 0), axis=1)

    def _look_closer(
        self, own: jax.Array, paper: jax.Array, proposed: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Scores and exact places, from planes and proposed places [B, m, P, 2]."""
        middle = proposed.astype(int)
        colour_of = jnp.asarray(self.discs.colour_of)
        parts = [
            windows(own, colour_of, middle, outside=0.0),
            windows(paper[:, None], 0 * colour_of, middle, outside=1.0),
        ]
        seen = jnp.concatenate(parts, axis=-1)
        scores = jnp.zeros(middle.shape[:-1])
        pixels = middle.astype(float)
        for size in range(len(self.discs.sizes)):
            which = np.flatnonzero(self.discs.size_of == size)
            found = nn.Dense(3)(nn.relu(nn.Dense(self.hidden)(seen[:, which])))
            scores = scores.at[:, which].set(found[..., 0])
            pixels = pixels.at[:, which].add(CELL * found[..., 1:])
        return scores, pixels


def planes(discs: Discs, pictures: jax.Array) -> tuple[jax.Array, jax.Array]:
    """How much each pixel has each colour of the palette, [B, c, ...], and the paper's, [B, ...].

    It is 1 for that colour and falls to 0 at the distance of the nearest other one; that of the
    paper falls slowly, to 0 at the most distant one, since it is mixed with all of them at edges.
    """
    picture = pictures.astype(jnp.float32) / 255
    known = np.concatenate([discs.palette, discs.paper[None]])
    apart = np.linalg.norm(known[:, None] - known[None], axis=-1)
    nearest = np.where(apart > 0, apart, np.inf).min(1)

    def match(colour, reach):
        squares = sum((picture[..., k] - float(colour[k])) ** 2 for k in range(3))
        return jnp.maximum(0.0, 1 - jnp.sqrt(squares) / float(reach))

    own = [match(*one) for one in zip(known[:-1], nearest[:-1], strict=True)]
    return jnp.stack(own, axis=1), match(known[-1], apart[-1].max())


def grouped(plane: jax.Array) -> jax.Array:
    """Planes [n, pixels, pixels] in blocks: the means of each cell's blocks, [n, rows, cols, 4]."""
    count, side = plane.shape[0], plane.shape[1]
    blocks = plane.reshape(count, side // BLOCK, BLOCK, side // BLOCK, BLOCK).mean((2, 4))
    cells, inside = side // CELL, CELL // BLOCK
    parts = blocks.reshape(count, cells, inside, cells, inside).transpose(0, 1, 3, 2, 4)
    return parts.reshape(count, cells, cells, inside**2)


def proposals(log_maps: jax.Array, cells: int) -> jax.Array:
    """The middles of the highest cells that are no neighbours, in pixels, [B, m, P, 2]."""
    place = jnp.arange(cells**2)[:, None]
    found = []
    for _ in range(PROPOSED):
        top = log_maps.argmax(1)[:, None]  # [B, 1, m]
        apart = jnp.maximum(
            jnp.abs(place // cells - top // cells), jnp.abs(place % cells - top % cells)
        )
        log_maps = jnp.where(apart <= 1, -jnp.inf, log_maps)
        found.append(jnp.stack([top[:, 0] % cells, top[:, 0] // cells], axis=-1))
    return (jnp.stack(found, axis=2) + 0.5) * CELL


def windows(plane: jax.Array, which: jax.Array, middle: jax.Array, outside: float) -> jax.Array:
    """Windows of planes [B, c, pixels, pixels] around whole pixels `middle` [B, m, P, 2].

    Gives [B, m, P, pixels of a window]; `which` [m] says in which plane each is. Beyond the
    picture there is `outside`.
    """
    edge = (WINDOW // 2, WINDOW // 2)
    padded = jnp.pad(plane, ((0, 0), (0, 0), edge, edge), constant_values=outside)

    def cut(plane, which, middle):
        start = (which, middle[1], middle[0])
        return jax.lax.dynamic_slice(plane, start, (1, WINDOW, WINDOW)).ravel()

    over_places = jax.vmap(cut, (None, None, 0))
    return jax.vmap(jax.vmap(over_places, (None, 0, 0)), (0, None, 0))(padded, which, middle)


class Encoder:
    """A trained `Finder`.

    Attributes:
      params: of the `Finder`.
      description: what it was trained for and how well it does.
      discs: what it looks for.
    """

    def __init__(self, params: Any, description: Mapping[str, Any]):
        self.params = params
        self.description = dict(description)
        self.discs = Discs.from_json(description["discs"])
        self.network = Finder(self.discs, **description["network"])

    @property
    def names(self) -> tuple[str, ...]:
        """The things that it finds, in order."""
        return self.discs.names

    def look(self, picture: jax.Array) -> jax.Array:
        """Where things are in a picture uint8 [pixels, pixels, 3], in the world's units, [m, 2]."""
        found: Any = self.network.apply(self.params, picture[None])
        return places_of(self.discs, found.best[0])

    def places(self, pictures: jax.Array) -> jax.Array:
        """The same for many pictures [B, ...], one after the other, so that caches suffice."""
        return jax.lax.map(self.look, jnp.asarray(pictures))

    @cached_property
    def digest(self) -> str:
        """Names what it is: a short hash of its parameters."""
        return digest(flatten(self.params), "")[:12]

    def check_fit(self, world: str, discs: Discs) -> None:
        """Raises a `UsageError` unless it was trained for pictures of such things."""
        ours = self.description["world"]
        same = (ours, self.discs.names, self.discs.pixels) == (world, discs.names, discs.pixels)
        if same and self.discs.to_json() != discs.to_json():
            raise UsageError(
                f"the encoder is for things in pictures of {ours!r} that have other colours or "
                "sizes; train one for this world by dusdi encode"
            )
        if not same:
            raise UsageError(
                f"the encoder is for {len(self.names)} things in pictures of {ours!r} of "
                f"{self.discs.pixels} pixels, not for {len(discs.names)} in those of {world!r} of "
                f"{discs.pixels}; train one for this world by dusdi encode"
            )

    def save(self, path: Path) -> None:
        """Writes the encoder's file."""
        write_arrays(path, flatten(self.params), self.description)


def places_of(discs: Discs, pixels: jax.Array) -> jax.Array:
    """Places in the world's units, from pixels from the left and from the top."""
    middle = discs.pixels / 2
    return (pixels - middle) * jnp.array([1.0, -1.0]) / discs.scale


def load_encoder(place: str | Path) -> Encoder:
    """The encoder in a file or a folder, or the one with that digest of a run that was loaded."""
    path = remembered(str(place)) or Path(place)
    file = path / ENCODER_NAME if path.is_dir() else path
    if not file.exists():
        raise UsageError(f"there is no encoder at {path}; {ADVICE}")
    description, arrays = read_arrays(file, WHAT, ADVICE)
    try:
        encoder = Encoder(_nested(arrays), description)
        side = encoder.discs.pixels
        encoder.places(jnp.zeros((1, side, side, 3), jnp.uint8))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, FlaxError) as error:
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
