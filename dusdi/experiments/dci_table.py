"""Tables of DCI scores: methods beside the scripted reference and the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dusdi.envs import WORLDS
from dusdi.experiments.jobs import Job, dci_job, expert_job
from dusdi.experiments.results import (
    Results,
    markdown_table,
    mean_and_spread,
    mean_or_none,
    mean_text,
)
from dusdi.experiments.settings import Cell, Settings
from dusdi.metrics.dci import NAMES
from dusdi.report import score_bars

REFERENCE = "scripted reference"


def dci_cells(settings: Settings, runs: Sequence[tuple[Mapping[str, Any], Job]]) -> list[Cell]:
    """Returns cells that measure labelled runs, and the scripted expert of each of their worlds."""
    steps = settings.evaluation_steps
    cells: list[Cell] = []
    worlds: set[str] = set()
    for labels, skills in runs:
        world = labels["world"]
        if world not in worlds and WORLDS[skills.environment].expert is not None:
            expert = {"world": world, "method": REFERENCE, "seed": None}
            cells.append(Cell(expert, expert_job(skills, steps=steps)))
        worlds.add(world)
        cells.append(Cell(labels, dci_job(skills, steps=steps)))
    return cells


def write_dci_table(results: Results, title: str) -> list[Path]:
    """Writes scores of each seed (CSV), a table and bars of their means, and heat maps."""
    scores = results.scores("dci")
    experts = results.scores("expert")
    paper = {
        cell.labels["world"]: {} if cell.job.options else WORLDS[cell.job.environment].published_dci
        for cell in results.cells
    }
    lines = [
        f"# {title}",
        "",
        f"DCI on {results.settings.evaluation_steps:,} steps, mean ± standard deviation over "
        "seeds.",
        "The paper's text measures from skills to states, its first release from states to skills.",
        "The scripted reference is a scripted policy that does what each component asks.",
        "A dash means that a score was not measured.",
    ]
    for world, own in scores.groupby("world", sort=False):
        lines += ["", f"## {world}", ""]
        lines += _world_table(own, _of_world(experts, world), paper[str(world)])
        note = WORLDS[str(world).split()[0]].published_note
        lines += ["", note] if note else []
    bars = results.path(".png")
    score_bars(_bar_rows(scores, experts, paper), bars, title=title)
    return [
        results.write_csv(pd.concat([scores, experts]) if len(experts) else scores),
        results.write_markdown(lines),
        bars,
        *results.copy_pictures("dci.png", seed=int(scores["seed"].min())),
    ]


def _world_table(
    scores: pd.DataFrame, experts: pd.DataFrame, paper: Mapping[str, Sequence[float]]
) -> list[str]:
    """Returns the lines of a world's table."""
    rows = []
    for (method, direction), own in scores.groupby(["method", "direction"], sort=False):
        cells = [mean_and_spread(own[name]) for name in NAMES]
        rows.append([f"{method}, {direction}", *cells, mean_text(own["seconds"], ".0f")])
    for _, expert in experts.iterrows():
        cells = [mean_and_spread(expert[name]) for name in NAMES]
        rows.append([f"{REFERENCE}, {expert['direction']}", *cells, ""])
    for method in scores["method"].unique():
        if method in paper:
            rows.append([f"paper, {method}", *(f"{score:.3f}" for score in paper[method]), ""])
    return markdown_table(["", *NAMES, "seconds per seed"], rows)


def _bar_rows(
    scores: pd.DataFrame, experts: pd.DataFrame, paper: Mapping[str, Mapping]
) -> list[dict[str, Any]]:
    """Returns the rows that `score_bars` draws."""
    rows = []
    for keys, own in scores.groupby(["world", "method", "direction"], sort=False):
        world, method, direction = map(str, keys)
        row: dict[str, Any] = {"world": world, "method": method, "direction": direction}
        expert = _of_world(experts, world)
        expert = expert[expert["direction"] == direction] if len(expert) else expert
        published = paper[world].get(method, (None,) * len(NAMES))
        for name, value in zip(NAMES, published, strict=True):
            found = pd.to_numeric(own[name]).dropna()
            row[name] = mean_or_none(found)
            row[f"{name}_std"] = float(found.std()) if len(found) > 1 else None
            row[f"{name}_paper"] = value
            row[f"{name}_reference"] = mean_or_none(expert[name]) if len(expert) else None
        rows.append(row)
    return rows


def _of_world(frame: pd.DataFrame, world: Any) -> pd.DataFrame:
    return frame[frame["world"] == world] if len(frame) else frame
