"""Bars of DCI scores, method beside method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dusdi.metrics.dci import NAMES
from dusdi.report import style
from dusdi.report.style import INK, File

Row = Mapping[str, Any]


@style.plain_text
def score_bars(rows: Sequence[Row], path: File, title: str) -> None:
    """Saves bars of DCI scores: a column of panels per world, a row of panels per direction.

    Args:
      rows: one for each `world`, `method` and `direction`, with the mean of each score under its
        name, and under name_std, name_paper and name_reference the spread over seeds, the paper's
        value (a diamond) and the scripted reference's (a dotted line). None leaves a mark out.
      path: the picture.
      title: above it.
    """
    worlds = list(dict.fromkeys(row["world"] for row in rows))
    directions = list(dict.fromkeys(row["direction"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    width = (2.4 + 0.3 * max(4, len(methods))) * len(worlds) + 1
    figure = style.new_figure(width, 3.2 * len(directions), title)
    grid = figure.subplots(len(directions), len(worlds), squeeze=False, sharey=True)
    for line, direction in zip(grid, directions, strict=True):
        for axes, world in zip(line, worlds, strict=True):
            own = [row for row in rows if (row["world"], row["direction"]) == (world, direction)]
            _bar_panel(axes, own, methods)
            axes.set_title(f"{world}, {direction}", fontsize=11, color=INK)
    style.add_legend(figure)
    style.save(figure, path)


def _bar_panel(axes: Axes, rows: Sequence[Row], methods: Sequence[str]) -> None:
    """Draws a group of bars for each score; a method keeps its place and colour in all panels."""
    width = 0.8 / len(methods)
    for row in rows:
        index = methods.index(row["method"])
        places = np.arange(len(NAMES)) + (index - (len(methods) - 1) / 2) * width
        spread = np.nan_to_num(_values(row, "_std"))
        look = {"ecolor": INK, "edgecolor": "white", **style.bar_look(index)}
        axes.bar(places, _values(row), 0.92 * width, yerr=spread, label=row["method"], **look)
        paper = _values(row, "_paper")
        if np.isfinite(paper).any():
            mark: dict[str, Any] = {"color": "white", "markeredgecolor": INK, "markersize": 6}
            axes.plot(places, paper, "D", label="paper", **mark)
    for place, value in enumerate(_values(rows[0], "_reference") if rows else ()):
        if math.isfinite(value):
            ends = [place - 0.42, place + 0.42]
            axes.plot(ends, [value] * 2, ":", color=INK, label="scripted reference")
    axes.set_xticks(range(len(NAMES)), NAMES, fontsize=9)
    axes.set_ylim(0, 1.05)
    style.tidy(axes)


def _values(row: Row, suffix: str = "") -> np.ndarray:
    """Returns a row's value for each score, NaN where there is none."""
    found = (row.get(f"{name}{suffix}") for name in NAMES)
    return np.array([math.nan if value is None else float(value) for value in found])
