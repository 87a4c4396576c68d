"""Figure 3: does one Q function per skill component help?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dusdi.experiments.curves import first_step_at
from dusdi.experiments.jobs import find_setting
from dusdi.experiments.results import Results, markdown_table, mean_and_spread
from dusdi.experiments.settings import Cell, Settings, paper_worlds
from dusdi.report import curves
from dusdi.spaces import parse_space

TITLE = "Figure 3: does Q decomposition help?"
VARIANTS: dict[str, dict[str, Any]] = {
    "with Q decomposition": {},
    "without": {"decompose_q": False},
}
METRIC = "accuracy"  # of the skill discriminators
LEVEL = 0.5  # the accuracy whose first step the table shows


def cells(settings: Settings) -> list[Cell]:
    """Returns the runs of DUSDi with and without Q decomposition in the worlds of the paper."""
    found = []
    for world in settings.chosen(paper_worlds()):
        for label, fields in VARIANTS.items():
            name = "-".join(["dusdi", *(f"{key}={value}" for key, value in fields.items())])
            for seed in range(settings.seeds):
                job = settings.skills(world, "dusdi", seed, fields=fields, name=name)
                labels = {"world": world, "method": label, "seed": seed}
                found.append(Cell(labels, job, frozenset(fields)))
    return found


def write(results: Results) -> list[Path]:
    """Writes the curves (CSV and PNG) and a table of where they end."""
    points = results.curves("skills")
    picture = results.path(".png")
    chance = parse_space(find_setting(results.cells[0].job.settings, "component")).chance
    title = "Accuracy of the skill discriminators"
    curves(points.to_dict("records"), picture, title=title, metric=METRIC, chance=chance)
    lines = [
        f"# {TITLE}",
        "",
        "Mean accuracy of the discriminators q_φ on replayed states, mean ± standard deviation "
        "over seeds.",
        "The paper shows curves only: about equal in its simplest world, decomposition far ahead "
        "where there are many factors.",
        f"Steps to {LEVEL} are the median over seeds, of which some may never get there.",
        "",
        *_table(points),
    ]
    return [results.write_csv(points), results.write_markdown(lines), picture]


def _table(points: pd.DataFrame) -> list[str]:
    rows = []
    for (world, method), own in points.groupby(["world", "method"], sort=False):
        seeds = [curve for _, curve in own.groupby("seed")]
        reached = [first_step_at(list(c["step"]), list(c[METRIC]), LEVEL) for c in seeds]
        count = f"{sum(np.isfinite(reached))} of {len(seeds)}"
        steps = f"{np.median(reached):,.0f}" if np.isfinite(np.median(reached)) else "never"
        rows.append(
            [
                str(world),
                str(method),
                mean_and_spread([curve[METRIC].iloc[-1] for curve in seeds]),
                f"{steps} ({count})",
                f"{np.mean([curve['seconds'].iloc[-1] for curve in seeds]):.0f}",
            ]
        )
    header = ["world", "critic", "accuracy in the end", f"steps to {LEVEL}", "seconds per seed"]
    return markdown_table(header, rows)
