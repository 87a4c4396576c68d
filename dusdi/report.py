"""Results as pictures.

Figures are built without pyplot, so drawing one leaves no global state behind and needs no display.
Names of people's own worlds and factors are shown as they are, also if they look like mathematics.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import hsv_to_rgb, to_hex
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from dusdi.files import replacing
from dusdi.metrics.dci import DCI, NAMES, Scores
from dusdi.rollout import Rollout
from dusdi.types import Factor, WorldSpec

INK, MUTED, FAINT, EMPTY = "#1f2733", "#66717f", "#98a2ae", "#f1f3f5"
SERIES = ("#5b4ab0", "#e08a3c", "#3b9a86", "#c2486b")  # colours of the first methods, in this order
ANNOTATED = 14  # the most rows or columns whose cells have room for a number
WHOLE = 36  # the most pairs of components and factors of which each has a histogram
SHOWN_VALUES = 10  # the most values of a component that are shown
BINS = 60  # of a histogram

File = str | os.PathLike[str]
#: Text is shown as it is.
plain_text = matplotlib.rc_context({"text.parse_math": False})


def colour(index: int) -> str:
    """The colour of one of any number of methods, runs or values.

    Those after the first few are steps of the golden angle around the wheel of hues.
    """
    if index < len(SERIES):
        return SERIES[index]
    hue = (0.11 + index * (math.sqrt(5.0) - 1.0) / 2.0) % 1.0
    return to_hex(tuple(hsv_to_rgb((hue, 0.65, 0.55 + 0.3 * (index % 2)))))


@plain_text
def heat_map(result: DCI, path: File, title: str) -> None:
    """Saves an image of the importances in both directions, side by side, the paper's on the left."""
    components, factors = result.components, result.factors
    most = max(len(components), len(factors))
    cell = float(np.clip(5.2 / most, 0.2, 0.95))  # all lengths are in inches
    font = min(10.0, 36.0 * cell)  # points: half a cell
    gap = 1.0 + font / 120 * max(map(len, factors))  # room for the names of factors
    panels = [max(2.4, cell * len(columns)) for columns in (factors, components)]
    width, height = sum(panels) + gap + 0.5, cell * most

    figure = Figure(figsize=(width, height), dpi=180, facecolor="white")
    FigureCanvasAgg(figure)
    figure.text(0.0, 1.0 + 0.72 / height, title, fontsize=15, fontweight="bold", color=INK)
    left = _axes(figure, 0.0, cell * len(factors), cell * len(components))
    image = _panel(left, result, "Skills → states", components, factors, font)
    left.set(xlabel="state factor (predicted)", ylabel="skill component")
    right = _axes(figure, panels[0] + gap, cell * len(components), cell * len(factors))
    _panel(right, result.states_to_skills, "States → skills", factors, components, font)
    right.set(xlabel="skill component (predicted)", ylabel="state factor")
    bar = figure.colorbar(
        image, cax=_axes(figure, width - 0.2, 0.14, height), ticks=[0, 0.25, 0.5, 0.75, 1]
    )
    bar.set_label("importance (share of gain)", color=MUTED)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelcolor=MUTED)
    _save(figure, path, bbox_inches="tight", pad_inches=0.2)


