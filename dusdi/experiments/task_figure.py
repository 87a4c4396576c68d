"""Figures of tasks: learning curves, and a table of where they end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from dusdi.experiments.curves import first_step_at, mean_over_steps
from dusdi.experiments.jobs import Job, return_job
from dusdi.experiments.results import (
    Results,
    markdown_table,
    mean_and_spread,
    mean_or_none,
    mean_text,
)
from dusdi.experiments.settings import Cell
from dusdi.report import task_curves

EPISODES = 100  # that the return of a run is measured on
HEADER = (
    "",
    "return",
    "random skills",
    "share",
    "while learning",
    "seconds per seed",
    "steps to the first method's end",
)


def task_cells(labels: Mapping[str, Any], task: Job) -> list[Cell]:
    """Returns the cells of a downstream run: its curve, and its return in the end."""
    return [Cell(labels, task), Cell(labels, return_job(task, episodes=EPISODES))]


def write_task_figure(results: Results, title: str) -> list[Path]:
    """Writes curves (CSV and PNG), the returns of each seed (CSV) and a table."""
    points = results.curves("task")
    finals = results.scores("return")
    picture = results.path(".png")
    task_curves(points.to_dict("records"), _ends(finals), picture, title=title)
    lines = [
        f"# {title}",
        "",
        f"Return per episode over {EPISODES} episodes with the most probable decisions, mean ± "
        "standard deviation over seeds.",
        "The share is of the way from random choices among the method's own skills to the "
        "scripted reference.",
        "While learning is the area under the learning curve, with sampled decisions, divided by "
        "the steps that all methods have in common.",
        "The last column is the step at which the learning curve (mean of the seeds) first gets "
        "where the first method's ends.",
    ]
    for task, own in finals.groupby("task", sort=False):
        curves = points[points["task"] == task] if len(points) else points
        lines += ["", f"## {task}", "", _reference_line(own), "", *_task_table(own, curves)]
    return [
        results.write_csv(points),
        results.write_csv(finals, "-final.csv"),
        results.write_markdown(lines),
        picture,
    ]


def _ends(finals: pd.DataFrame) -> list[dict[str, Any]]:
    """Returns the references that `task_curves` draws."""
    return [
        {
            "task": keys[0],
            "method": keys[1],
            "random_skills": mean_or_none(own["random_skills"]),
            "scripted_reference": mean_or_none(own["scripted_reference"]),
        }
        for keys, own in finals.groupby(["task", "method"], sort=False)
    ]


def _reference_line(finals: pd.DataFrame) -> str:
    reference = mean_or_none(finals["scripted_reference"])
    if reference is None:
        return "There is no scripted reference."
    return f"Scripted reference {reference:,.1f}."


def _task_table(finals: pd.DataFrame, points: pd.DataFrame) -> list[str]:
    """Returns the lines of a task's table. A curve may be empty, if no episode ended."""
    methods = list(finals["method"].unique())
    end = points.groupby(["method", "seed"])["step"].max().min() if len(points) else math.nan
    means = {method: _mean_curve(points, method) for method in methods}
    first = means[methods[0]]
    rows = []
    for method in methods:
        own = finals[finals["method"] == method]
        rows.append(
            [
                method,
                mean_and_spread(own["return"], ",.1f"),
                mean_and_spread(own["random_skills"], ",.1f"),
                _share(own),
                mean_and_spread(_areas(points, method, end), ",.1f"),
                mean_text(own["seconds"], ".0f"),
                _steps_to(means[method], first.iloc[-1] if len(first) else math.nan),
            ]
        )
    return markdown_table(HEADER, rows)


def _share(finals: pd.DataFrame) -> str:
    """Returns how far a method got from its own random skills to the scripted reference."""
    floor = mean_or_none(finals["random_skills"])
    reference = mean_or_none(finals["scripted_reference"])
    if floor is None or reference is None or reference == floor:
        return "–"
    return f"{(finals['return'].mean() - floor) / (reference - floor):.0%}"


def _areas(points: pd.DataFrame, method: str, end: float) -> list[float]:
    """Returns the area under each seed's curve up to the common end."""
    if not len(points):
        return []
    own = points[points["method"] == method]
    return [
        mean_over_steps(list(curve["step"]), list(curve["return"]), end)
        for _, curve in own.groupby("seed")
    ]


def _mean_curve(points: pd.DataFrame, method: str) -> pd.Series:
    """Returns the mean return of the seeds by step."""
    if not len(points):
        return pd.Series(dtype=float)
    return points[points["method"] == method].groupby("step")["return"].mean()


def _steps_to(curve: pd.Series, level: float) -> str:
    if not len(curve) or math.isnan(level):
        return "–"
    step = first_step_at(list(curve.index), list(curve), level)
    return f"{step:,.0f}" if math.isfinite(step) else "never"
