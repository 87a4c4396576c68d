"""A small drawing surface in the coordinates of a world, with y upwards.

The worlds of this package draw themselves with it, so that their pictures look alike. Everything is
drawn at twice the size and then reduced, which smooths the jagged edges of Pillow's shapes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFont

SUPERSAMPLING = 2
PAPER = "#fafaf7"
INK = "#3b4252"
FAINT = "#c8ccd4"
HUES = (  # ten colours that are easy to tell apart; worlds with more things repeat them
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951",
    "#ff8ab7", "#a463f2", "#b5c61c", "#9c6b4e", "#8a94a6",
)  # fmt: skip


def fade(colour: str, opacity: float) -> str:
    """A `#rrggbb` colour with an opacity from 0 to 1."""
    return f"{colour}{round(255 * opacity):02x}"


def rgb(colour: str) -> tuple[float, ...]:
    """The red, green and blue of a `#rrggbb` colour, from 0 to 1."""
    return tuple(part / 255 for part in ImageColor.getrgb(colour))


class Canvas:
    """A square picture of the region [low, high]² of a world.

    Lengths are in world units, line widths in pixels.
    """

    def __init__(self, low: float, high: float, pixels: int = 480):
        self._low = low
        self._high = high
        self._scale = pixels * SUPERSAMPLING / (high - low)
        self._image = Image.new("RGB", (pixels * SUPERSAMPLING,) * 2, PAPER)
        self._draw = ImageDraw.Draw(self._image, "RGBA")

    def _place(self, point: Sequence[float]) -> tuple[float, float]:
        x = (float(point[0]) - self._low) * self._scale
        y = (self._high - float(point[1])) * self._scale
        return x, y

    def disc(
        self,
        centre,
        radius: float,
        fill: str | None = None,
        edge: str | None = None,
        width: float = 1,
    ):
        x, y = self._place(centre)
        r = radius * self._scale
        self._draw.ellipse((x - r, y - r, x + r, y + r), fill, edge, round(width * SUPERSAMPLING))

    def line(self, start, end, colour: str, width: float = 1):
        self._draw.line(
            (self._place(start), self._place(end)), colour, round(width * SUPERSAMPLING)
        )

    def polygon(self, points, fill: str | None = None, edge: str | None = None, width: float = 1):
        self._draw.polygon(
            [self._place(point) for point in points], fill, edge, round(width * SUPERSAMPLING)
        )

    def box(self, low, high, fill: str | None = None, edge: str | None = None, width: float = 1):
        x0, y1 = self._place(low)
        x1, y0 = self._place(high)
        self._draw.rectangle((x0, y0, x1, y1), fill, edge, round(width * SUPERSAMPLING))

    def text(self, point, text: str, colour: str, height: float, anchor: str = "mm"):
        font = ImageFont.load_default(height * self._scale)
        self._draw.text(self._place(point), text, colour, font, anchor)

    def grid(self, low: float, high: float, spacing: float):
        """A faint grid, and a frame around the region [low, high]² that things can be in."""
        for value in np.arange(low + spacing, high - spacing / 2, spacing):
            self.line((value, low), (value, high), fade(INK, 0.09))
            self.line((low, value), (high, value), fade(INK, 0.09))
        self.box((low, low), (high, high), edge=fade(INK, 0.35), width=1.5)

    def image(self) -> np.ndarray:
        """The finished picture, uint8 [pixels, pixels, 3]."""
        return np.array(self._image.reduce(SUPERSAMPLING))


def caption(picture: np.ndarray, text: str) -> np.ndarray:
    """A picture [height, width, 3] with a text across its upper edge, if there is one."""
    if not text:
        return picture
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image, "RGBA")
    height = max(image.height // 16, 12)
    draw.rectangle((0, 0, image.width, height), fade("#ffffff", 0.75))
    draw.text((height // 3, height // 2), text, INK, ImageFont.load_default(0.7 * height), "lm")
    return np.array(image)