@plain_text
def value_histograms(
    rollout: Rollout,
    spec: WorldSpec,
    own_factors: Sequence[str] | None,
    path: File,
    title: str,
) -> None:
    """Saves where each value of each component leads: histograms of a factor's most telling entry.

    There is a row for each component and a column for each factor. If that is too much, there is
    each component with its own factor only, or with the one it moves most if it is meant for none.
    Continuous components are shown by thirds of one of their dimensions.
    """
    names = [str(factor.name) for factor in spec.controlled]
    observation, groupings = rollout.observation, _groupings(rollout.skill)
    table = [_most_telling(ways, observation, spec.controlled) for ways in groupings]
    own = [names.index(name) for name in own_factors] if own_factors else None
    whole = len(table) * len(names) <= WHOLE
    if whole:
        columns = len(names)
        cells = [(i, j) for i in range(len(table)) for j in range(columns)]
    else:
        own = own or [max(range(len(names)), key=lambda j: row[j].share) for row in table]
        columns = min(6, len(table))
        cells = list(enumerate(own))
    lines = math.ceil(len(cells) / columns)
    size = (2.9 * columns + 0.6, 1.9 * lines + 1.1)
    figure = Figure(figsize=size, dpi=150, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=14, fontweight="bold", color=INK)
    panels = figure.subplots(lines, columns, squeeze=False).flat
    for (i, j), axes in zip(cells, panels, strict=False):  # in this order, or a panel gets lost
        values, name = observation[:, table[i][j].entry], spec.entry_name(table[i][j].entry)
        _ridges(axes, table[i][j], values, name, strong=own is None or own[i] == j)
        if j == 0 or not whole:
            axes.set_ylabel(f"z{i + 1}", fontsize=12, color=INK, rotation=0, labelpad=14)
    for axes in list(panels):
        axes.set_axis_off()
    note = "Where each value of a component leads; how much of the entry's variance it explains."
    figure.supxlabel(note, fontsize=9, color=MUTED)
    _save(figure, path)


class _Telling(NamedTuple):
    """An observation entry, and rows grouped by the value of a component.

    Attributes:
      entry: its index.
      group: which value of the component was in force, int [n].
      names: of those values.
      share: of the entry's variance that lies between the values.
    """

    entry: int
    group: np.ndarray
    names: list[str]
    share: float


Grouping = tuple[np.ndarray, list[str]]  # which group each row is in, int [n], and their names


def _groupings(skill: np.ndarray) -> list[list[Grouping]]:
    """For each component the ways to group rows by its value."""
    if skill.ndim == 2:
        named = [np.unique(values, return_inverse=True) for values in skill.T]
        return [[(group.reshape(-1), list(map(str, values)))] for values, group in named]
    return [[_thirds(values) for values in component.T] for component in skill.swapaxes(0, 1)]


def _thirds(values: np.ndarray) -> Grouping:
    return np.digitize(values, np.quantile(values, (1 / 3, 2 / 3))), ["low", "middle", "high"]


def _most_telling(
    groupings: Sequence[Grouping],
    observation: np.ndarray,
    factors: Sequence[Factor],
) -> list[_Telling]:
    """For each factor the entry of which a component's value explains the largest share."""
    shares = [_explained(group, observation) for group, _ in groupings]
    found = []
    for factor in factors:
        ways = itertools.product(range(len(groupings)), factor.indices)
        way, entry = max(ways, key=lambda pair: shares[pair[0]][pair[1]])
        found.append(_Telling(entry, *groupings[way], share=float(shares[way][entry])))
    return found


