"""Tuning: every method's settings in every world, found with equal effort on tuning seeds.

Each method declares a small grid (`Method.grid`). Every combination is used on the world's tuning
task as the method is meant to be used, with as many steps as in Figure 4; those that are in the
better half with the first seed are tried with the others, and the highest mean return is chosen.
What is chosen belongs into the presets, and a test compares them with the table: those of the world
(`World.method_presets`) or, for flat soft actor-critic, of its tasks (`World.task_presets`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dusdi.envs import WORLDS
from dusdi.errors import UsageError
from dusdi.experiments.fig4 import task_run
from dusdi.experiments.jobs import return_job
from dusdi.experiments.records import Record
from dusdi.experiments.results import Results, markdown_table, mean_and_spread, mean_text
from dusdi.experiments.settings import FIRST_TUNING_SEED, Cell, Settings
from dusdi.experiments.task_figure import EPISODES
from dusdi.methods import find_method
from dusdi.methods.base import LARGEST_GRID

SEEDS_TO_CHOOSE = 3  # on which settings are tried that are chosen
END_OF_CHOICE = FIRST_TUNING_SEED + SEEDS_TO_CHOOSE  # later seeds choose nothing


def combinations(method: str) -> Iterator[dict[str, Any]]:
    """Yields the settings that a method is tuned by."""
    grid = find_method(method).grid
    found = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if len(found) > LARGEST_GRID:
        raise UsageError(
            f"the grid of {method} has {len(found)} combinations; at most {LARGEST_GRID} are fair"
        )
    yield from found


def describe(fields: Mapping[str, Any]) -> str:
    """Returns settings as text."""
    return ", ".join(f"{name} {value}" for name, value in fields.items()) or "the preset"


def cells(settings: Settings) -> list[Cell]:
    """Returns every combination of every method in the worlds that have a tuning task."""
    found = []
    places = [f"{name}/{world.tuning_task}" for name, world in WORLDS.items() if world.tuning_task]
    for task in settings.chosen(places):
        # Seed after seed: if it is stopped, what is done compares all settings.
        for seed in range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + settings.seeds):
            for method in settings.chosen_methods("fig4"):
                for fields in combinations(method):
                    labels = {
                        "world": task.split("/")[0],
                        "method": method,
                        "settings": describe(fields),
                        "seed": seed,
                    }
                    job = task_run(settings, task, method, seed, fields)
                    found.append(
                        Cell(labels, return_job(job, episodes=EPISODES), frozenset(fields))
                    )
    return found


def promising(cells: Sequence[Cell], records: Mapping[str, Record]) -> list[Cell]:
    """Returns what is worth running: the first seed, then the combinations that did well with it.

    While some of a method's combinations have no record of the first seed, no other is tried.
    """
    methods: dict[tuple[str, str], dict[str, float | None]] = {}
    for cell in cells:
        if cell.labels["seed"] == FIRST_TUNING_SEED:
            found = records.get(cell.job.key)
            own = methods.setdefault((cell.labels["world"], cell.labels["method"]), {})
            own[cell.labels["settings"]] = None if found is None else found["scores"]["return"]
    better = {
        key: better_half(pd.Series(own)) if None not in own.values() else frozenset[str]()
        for key, own in methods.items()
    }
    return [
        cell
        for cell in cells
        if cell.labels["seed"] == FIRST_TUNING_SEED
        or cell.labels["settings"] in better[cell.labels["world"], cell.labels["method"]]
    ]


def better_half(returns: pd.Series) -> frozenset[str]:
    """Returns the names of the higher half of returns."""
    ranked = returns.astype(float).sort_values(ascending=False, kind="stable")
    return frozenset(map(str, ranked.index[: -(-len(ranked) // 2)]))


def write(results: Results) -> list[Path]:
    """Writes the return of each run (CSV) and a table of the settings with what is chosen."""
    scores = results.scores("return")
    first = FIRST_TUNING_SEED
    last = FIRST_TUNING_SEED + results.settings.seeds - 1
    lines = [
        "# Settings of every method, found with equal effort",
        "",
        f"Each method declares a grid of at most {LARGEST_GRID} combinations of settings. Each is "
        f"tried on tuning seed {first}, which like those up to {last} no other table uses, in one "
        "task of each world, with the same steps as for Figure 4; the better half is tried on all. "
        f"The return is the mean ± standard deviation over seeds, each on {EPISODES} episodes of "
        "its own. The highest mean is chosen (**bold**) among those tried on "
        f"seeds {FIRST_TUNING_SEED} to {END_OF_CHOICE - 1}; with fewer seeds, nothing is.",
    ]
    for world, own in scores.groupby("world", sort=False):
        task = f"{world}/{WORLDS[str(world)].tuning_task}"
        lines += ["", f"## {world}, by `{task}`", "", *_world_table(own)]
    return [results.write_csv(scores), results.write_markdown(lines)]


def _world_table(scores: pd.DataFrame) -> list[str]:
    """Returns the lines of a world's table."""
    best = choose(scores)
    rows = []
    for keys, own in scores.groupby(["method", "settings"], sort=False):
        method, settings = map(str, keys)
        text = mean_and_spread(own["return"], ",.1f")
        chosen = best.get(method) == settings
        mark = "**" if chosen else ""
        cells = [method, f"{mark}{settings}{mark}", f"{mark}{text}{mark}"]
        rows.append([*cells, str(len(own)), mean_text(own["seconds"], ".0f")])
    return markdown_table(["method", "settings", "return", "seeds", "seconds on the task"], rows)


def choose(scores: pd.DataFrame) -> dict[str, str]:
    """Returns the settings of each method that have the highest mean return in a world.

    Only those tried on enough seeds can be. A method is left out while a combination lacks the
    first seed, or one of the better half there lacks others.
    """
    chosen = {}
    for method, own in scores.groupby("method", sort=False):
        names = [describe(fields) for fields in combinations(str(method))]
        table = own.pivot(index="settings", columns="seed", values="return").reindex(names)
        table = table[[seed for seed in sorted(table) if seed < END_OF_CHOICE]]
        tried = table.notna().sum(axis=1)
        if FIRST_TUNING_SEED not in table or table[FIRST_TUNING_SEED].isna().any():
            continue
        better = better_half(table[FIRST_TUNING_SEED])
        if tried[sorted(better)].min() >= SEEDS_TO_CHOOSE:
            means = table.mean(axis=1)
            chosen[str(method)] = str(means[tried >= SEEDS_TO_CHOOSE].idxmax())
    return chosen
