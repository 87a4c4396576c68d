"""The look that all pictures share: one palette, little ink, and a legend that leaves nobody out.

Figures are built without pyplot, so drawing one leaves no global state behind and needs no display.
Names of worlds and factors are shown as they are, also if they look like mathematics.
"""

from __future__ import annotations

import math
import os
import textwrap
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import hsv_to_rgb, to_hex
from matplotlib.figure import Figure

from dusdi.files import replacing

INK = "#1f2733"
MUTED = "#66717f"
FAINT = "#98a2ae"
EMPTY = "#f1f3f5"
SERIES = ("#5b4ab0", "#e08a3c", "#3b9a86", "#c2486b")  # colours of the first series, in this order
LINE_STYLES = ("-", "--", "-.", ":")
MARKERS = ("", "o", "s", "^", "D", "v", "P")
POINTS_PER_INCH = 72
WIDTH_OF_LETTERS = 0.65  # on average, as a share of their size
MOST_COLUMNS = 6  # of a legend
MOST_TICKS = 6  # of steps, so that long numbers have room beside each other
HATCHES = ("", "//", "..", "xx", "\\\\")

File = str | os.PathLike[str]
#: Draws text as it is, without reading mathematics into it.
plain_text = matplotlib.rc_context({"text.parse_math": False})


def colour(index: int) -> str:
    """Returns the colour of one of any number of series.

    Colours after the first few are steps of the golden angle around the wheel of hues.
    """
    if index < len(SERIES):
        return SERIES[index]
    hue = (0.11 + index * (math.sqrt(5.0) - 1.0) / 2.0) % 1.0
    return to_hex(tuple(hsv_to_rgb((hue, 0.65, 0.55 + 0.3 * (index % 2)))))


def line_look(index: int) -> dict[str, Any]:
    """Returns colour, line style and marker of a series.

    The first four lines are solid, the next four dashed with circles, and so on: similar hues
    still differ in style.
    """
    group = index // len(SERIES)
    return {
        "color": colour(index),
        "linestyle": LINE_STYLES[group % len(LINE_STYLES)],
        "marker": MARKERS[group % len(MARKERS)],
        "markersize": 4,
        "markevery": 0.1,
    }


def bar_look(index: int) -> dict[str, Any]:
    """Returns colour and hatch of a series of bars; the first four are plain."""
    return {"color": colour(index), "hatch": HATCHES[index // len(SERIES) % len(HATCHES)]}


def new_figure(width: float, height: float, title: str = "", dpi: int = 180) -> Figure:
    """Returns an empty white figure whose size is in inches."""
    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    if title:
        look: dict[str, Any] = {"fontsize": 14, "fontweight": "bold", "color": INK}
        figure.suptitle(wrapped(title, width, look["fontsize"]), **look)
    return figure


def wrapped(text: str, width: float, size: float) -> str:
    """A text in letters of so many points, in lines that fit a width in inches.

    matplotlib's own way of wrapping would read mathematics into names.
    """
    return textwrap.fill(text, int(width * POINTS_PER_INCH / (WIDTH_OF_LETTERS * size)))


def panels(figure: Figure, count: int, columns: int) -> list[Axes]:
    """Adds a grid of `count` panels to a figure; places that are left over stay blank."""
    lines = math.ceil(count / columns)
    grid = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axes in grid[count:]:
        axes.set_axis_off()
    return grid[:count]


def add_legend(figure: Figure) -> None:
    """Adds one legend below all panels; a series is named if any panel shows it.

    It has as many columns as fit.
    """
    named: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        named |= {label: handle for handle, label in zip(handles, labels, strict=True)} | named
    look: dict[str, Any] = {"fontsize": 9, "frameon": False, "loc": "outside lower center"}
    for columns in range(min(MOST_COLUMNS, len(named)), 0, -1):
        legend = figure.legend(named.values(), named.keys(), ncols=columns, **look)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def tidy(axes: Axes) -> None:
    """Removes the box around the axes and leaves faint lines across."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="y", color=EMPTY)
    axes.set_axisbelow(True)
    axes.locator_params(axis="x", nbins=MOST_TICKS)
    axes.tick_params(length=0, labelcolor=INK)


def save(figure: Figure, path: File, **options: Any) -> None:
    """Writes a figure so that it appears whole or not at all, and never through a link."""
    with replacing(path) as partial:
        figure.savefig(partial, **options)
