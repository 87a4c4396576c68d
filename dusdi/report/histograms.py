"""Histograms of where each value of a skill component leads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from dusdi.report import style
from dusdi.report.style import EMPTY, INK, MUTED, File, colour
from dusdi.rollouts import Rollout
from dusdi.skill_space import SkillSpace
from dusdi.spaces import Grouping
from dusdi.types import Factor, WorldSpec

WHOLE = 36  # the most pairs of components and factors of which each has a histogram
SHOWN_VALUES = 10  # the most values of a component that are shown
BINS = 60  # of a histogram


@style.plain_text
def value_histograms(
    rollout: Rollout,
    spec: WorldSpec,
    space: SkillSpace,
    path: File,
    title: str,
) -> None:
    """Saves where each value of each component leads: histograms of a factor's most telling entry.

    There is a row for each component and a column for each factor. If that is too much, there is
    each component with its own factor only, or with the one it moves most if it is meant for none.
    Continuous components z are shown by thirds of one of their numbers z[i], the most telling one.
    """
    names = [str(factor.name) for factor in spec.controlled]
    observation = rollout.observation
    groupings = _groupings(rollout.skill, space)
    table = [_most_telling(ways, observation, spec.controlled) for ways in groupings]
    own = list(range(len(names))) if list(space.names) == names else None
    whole = len(table) * len(names) <= WHOLE
    if whole:
        columns = len(names)
        cells = [(i, j) for i in range(len(table)) for j in range(columns)]
    else:
        own = own or [max(range(len(names)), key=lambda j: row[j].share) for row in table]
        columns = min(6, len(table))
        cells = list(enumerate(own))
    lines = math.ceil(len(cells) / columns)
    figure = style.new_figure(2.9 * columns + 0.6, 1.9 * lines + 1.1, title, dpi=150)
    for (i, j), axes in zip(cells, style.panels(figure, len(cells), columns), strict=True):
        telling = table[i][j]
        name = spec.entry_name(telling.entry)
        strong = own is None or own[i] == j
        _ridges(axes, telling, observation[:, telling.entry], name, strong)
        if j == 0 or not whole:
            axes.set_ylabel(space.names[i], fontsize=10, color=INK)
    note = "Where each value of a component leads; how much of the entry's variance it explains."
    more = dict.fromkeys(component.grouping_note for component in space.spaces)
    note = " ".join(filter(None, [note, *more]))
    size = 9
    note = style.wrapped(note, figure.get_figwidth(), size)
    figure.supxlabel(note, fontsize=size, color=MUTED)
    style.save(figure, path)


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


def _groupings(skill: np.ndarray, space: SkillSpace) -> list[list[Grouping]]:
    """Returns for each component the ways to group rows by its value."""
    parts = zip(space.components, space.columns, strict=True)
    return [component.space.groupings(skill[:, columns]) for component, columns in parts]


def _most_telling(
    groupings: Sequence[Grouping],
    observation: np.ndarray,
    factors: Sequence[Factor],
) -> list[_Telling]:
    """Returns for each factor the entry of which a component's value explains the largest share."""
    shares = [_explained(group, observation) for group, _ in groupings]
    found = []
    for factor in factors:
        ways = itertools.product(range(len(groupings)), factor.indices)
        way, entry = max(ways, key=lambda pair: shares[pair[0]][pair[1]])
        found.append(_Telling(entry, *groupings[way], share=float(shares[way][entry])))
    return found


def _explained(group: np.ndarray, observation: np.ndarray) -> np.ndarray:
    """Returns the share of each entry's variance that lies between groups of rows, [D].

    `group` is [n] and `observation` [n, D].
    """
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    rows = observation[order].astype(np.float64)
    sizes = np.diff(starts, append=len(rows))
    means = np.add.reduceat(rows, starts, axis=0) / sizes[:, None]
    between = np.average((means - rows.mean(axis=0)) ** 2, axis=0, weights=sizes)
    variance = np.where(np.ptp(rows, axis=0) > 0.0, rows.var(axis=0), np.inf)
    return between / variance


def _ridges(axes: Axes, telling: _Telling, values: np.ndarray, name: str, strong: bool) -> None:
    """Draws a histogram for each value, one below the other, each as high as the others."""
    count = len(telling.names)
    shown = np.unique(np.linspace(0, count - 1, min(count, SHOWN_VALUES)).round().astype(int))
    low, high = np.quantile(values, (0.002, 0.998))
    margin = 0.02 * (high - low) or 0.5
    edges = np.linspace(low - margin, high + margin, BINS + 1)
    for place, value in enumerate(shown):
        heights = np.histogram(values[telling.group == value], edges)[0]
        base = len(shown) - 1 - place
        tone = colour(place)
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
    weight = "bold" if strong else "normal"
    tone = INK if strong else MUTED
    axes.set_title(name, loc="left", fontsize=9, fontweight=weight, color=tone)
    axes.set_title(f"{telling.share:.0%}", loc="right", fontsize=9, color=tone)
