"""Figure 4: learning tasks with the skills of several methods, and without skills."""

from __future__ import annotations

from pathlib import Path

from dusdi.errors import UsageError
from dusdi.experiments.jobs import Job
from dusdi.experiments.results import Results
from dusdi.experiments.settings import Cell, Settings
from dusdi.experiments.task_figure import task_cells, write_task_figure
from dusdi.methods import find_method
from dusdi.tasks import TASKS

METHODS = ("dusdi", "diayn", "diayn-mc", "sac")


def cells(settings: Settings) -> list[Cell]:
    """Returns every task with every method."""
    found = []
    for task in settings.chosen(TASKS):
        for method in settings.methods or METHODS:
            for seed in range(settings.seeds):
                labels = {"task": task, "method": method, "seed": seed}
                found += task_cells(labels, _task_job(settings, task, method, seed))
    return found


def _task_job(settings: Settings, task: str, method: str, seed: int) -> Job:
    """Returns the run of a method on a task, in the way that the method is meant to be used.

    A method that learns from the task's own reward has nothing to pretrain.
    """
    kind = find_method(method)
    agent = "ppo" if kind.used_by == "hierarchy" else "sac"
    if kind.learns_task and method != "sac":
        raise UsageError(
            f"method {method!r} can't be in fig4: it learns from a task's reward, for which fig4 "
            "has soft actor-critic alone; name sac, or a method that discovers skills"
        )
    if kind.learns_task:
        return settings.task(task, agent, seed, None)
    return settings.task(task, agent, seed, settings.skills(task.split("/")[0], method, seed))


def write(results: Results) -> list[Path]:
    return write_task_figure(results, "Figure 4: learning tasks with skills")