def _explained(group: np.ndarray, observation: np.ndarray) -> np.ndarray:
    """The share of each entry's variance that is between groups of rows, [n] and [n, D] to [D]."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    rows = observation[order].astype(np.float64)
    sizes = np.diff(starts, append=len(rows))
    means = np.add.reduceat(rows, starts, axis=0) / sizes[:, None]
    between = np.average((means - rows.mean(axis=0)) ** 2, axis=0, weights=sizes)
    variance = np.where(np.ptp(rows, axis=0) > 0.0, rows.var(axis=0), np.inf)
    return between / variance


def _ridges(axes: Axes, telling: _Telling, values: np.ndarray, name: str, strong: bool) -> None:
    """A histogram for each value, one below the other, each as high as the others."""
    count = len(telling.names)
    shown = np.unique(np.linspace(0, count - 1, min(count, SHOWN_VALUES)).round().astype(int))
    low, high = np.quantile(values, (0.002, 0.998))
    margin = 0.02 * (high - low) or 0.5
    edges = np.linspace(low - margin, high + margin, BINS + 1)
    for place, value in enumerate(shown):
        heights = np.histogram(values[telling.group == value], edges)[0]
        base, tone = len(shown) - 1 - place, colour(place)
        top = base + 0.9 * heights / max(heights.max(), 1)
        alpha = 0.75 if strong else 0.35
        axes.stairs(top, edges, baseline=base, fill=True, color=tone, alpha=alpha)
        axes.axhline(base, color=tone, linewidth=0.6, alpha=0.6)
    axes.set_yticks(np.arange(len(shown))[::-1] + 0.25, [telling.names[i] for i in shown])
    axes.set_ylim(-0.08, len(shown))
    axes.set_xlim(edges[0], edges[-1])
    axes.tick_params(length=0, labelcolor=MUTED, labelsize=7)
    axes.spines[:].set_visible(False)
    axes.set_facecolor("white" if strong else EMPTY)
    weight, tone = ("bold", INK) if strong else ("normal", MUTED)
    axes.set_title(name, loc="left", fontsize=9, fontweight=weight, color=tone)
    axes.set_title(f"{telling.share:.0%}", loc="right", fontsize=9, color=tone)


@plain_text
def score_bars(rows: Sequence[Mapping[str, Any]], path: File, title: str) -> None:
    """Saves bars of DCI scores: a panel per world and direction, a group per score, a bar per method.

    Rows are those of `dusdi.reproduce`'s Table 1. The paper's values are diamonds and the oracle's a line above each group.
    """
    panels = list(dict.fromkeys((row["world"], row["direction"]) for row in rows))
    figure = Figure(
        figsize=(4.6 * len(panels) / 2 + 1, 6.4), dpi=180, facecolor="white", layout="constrained"
    )
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=14, fontweight="bold", color=INK)
    grid = figure.subplots(2, len(panels) // 2, squeeze=False, sharey=True)
    for axes, (world, direction) in zip(grid.T.flat, panels, strict=True):
        methods = [row for row in rows if (row["world"], row["direction"]) == (world, direction)]
        width = 0.8 / len(methods)
        for index, row in enumerate(methods):
            places = np.arange(len(NAMES)) + (index - (len(methods) - 1) / 2) * width
            errors = [row[f"{name}_std"] or 0.0 for name in NAMES]
            heights, look = [row[name] for name in NAMES], {"color": colour(index), "ecolor": INK}
            axes.bar(places, heights, 0.92 * width, yerr=errors, label=row["method"], **look)
            papers = [row[f"{name}_paper"] for name in NAMES]
            if "" not in papers:
                label = "paper" if index == 0 else None
                axes.plot(
                    places,
                    papers,
                    "D",
                    color="white",
                    markeredgecolor=INK,
                    markersize=6,
                    label=label,
                )
        for place, name in enumerate(NAMES):
            ceiling = methods[0][f"{name}_oracle"]
            if ceiling != "":
                axes.plot(
                    [place - 0.42, place + 0.42],
                    [ceiling] * 2,
                    color=INK,
                    linestyle=":",
                    label="oracle" if place == 0 else None,
                )
        axes.set_title(f"{world}, {direction}", fontsize=11, color=INK)
        axes.set_xticks(range(len(NAMES)), NAMES, fontsize=9)
        axes.set_ylim(0, 1.05)
        _plain(axes)
    figure.legend(
        *grid[0, 0].get_legend_handles_labels(),
        fontsize=9,
        frameon=False,
        loc="outside lower center",
        ncols=6,
    )
    _save(figure, path)


@plain_text
def curves(rows: Sequence[Mapping[str, Any]], path: File, title: str, chance: float) -> None:
    """Saves accuracy over environment steps: a panel per world, a line per kind of critic, the spread of the seeds as a band.

    Rows are those of `dusdi.reproduce`'s Figure 3.
    """
    worlds = list(dict.fromkeys(row["world"] for row in rows))
    figure = Figure(
        figsize=(4.6 * len(worlds), 3.9), dpi=180, facecolor="white", layout="constrained"
    )
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=14, fontweight="bold", color=INK)
    for axes, world in zip(
        figure.subplots(1, len(worlds), squeeze=False, sharey=True)[0], worlds, strict=True
    ):
        ours = [row for row in rows if row["world"] == world]
        _lines(axes, ours, "critic", "accuracy")
        axes.axhline(chance, color=FAINT, linestyle=":", label="chance")
        axes.set_title(world, fontsize=11, color=INK)
        axes.set_xlabel("million environment steps", color=MUTED)
        axes.set_ylim(0, 1)
        _plain(axes)
    figure.axes[0].set_ylabel("accuracy", color=MUTED)
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(),
        fontsize=9,
        frameon=False,
        loc="outside lower center",
        ncols=6,
    )
    _save(figure, path)


@plain_text
def task_curves(
    rows: Sequence[Mapping[str, Any]],
    ends: Sequence[Mapping[str, Any]],
    path: File,
    title: str,
) -> None:
    """Saves returns over environment steps: a panel per task, a line per method, the spread of the seeds as a band.

    Rows and ends are those of `dusdi.reproduce`'s Figure 4; random skills and the hand-written solution are lines across.
    """
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    columns = min(4, len(tasks))
    lines = math.ceil(len(tasks) / columns)
    figure = Figure(
        figsize=(3.7 * columns, 3.1 * lines + 0.6), dpi=150, facecolor="white", layout="constrained"
    )
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=14, fontweight="bold", color=INK)
    panels = figure.subplots(lines, columns, squeeze=False).flat
    for task, axes in zip(tasks, panels, strict=False):  # in this order, or a panel gets lost
        _lines(axes, [row for row in rows if row["task"] == task], "method", "return")
        own = [row for row in ends if row["task"] == task]
        if own[0]["hand_written"] != "":
            axes.axhline(
                float(own[0]["hand_written"]),
                color=INK,
                linestyle="--",
                linewidth=1,
                label="hand-written solution",
            )
        axes.axhline(
            float(own[0]["random_skills"]), color=FAINT, linestyle=":", label="random skills"
        )
        axes.set_title(task, fontsize=10, color=INK)
        axes.set_xlabel("million environment steps", color=MUTED)
        _plain(axes)
    for axes in list(panels):
        axes.set_axis_off()
    figure.axes[0].set_ylabel("return", color=MUTED)
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(),
        fontsize=9,
        frameon=False,
        loc="outside lower center",
        ncols=6,
    )
    _save(figure, path)


class Panel(NamedTuple):
    """Learning curves of runs that can be compared.

    Attributes:
      title: what they have in common.
      metric: what is drawn.
      chance: the metric of guessing, if that can be said.
      rows: points of the curves, each with the name of its `run`, its `step` and its `value`.
    """

    title: str
    metric: str
    chance: float | None
    rows: list[dict[str, Any]]


@plain_text
def run_curves(panels: Sequence[Panel], path: File) -> None:
    """Saves metrics over environment steps: a line per run, the spread of its seeds as a band."""
    columns = min(3, len(panels))
    lines = math.ceil(len(panels) / columns)
    most = max(len({row["run"] for row in panel.rows}) for panel in panels)
    size = (5.2 * columns, (3.4 + 0.2 * most) * lines)
    figure = Figure(figsize=size, dpi=150, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(lines, columns, squeeze=False).flat
    for panel, axes in zip(panels, grid, strict=False):  # in this order, or a panel gets lost
        _lines(axes, panel.rows, "run", "value")
        if panel.chance is not None:
            axes.axhline(panel.chance, color=FAINT, linestyle=":", label="chance")
        axes.set_title(panel.title, fontsize=11, color=INK)
        axes.set_xlabel("million environment steps", color=MUTED)
        axes.set_ylabel(panel.metric.replace("_", " "), color=MUTED)
        if panel.metric == "accuracy":
            axes.set_ylim(0, 1)
        _plain(axes)
        axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    for axes in list(grid):
        axes.set_axis_off()
    _save(figure, path)


def _save(figure: Figure, path: File, **options: Any) -> None:
    """Writes a figure so that it appears whole or not at all, and never through a link."""
    with replacing(path) as partial:
        figure.savefig(partial, **options)


def _lines(axes: Axes, rows: Sequence[Mapping[str, Any]], kind: str, value: str) -> None:
    """A line for each kind of row, the mean over seeds, in a band of one standard deviation."""
    for index, name in enumerate(dict.fromkeys(row[kind] for row in rows)):
        by_step: dict[int, list[float]] = {}
        for row in rows:
            if row[kind] == name:
                by_step.setdefault(row["step"], []).append(row[value])
        steps, values = np.array(list(by_step)), list(by_step.values())
        mean, spread = (
            np.array([np.mean(v) for v in values]),
            np.array([np.std(v, ddof=len(v) > 1) for v in values]),
        )
        millions, tone = steps / 1e6, colour(index)
        axes.plot(millions, mean, color=tone, label=name, linewidth=2)
        band = (mean - spread, mean + spread)
        axes.fill_between(millions, *band, color=tone, alpha=0.2, linewidth=0)


def _plain(axes: Axes) -> None:
    """Little ink: no box, faint lines across."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="y", color=EMPTY)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelcolor=INK)


