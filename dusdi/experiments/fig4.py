"""Figure 4: learning tasks with the skills of several methods, and without skills."""

from __future__ import annotations

from pathlib import Path

from dusdi.experiments.results import Results
from dusdi.experiments.settings import Cell, Settings
from dusdi.experiments.task_figure import task_cells, write_task_figure
from dusdi.tasks import TASKS

METHODS = ("dusdi", "diayn", "diayn-mc", "sac")
FLAT = "sac"  # the method that has no skills


def cells(settings: Settings) -> list[Cell]:
    """Returns every task with every method: PPO over its skills, or soft actor-critic without."""
    found = []
    for task in settings.chosen(TASKS):
        world = task.split("/")[0]
        for method in settings.methods or METHODS:
            for seed in range(settings.seeds):
                skills = None if method == FLAT else settings.skills(world, method, seed)
                job = settings.task(task, "ppo" if skills else FLAT, seed, skills)
                found += task_cells({"task": task, "method": method, "seed": seed}, job)
    return found


def write(results: Results) -> list[Path]:
    return write_task_figure(results, "Figure 4: learning tasks with skills")
