"""Beyond the paper: how disentangled skills are in worlds with more factors than its own."""

from __future__ import annotations

from pathlib import Path

from dusdi.envs import WORLDS
from dusdi.experiments.dci_table import dci_cells, write_dci_table
from dusdi.experiments.results import Results
from dusdi.experiments.settings import Cell, Settings


def cells(settings: Settings) -> list[Cell]:
    """Returns the larger versions of every world that has some."""
    runs = []
    for world in settings.chosen(WORLDS):
        for options in WORLDS[world].larger:
            place = " ".join([world, *(f"{name}={value}" for name, value in options.items())])
            for method in settings.chosen_methods("more-factors"):
                for seed in range(settings.seeds):
                    labels = {"world": place, "method": method, "seed": seed}
                    runs.append((labels, settings.skills(world, method, seed, options=options)))
    return dci_cells(settings, runs)


def write(results: Results) -> list[Path]:
    return write_dci_table(results, "More factors than in the paper")
