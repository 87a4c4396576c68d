"""Learning curves: the interquartile mean over seeds as a line, its 95 % interval as a band."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from dusdi.metrics.statistics import bootstrap_interval, interquartile_mean
from dusdi.report import style
from dusdi.report.style import FAINT, INK, MUTED, File

RESAMPLES = 300  # that each of a band's many intervals is made of

Row = Mapping[str, Any]


@style.plain_text
def curves(
    rows: Sequence[Row], path: File, title: str, metric: str, chance: float | None = None
) -> None:
    """Saves a metric over environment steps: a panel per world, a line per method.

    Args:
      rows: points, each with its `world`, `method`, `seed`, `step` and the metric.
      path: the picture.
      title: above it.
      metric: the column to draw.
      chance: the metric of guessing, drawn as a line across.
    """
    worlds = list(dict.fromkeys(row["world"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    figure = style.new_figure(4.6 * len(worlds), 3.9, title)
    grid = figure.subplots(1, len(worlds), squeeze=False, sharey=True)[0]
    for axes, world in zip(grid, worlds, strict=True):
        draw_lines(axes, [row for row in rows if row["world"] == world], "method", metric, methods)
        if chance is not None:
            axes.axhline(chance, color=FAINT, linestyle=":", label="chance")
        _label_steps(axes, world)
        if metric == "accuracy":
            axes.set_ylim(0, 1)
    figure.axes[0].set_ylabel(metric.replace("_", " "), color=MUTED)
    style.add_legend(figure)
    style.save(figure, path)


@style.plain_text
def task_curves(rows: Sequence[Row], ends: Sequence[Row], path: File, title: str) -> None:
    """Saves returns over environment steps: a panel per task, a line per method.

    Args:
      rows: points, each with its `task`, `method`, `seed`, `step` and `return`.
      ends: one for each task and method, with the returns of the scripted reference (a dashed line)
        and of the method's own random skills (a dotted line in its colour); None leaves it out.
      path: the picture.
      title: above it.
    """
    tasks = list(dict.fromkeys(row["task"] for row in ends))
    methods = list(dict.fromkeys(row["method"] for row in ends))
    columns = min(4, len(tasks))
    height = 3.1 * math.ceil(len(tasks) / columns) + 0.6
    figure = style.new_figure(3.7 * max(2, columns), height, title, dpi=150)
    for axes, task in zip(style.panels(figure, len(tasks), columns), tasks, strict=True):
        own = [row for row in rows if row["task"] == task]
        draw_lines(axes, own, "method", "return", methods)
        _references(axes, [row for row in ends if row["task"] == task], methods)
        ended = {row["method"] for row in own}
        silent = [row["method"] for row in ends if row["task"] == task]
        silent = [method for method in silent if method not in ended]
        if silent:
            whose = f": {', '.join(silent)}" if own else ""
            text = f"no episode ended{whose}"
            axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center")
        _label_steps(axes, task)
    figure.axes[0].set_ylabel("return", color=MUTED)
    style.add_legend(figure)
    style.save(figure, path)


def _references(axes: Axes, ends: Sequence[Row], methods: Sequence[str]) -> None:
    """Draws the returns of the scripted reference and of each method's random skills across."""
    found = [row["scripted_reference"] for row in ends if row.get("scripted_reference") is not None]
    if found:
        label = "scripted reference"
        axes.axhline(np.mean(found), color=INK, linestyle="--", linewidth=1, label=label)
    floors = [row for row in ends if row.get("random_skills") is not None]
    for row in floors:
        tone = style.colour(methods.index(row["method"]))
        axes.axhline(row["random_skills"], color=tone, linestyle=":", linewidth=1)
    if floors:  # an entry of the legend for all of them
        axes.plot([], [], ":", color=MUTED, linewidth=1, label="random skills of each method")


class Panel(NamedTuple):
    """Learning curves of runs that can be compared.

    Attributes:
      title: what they have in common.
      metric: what is drawn.
      chance: the metric of guessing, if there is one.
      rows: points of the curves, each with its `run`, `seed`, `step` and `value`.
    """

    title: str
    metric: str
    chance: float | None
    rows: list[dict[str, Any]]


@style.plain_text
def run_curves(curves_of: Sequence[Panel], path: File) -> None:
    """Saves metrics over environment steps: a panel for each kind of runs, a line per run."""
    columns = min(3, len(curves_of))
    lines = math.ceil(len(curves_of) / columns)
    most = max(len({row["run"] for row in panel.rows}) for panel in curves_of)
    figure = style.new_figure(5.2 * columns, (3.4 + 0.2 * most) * lines, dpi=150)
    grid = style.panels(figure, len(curves_of), columns)
    for panel, axes in zip(curves_of, grid, strict=True):
        draw_lines(axes, panel.rows, "run", "value")
        if panel.chance is not None:
            axes.axhline(panel.chance, color=FAINT, linestyle=":", label="chance")
        _label_steps(axes, panel.title)
        axes.set_ylabel(panel.metric.replace("_", " "), color=MUTED)
        if panel.metric == "accuracy":
            axes.set_ylim(0, 1)
        axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    style.save(figure, path)


def draw_lines(
    axes: Axes, rows: Sequence[Row], kind: str, value: str, names: Sequence[str] = ()
) -> None:
    """Draws a line for each kind of row, the interquartile mean, in a band, its 95 % interval.

    A kind's look is that of its place in `names`, by default its place among the rows, so that it
    stays the same in panels where others are missing. A single seed has no band.
    """
    names = names or list(dict.fromkeys(row[kind] for row in rows))
    for index, name in enumerate(names):
        own = [row for row in rows if row[kind] == name]
        if not own:
            continue
        steps, values = _on_common_steps(own, value)
        middle = interquartile_mean(values)
        look = style.line_look(index)
        if len(steps) == 1:  # no line could be seen
            look["marker"] = look["marker"] or "o"
        axes.plot(steps / 1e6, middle, label=name, linewidth=2, **look)
        interval = bootstrap_interval(interquartile_mean, values, resamples=RESAMPLES)
        if interval:
            band: dict[str, Any] = {"color": style.colour(index), "alpha": 0.2, "linewidth": 0}
            axes.fill_between(steps / 1e6, *interval, **band)


def _on_common_steps(rows: Sequence[Row], value: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the steps [T] at which every seed has a value, and the values [T, S].

    A row holds the mean since the row before: between rows, a seed has the value of the later one.
    """
    seeds: dict[int, list[tuple[int, float]]] = {}
    for row in sorted(rows, key=lambda row: row["step"]):
        seeds.setdefault(row["seed"], []).append((row["step"], row[value]))
    curves = [np.array(points).T for points in seeds.values()]
    steps = np.unique(np.concatenate([own for own, _ in curves]))
    start = max(own[0] for own, _ in curves)
    end = min(own[-1] for own, _ in curves)
    common = steps[(steps >= start) & (steps <= end)]
    return common, np.stack([v[np.searchsorted(own, common)] for own, v in curves], axis=-1)


def _label_steps(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=11, color=INK)
    axes.set_xlabel("million environment steps", color=MUTED)
    style.tidy(axes)
