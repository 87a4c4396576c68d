"""Figure 4: learning tasks with the skills of several methods, and without skills."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dusdi.errors import UsageError
from dusdi.experiments.jobs import Job
from dusdi.experiments.results import Results
from dusdi.experiments.settings import Cell, Settings
from dusdi.experiments.task_figure import task_cells, write_task_figure
from dusdi.methods import find_method
from dusdi.tasks import COMPARED_TASKS

#: The paper's nine methods, and SUSD, which is later.
METHODS = ("dusdi", "diayn", "cic", "csd", "metra", "icm", "rnd", "elden", "sac", "susd")


def cells(settings: Settings) -> list[Cell]:
    """Returns every task that methods are compared in with every method."""
    found = []
    for task in settings.chosen(COMPARED_TASKS):
        for method in settings.methods or METHODS:
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

    A method that learns from the task's own reward has nothing to pretrain.

    Args:
      settings: what to reproduce with.
      task, method, seed: of the run.
      fields: changes to the method's settings.
    """
    kind = find_method(method)
    agent = "ppo" if kind.used_by == "hierarchy" else "sac"
    if kind.learns_task and method != "sac":
        raise UsageError(
            f"method {method!r} can't be in fig4: it learns from a task's reward, for which fig4 "
            "has soft actor-critic alone; name sac, or a method that discovers skills"
        )
    if kind.learns_task:
        return settings.task(task, agent, seed, None, fields=fields or {})
    skills = settings.skills(task.split("/")[0], method, seed, fields=fields or {})
    return settings.task(task, agent, seed, skills)


def write(results: Results) -> list[Path]:
    return write_task_figure(results, "Figure 4: learning tasks with skills")
