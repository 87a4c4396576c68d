"""Figure 5: skills from pictures, beside those from states.

One encoder that is told where things are and one that is not serve all seeds. DCI is measured on
what the policy sees and on the true factors.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from dusdi.experiments.jobs import Job, dci_job, encoder_job
from dusdi.experiments.results import Results, markdown_table, mean_and_spread, mean_text
from dusdi.experiments.settings import Cell, Settings
from dusdi.experiments.task_figure import task_cells, write_task_figure
from dusdi.methods import find_method
from dusdi.metrics.dci import NAMES
from dusdi.tasks import PICTURED_TASKS

ERRORS = ("mean", "median", "95 %", "covered")
TITLE = "Figure 5: skills from pictures"
STATES, LABELS, DRAWINGS = "states", "pictures, labels", "pictures, no labels"
#: What each method learns from. Those with entangled skills are beside it in the paper's way.
SEEN = {
    "dusdi": (STATES, LABELS, DRAWINGS),
    "diayn": (LABELS,),
    "cic": (LABELS,),
}


def cells(settings: Settings) -> list[Cell]:
    """Returns the encoders, and DCI and the tasks of what is learned behind them."""
    found = []
    worlds = dict.fromkeys(task.split("/")[0] for task in settings.chosen(PICTURED_TASKS))
    for world in worlds:
        encoders: dict[str, Job | None] = {
            STATES: None,
            LABELS: encoder_job(world, labels=True),
            DRAWINGS: encoder_job(world, labels=False),
        }
        for seen, job in encoders.items():
            if job is not None:
                about = {"world": world, "method": seen, "seed": 0}
                found.append(Cell(about, job, frozenset({"labels"})))
        for seed in range(settings.seeds):
            for method in settings.chosen_methods("fig5"):
                for seen in SEEN.get(method, (LABELS,)):
                    skills = settings.skills(world, method, seed, encoder=encoders[seen])
                    found += _cells_of(settings, world, f"{method}, {seen}", seed, skills)
    return found


def _cells_of(settings: Settings, world: str, name: str, seed: int, skills: Job) -> list[Cell]:
    """Returns DCI of skills, of methods that are in Table 1, and the tasks they are used in."""
    labels = {"world": world, "method": name, "seed": seed}
    disentangled = "table1" in find_method(str(skills.request["method"])).experiments
    found = []
    if disentangled:
        found.append(Cell(labels, dci_job(skills, steps=settings.evaluation_steps)))
    for task in settings.chosen(PICTURED_TASKS):
        if task.split("/")[0] == world:
            labels = {"task": task, "method": name, "seed": seed}
            found += task_cells(labels, settings.task(task, "ppo", seed, skills))
    return found


def write(results: Results) -> list[Path]:
    """Writes DCI of each seed (CSV), and what every figure of tasks has, with tables of both."""
    scores = results.scores("dci")
    lines = [*_encoders(results), *_dci(scores, results.settings.evaluation_steps)]
    files = [results.write_csv(scores, "-dci.csv")] if len(scores) else []
    if results.of("return"):
        return [*files, *write_task_figure(results, TITLE, lines)]
    return [*files, results.write_markdown([f"# {TITLE}", "", *lines])]


def _encoders(results: Results) -> list[str]:
    """Returns a table of how well the encoders see."""
    rows = [
        [
            str(cell.labels["method"]),
            thing,
            *(mean_text([error[name]]) for name in ERRORS),
            f"{error['share covered']:.0%}",
            f"{record['seconds']:.0f}",
        ]
        for cell, record in results.of("encoder")
        for thing, error in record["scores"].items()
    ]
    header = ["", "things", *ERRORS, "share covered", "seconds"]
    return [
        "Encoders: the distance between true and seen place in new pictures of random play, in a "
        "world of width 2. Covered are things of which less than half is visible. Their seconds "
        "come on top of those of every row from pictures below.",
        "",
        *markdown_table(header, rows),
        "",
    ]


def _dci(scores: pd.DataFrame, steps: int) -> list[str]:
    """Returns a table of DCI on what the policy sees and on the true factors."""
    if not len(scores):
        return []
    rows = []
    for (method, direction), own in scores.groupby(["method", "direction"], sort=False):
        values = [mean_and_spread(own[name]) for name in NAMES]
        rows.append([f"{method}, {direction}", *values, str(len(own))])
    return [
        f"DCI on {steps:,} steps, mean ± standard deviation over seeds. True factors are those of "
        "the state behind the picture.",
        "",
        *markdown_table(["", *NAMES, "seeds"], rows),
        "",
    ]
