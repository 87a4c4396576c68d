"""Small pictures of discs, drawn in JAX, so that compiled programs can look at them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_ARRAYS = ("radii", "colours", "paper")
EDGE = 0.5  # pixels on both sides of a disc's edge over which it fades


@dataclasses.dataclass(frozen=True)
class Discs:
    """What a picture of discs looks like; where they are is given when it is drawn.

    Attributes:
      names: of the discs, those behind first.
      radii: [m], in pixels.
      colours: [m, 3], from 0 to 1.
      paper: [3], the colour behind them.
      pixels: height and width of the picture.
      scale: pixels per unit of the world, whose (0, 0) is in the middle.
    """

    names: tuple[str, ...]
    radii: np.ndarray
    colours: np.ndarray
    paper: np.ndarray
    pixels: int
    scale: float

    @cached_property
    def palette(self) -> np.ndarray:
        """The colours that there are, [c, 3]."""
        return np.unique(self.colours, axis=0)

    @cached_property
    def colour_of(self) -> np.ndarray:
        """Which colour of the palette each disc has, [m]."""
        return np.array([np.abs(self.palette - one).sum(1).argmin() for one in self.colours])

    @cached_property
    def next_alike(self) -> np.ndarray:
        """For each disc the next one of its colour, or itself, [m]."""
        found = np.arange(len(self.names))
        for colour in range(len(self.palette)):
            own = np.flatnonzero(self.colour_of == colour)
            found[own] = np.roll(own, -1)
        return found

    @cached_property
    def sizes(self) -> np.ndarray:
        """The radii that there are."""
        return np.unique(self.radii)

    @cached_property
    def size_of(self) -> np.ndarray:
        """Which of these sizes each disc has, [m]."""
        return np.searchsorted(self.sizes, self.radii)

    def to_json(self) -> dict[str, Any]:
        """All fields; `from_json` takes them back."""
        fields = {**dataclasses.asdict(self), "names": list(self.names)}
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in fields.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Discs:
        arrays = {name: np.asarray(data[name], np.float32) for name in _ARRAYS}
        return cls(**{**data, **arrays, "names": tuple(data["names"])})

    def lines(self, cells: int) -> np.ndarray:
        """Where the middles of so many columns lie, from left to right, in units of the world."""
        size = self.pixels / cells
        return (((np.arange(cells) + 0.5) * size - self.pixels / 2) / self.scale).astype(np.float32)

    def cover(self, places: jax.Array) -> jax.Array:
        """How much of each pixel each disc at `places` [m, 2] takes, [m, rows, columns].

        Rows go from the top, where y is large, to the bottom.
        """
        lines = jnp.asarray(self.lines(self.pixels))
        across = (lines - places[:, :1]) ** 2
        down = (-lines - places[:, 1:]) ** 2
        distance = jnp.sqrt(down[:, :, None] + across[:, None, :])
        return jnp.clip((self.radii[:, None, None] - distance * self.scale) + EDGE, 0.0, 1.0)

    def paint(self, cover: jax.Array) -> jax.Array:
        """A picture [rows, columns, 3] of discs of which each takes a part of each pixel.

        `cover` is [m, rows, columns]; colours are from 0 to 1.
        """
        # One colour plane at a time, with plain numbers: XLA then fuses it into a single pass.
        planes = [jnp.full(cover.shape[1:], float(paper)) for paper in self.paper]
        for taken, colour in zip(cover, self.colours, strict=True):
            planes = [
                plane + taken * (float(part) - plane)
                for plane, part in zip(planes, colour, strict=True)
            ]
        return jnp.stack(planes, axis=-1)

    def draw(self, places: jax.Array) -> jax.Array:
        """The picture of discs at `places` [m, 2], uint8 [rows, columns, 3]."""
        return jnp.round(self.paint(self.cover(places)) * 255).astype(jnp.uint8)
