"""Figure 6: learning tasks with and without the causal policy gradient."""

from __future__ import annotations

from pathlib import Path

from dusdi.experiments.results import Results
from dusdi.experiments.settings import Cell, Settings
from dusdi.experiments.task_figure import task_cells, write_task_figure
from dusdi.tasks import CAUSAL_TASKS

AGENTS = {"dusdi": "ppo", "dusdi + cpg": "cpg"}


def cells(settings: Settings) -> list[Cell]:
    """Returns the tasks in which the paper tries the causal policy gradient, with both agents."""
    found = []
    for task in settings.chosen(CAUSAL_TASKS):
        for label, agent in AGENTS.items():
            for seed in range(settings.seeds):
                skills = settings.skills(task.split("/")[0], "dusdi", seed)
                labels = {"task": task, "method": label, "seed": seed}
                found += task_cells(labels, settings.task(task, agent, seed, skills))
    return found


def write(results: Results) -> list[Path]:
    return write_task_figure(results, "Figure 6: the causal policy gradient")