def _axes(figure: Figure, left: float, width: float, height: float) -> Axes:
    """Axes of a size in inches, hanging from the figure's upper edge."""
    whole_width, whole_height = figure.get_size_inches()
    box = (
        left / whole_width,
        1.0 - height / whole_height,
        width / whole_width,
        height / whole_height,
    )
    return figure.add_axes(box)


def _panel(
    axes: Axes,
    scores: Scores,
    title: str,
    codes: Sequence[str],
    targets: Sequence[str],
    font: float,
) -> AxesImage:
    """One direction: a row per code, a column per target."""
    axes.set_facecolor(EMPTY)
    image = axes.imshow(scores.importance, cmap="BuPu", vmin=0.0, vmax=1.0, aspect="auto")
    slant = 90 if font < 8 else 45 if max(map(len, targets)) > 3 else 0
    axes.set_xticks(range(len(targets)), targets, fontsize=font, rotation=slant)
    if slant == 45:
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(codes)), codes, fontsize=font)
    axes.set_xticks(np.arange(1, len(targets)) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, len(codes)) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=0.15 * font)
    axes.tick_params(which="both", length=0, labelcolor=INK)
    axes.spines[:].set_visible(False)
    axes.xaxis.label.set_color(MUTED)
    axes.yaxis.label.set_color(MUTED)
    above: dict[str, Any] = {
        "xy": (0, 1),
        "xycoords": "axes fraction",
        "textcoords": "offset points",
    }
    axes.annotate(title, xytext=(0, 24), fontsize=12, fontweight="bold", color=INK, **above)
    axes.annotate(_score_line(scores), xytext=(0, 8), fontsize=10, color=MUTED, **above)
    if scores.measured and max(scores.importance.shape) <= ANNOTATED:
        for (row, column), value in np.ndenumerate(scores.importance):
            color = "white" if value > 0.55 else INK if value >= 0.1 else FAINT
            axes.text(
                column,
                row,
                f"{value:.2f}",
                ha="center",
                va="center",
                fontsize=min(9.0, font),
                color=color,
            )
    return image


def _score_line(scores: Scores) -> str:
    if not scores.measured:
        return "not measured: too many skill values"
    return f"D {scores.disentanglement:.3f}    C {scores.completeness:.3f}    I {scores.informativeness:.3f}"
