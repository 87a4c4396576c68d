"""Figure 4: learning tasks with the skills of several methods, and without skills."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dusdi.experiments.jobs import Job
from dusdi.experiments.results import Results
from dusdi.experiments.settings import Cell, Settings
from dusdi.experiments.task_figure import task_cells, write_task_figure
from dusdi.methods import find_method
from dusdi.tasks import COMPARED_TASKS


def cells(settings: Settings) -> list[Cell]:
    """Returns every task that methods are compared in with every method."""
    found = []
    for task in settings.chosen(COMPARED_TASKS):
        for method in settings.chosen_methods("fig4"):
            for seed in range(settings.seeds):
                labels = {"task": task, "method": method, "seed": seed}
                found += task_cells(labels, task_run(settings, task, method, seed))
    return found


def task_run(
    settings: Settings,
    task: str,
    method: str,
    seed: int,
    fields: Mapping[str, Any] | None = None,
) -> Job:
    """Returns the run of a method on a task, in the way that the method is meant to be used.

    Soft actor-critic learns from the task's own reward and has nothing to pretrain.

    Args:
      settings: what to reproduce with.
      task, method, seed: of the run.
      fields: changes to the method's settings.
    """
    agent = "ppo" if find_method(method).used_by == "hierarchy" else "sac"
    if method == "sac":
        return settings.task(task, agent, seed, None, fields=fields or {})
    skills = settings.skills(task.split("/")[0], method, seed, fields=fields or {})
    return settings.task(task, agent, seed, skills)


def write(results: Results) -> list[Path]:
    return write_task_figure(results, "Figure 4: learning tasks with skills")
