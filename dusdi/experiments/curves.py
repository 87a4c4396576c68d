"""Learning curves of runs as numbers: read from a folder, thinned, and summed up.

A row of progress.csv holds the mean of a metric since the row before. So a curve is a staircase:
its value between two steps is that of the later one, and averages over steps are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dusdi.errors import CheckpointError
from dusdi.run import WHEN, read_progress

MOST_POINTS = 200  # of a curve in a record

Curve = dict[str, list[float]]


def read_curve(folder: Path, end: int, metric: str | None = None) -> tuple[str, Curve]:
    """Returns the name of a run's metric and its curve: columns "step", "seconds" and the metric.

    Args:
      folder: of the run, which has a single seed.
      end: the run's last step, which it logged; a curve that ends elsewhere was cut.
      metric: the column to read; by default the first one, a method's headline metric.

    Rows whose metric is no number are left out: there is no return until an episode has ended.
    """
    path = folder / "progress.csv"
    try:
        header, rows, damaged = read_progress(path)
        found = metric or next(name for name in header if name not in WHEN)
        columns = ("step", "seconds", found)
        places = [header.index(name) for name in columns]
        numbers = [[float(row[place]) for place in places] for row in rows]
        damaged += numbers[-1][0] != end
    except (ValueError, StopIteration, IndexError):
        damaged = 1
    if damaged:
        raise CheckpointError(f"{path} is damaged; remove {folder} to have that run trained again")
    finite = [row for row in numbers if math.isfinite(row[-1])]
    return found, {name: [row[i] for row in finite] for i, name in enumerate(columns)}


def thin(curve: Curve, metric: str, most: int = MOST_POINTS) -> Curve:
    """Returns a curve of at most so many points with the same average over steps.

    Neighbouring points become one at the last of their steps, whose value is their mean over
    steps. Numbers are rounded to what a picture and a table need.
    """
    steps = np.array(curve["step"])
    values = np.array(curve[metric])
    widths = np.diff(steps, prepend=0)
    size = max(1, math.ceil(len(steps) / most))
    groups = [slice(start, start + size) for start in range(0, len(steps), size)]
    means = [np.average(values[group], weights=widths[group]) for group in groups]
    return {
        "step": [int(steps[group][-1]) for group in groups],
        "seconds": [round(curve["seconds"][group][-1], 2) for group in groups],
        metric: [float(f"{mean:.6g}") for mean in means],
    }


def mean_over_steps(
    steps: Sequence[float], values: Sequence[float], start: float, end: float
) -> float:
    """Returns the area under a curve between two steps, divided by their distance.

    Curves that were logged at different steps are compared between the latest of their first steps
    and the earliest of their last ones. It is NaN if there is nothing between these.
    """
    widths = np.diff(np.clip(steps, start, end), prepend=start)
    return float(np.average(values, weights=widths)) if widths.sum() > 0 else math.nan


def first_step_at(steps: Sequence[int], values: Sequence[float], level: float) -> float:
    """Returns the first step at which a curve reaches a level; infinity if it never does."""
    reached = [step for step, value in zip(steps, values, strict=True) if value >= level]
    return min(reached, default=math.inf)
