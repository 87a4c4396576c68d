"""Figures of tasks: learning curves, and a table of where they end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dusdi.experiments.curves import mean_over_steps
from dusdi.experiments.jobs import Job, return_job
from dusdi.experiments.over_tasks import over_tasks
from dusdi.experiments.results import (
    Results,
    iqm_text,
    markdown_table,
    mean_or_none,
    mean_text,
    numbers,
)
from dusdi.experiments.settings import Cell
from dusdi.metrics.statistics import (
    ENOUGH_SEEDS,
    interquartile_mean,
    probability_of_improvement,
)
from dusdi.report import task_curves

EPISODES = 100  # that the return of a run is measured on


def task_cells(labels: Mapping[str, Any], task: Job) -> list[Cell]:
    """Returns the cells of a downstream run: its curve, and its return in the end."""
    return [Cell(labels, task), Cell(labels, return_job(task, episodes=EPISODES))]


def write_task_figure(results: Results, title: str, before: Sequence[str] = ()) -> list[Path]:
    """Writes curves (CSV and PNG), the returns of each seed (CSV) and a table.

    `before` are lines that the table's page has after its title.
    """
    points = results.curves("task")
    finals = _with_pretraining(results, results.scores("return"))
    picture = results.path(".png")
    task_curves(points.to_dict("records"), _ends(finals), picture, title=title)
    lines = [
        f"# {title}",
        "",
        *before,
        f"Return per episode over {EPISODES} episodes with the most probable decisions: the "
        "interquartile mean over seeds, and its 95 % bootstrap interval.",
        "Random skills are random choices among the method's own skills (mean). The share is of "
        "the way from there to the scripted reference.",
        "While learning is the area under the learning curve, with sampled decisions, divided by "
        "the steps: from the latest first to the earliest last point of all runs on the task.",
        "The last column is the probability that a run of the first method has a higher return "
        "than one of this method; a tie counts half.",
        "Seconds are those of skill discovery or exploration, which serves all tasks of a world, + "
        "those of the task.",
    ]
    for task, own in finals.groupby("task", sort=False):
        curves = points[points["task"] == task] if len(points) else points
        lines += ["", f"## {task}", "", _about(own), "", *_task_table(own, curves)]
    lines += ["", *over_tasks(finals), *_wall_time(finals)]
    if finals.groupby(["task", "method"]).size().min() < ENOUGH_SEEDS:
        lines += ["", f"**With fewer than {ENOUGH_SEEDS} seeds, intervals are far too narrow.**"]
    return [
        results.write_csv(points),
        results.write_csv(finals, "-final.csv"),
        results.write_markdown(lines),
        picture,
    ]


def _with_pretraining(results: Results, finals: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows of runs with their agent and the seconds of the runs they started from."""
    agents = {}
    before = {}
    for cell, _ in results.of("return"):
        run = cell.job.run
        records = [results.records.get(job.key, {}) for job in run.inputs]
        agents[cell.job.key] = run.request["agent"]
        before[cell.job.key] = sum(record.get("seconds", math.nan) for record in records)
    keys = finals["key"]
    return finals.assign(agent=keys.map(agents), pretraining_seconds=keys.map(before))


def _wall_time(finals: pd.DataFrame) -> list[str]:
    """Returns lines on flat methods that had less time than the first method, which is unfair."""
    first = finals["method"].iloc[0]
    if not (finals["agent"] == "sac").any():
        return []
    lines = []
    for task, own in finals.groupby("task", sort=False):
        whole = own["seconds"] + own["pretraining_seconds"]
        ours = whole[own["method"] == first].mean(skipna=False)
        flat = whole[own["agent"] == "sac"].groupby(own["method"], sort=False)
        means = flat.apply(lambda seconds: seconds.mean(skipna=False))
        if math.isnan(ours) or means.isna().any():
            lines.append(f"- {task}: not known, since the runs before have no records.")
            continue
        less = [f"{name} {seconds:.0f} s" for name, seconds in means.items() if seconds < ours]
        if less:
            lines.append(f"- {task}: {first} {ours:.0f} s; {', '.join(less)}.")
    about = (
        f"Flat methods should have at least as much wall time as {first} has for skills and task "
        "together."
    )
    said = "**This is not so, or not known, in:**" if lines else "All of them had."
    return ["", "## Wall time", "", f"{about} {said}", *([""] if lines else []), *lines]


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


def _about(finals: pd.DataFrame) -> str:
    """Returns a task's scripted reference, and how many seeds its methods have."""
    reference = mean_or_none(finals["scripted_reference"])
    known = "There is no scripted reference."
    if reference is not None:
        known = f"Scripted reference {reference:,.1f}."
    counts = finals.groupby("method").size()
    seeds = " to ".join(str(count) for count in sorted({counts.min(), counts.max()}))
    return f"{known} Seeds of each method: {seeds}."


def _task_table(finals: pd.DataFrame, points: pd.DataFrame) -> list[str]:
    """Returns the lines of a task's table. A curve may be empty, if no episode ended."""
    methods = list(finals["method"].unique())
    reference = mean_or_none(finals["scripted_reference"])
    areas = _areas(points)
    first = numbers(finals[finals["method"] == methods[0]]["return"])
    rows = []
    for method in methods:
        own = finals[finals["method"] == method]
        better = probability_of_improvement([first], [numbers(own["return"])])
        rows.append(
            [
                method,
                iqm_text(own["return"], ",.1f"),
                mean_text(own["random_skills"], ",.1f"),
                _share(own, reference),
                iqm_text(areas.get(method, []), ",.1f"),
                _seconds(own),
                "" if method == methods[0] else f"{better:.2f}",
            ]
        )
    header = ["", "return", "random skills", "share", "while learning", "seconds"]
    return markdown_table([*header, f"P({methods[0]} is better)"], rows)


def _seconds(finals: pd.DataFrame) -> str:
    """Returns the seconds before the task + those on it, the first only if there are any."""
    before = finals["pretraining_seconds"]
    own = mean_text(finals["seconds"], ".0f")
    if before.isna().any():  # the runs before have no records
        return f"? + {own}"
    return f"{before.mean():.0f} + {own}" if before.any() else own


def _share(finals: pd.DataFrame, reference: float | None) -> str:
    """Returns how far a method got from its own random skills to the scripted reference."""
    floor = mean_or_none(finals["random_skills"])
    if floor is None or reference is None or reference == floor:
        return "–"
    reached = interquartile_mean(numbers(finals["return"]))
    return f"{(reached - floor) / (reference - floor):.0%}"


def _areas(points: pd.DataFrame) -> dict[str, list[float]]:
    """Returns the areas under each method's curves between steps that all runs have in common."""
    if not len(points):
        return {}
    steps = points.groupby(["method", "seed"])["step"]
    start = steps.min().max()
    end = steps.max().min()
    found: dict[str, list[float]] = {}
    for (method, _), curve in points.groupby(["method", "seed"], sort=False):
        area = mean_over_steps(list(curve["step"]), list(curve["return"]), start, end)
        found.setdefault(method, []).append(area)
    return found
