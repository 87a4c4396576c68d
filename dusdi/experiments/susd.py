"""SUSD's own evaluation: its variants of tasks, in the layout that its skills are learned in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from dusdi.experiments.jobs import return_job
from dusdi.experiments.results import Results, markdown_table, mean_and_spread, mean_text
from dusdi.experiments.settings import Cell, Settings
from dusdi.tasks import SUSD_TASKS, Task, default_options, make_task

EPISODES = 100  # that a return is measured on, as in SUSD's code
SCORE = "discounted_return"


def cells(settings: Settings) -> list[Cell]:
    """Returns every task with the skills of every method, SUSD first, learned in its layout."""
    found = []
    methods = sorted(settings.chosen_methods("susd"), key=lambda name: name != "susd")
    for task in settings.chosen(SUSD_TASKS):
        world = task.split("/")[0]
        options = default_options(task)
        for method in methods:
            for seed in range(settings.seeds):
                skills = settings.skills(world, method, seed, options=options)
                learned = settings.task(task, "ppo", seed, skills)
                labels = {"task": task, "method": method, "seed": seed}
                found += [
                    Cell(labels, learned),
                    Cell(labels, return_job(learned, episodes=EPISODES)),
                ]
    return found


def write(results: Results) -> list[Path]:
    """Writes the returns of each seed (CSV) and a table with a column for each task."""
    finals = results.scores("return")
    tasks = {name: make_task(name) for name in finals["task"].unique()}
    first = next(iter(tasks.values()))
    lines = [
        "# SUSD's tasks",
        "",
        _what_is_shown(first),
        first.published_note,
        "",
        *_table(finals, tasks),
    ]
    return [results.write_csv(finals), results.write_markdown(lines)]


def _what_is_shown(task: Task) -> str:
    how = task.discounting
    assert how is not None
    return (
        f"Discounted return per episode over {EPISODES} episodes with the most probable decisions, "
        f"Σ_t {how.factor}^t times the mean reward of decision t, of {how.steps} steps each; mean "
        "± standard deviation over seeds."
    )


def _table(finals: pd.DataFrame, tasks: Mapping[str, Task]) -> list[str]:
    """Returns the lines of the table: a row for each method, published or ours."""
    by_task = {name: finals[finals["task"] == name] for name in tasks}
    published = {method: None for task in tasks.values() for method in task.published_returns}
    rows = []
    for method in published:
        values = [task.published_returns.get(method) for task in tasks.values()]
        rows.append([f"published, {method}", *(mean_text([value], ".1f") for value in values)])
    for method in finals["method"].unique():
        ours = [own[own["method"] == method] for own in by_task.values()]
        rows.append([f"ours, {method}", *(mean_and_spread(own[SCORE], ".1f") for own in ours)])
        random = [mean_text(own["discounted_random_skills"], ".1f") for own in ours]
        rows.append([f"ours, random skills of {method}", *random])
    scripted = [mean_text(own["discounted_scripted_reference"], ".1f") for own in by_task.values()]
    rows.append(["scripted reference", *scripted])
    return markdown_table(["", *(name.split("/")[1] for name in tasks)], rows)
