"""Table 1: how disentangled the skills of several methods are."""

from __future__ import annotations

from pathlib import Path

from dusdi.experiments.dci_table import dci_cells, write_dci_table
from dusdi.experiments.results import Results
from dusdi.experiments.settings import Cell, Settings, paper_worlds


def cells(settings: Settings) -> list[Cell]:
    """Returns every world of the paper's table with every method."""
    runs = [
        ({"world": world, "method": method, "seed": seed}, settings.skills(world, method, seed))
        for world in settings.chosen(paper_worlds())
        for method in settings.chosen_methods("table1")
        for seed in range(settings.seeds)
    ]
    return dci_cells(settings, runs)


def write(results: Results) -> list[Path]:
    return write_dci_table(results, "Table 1: how disentangled the skills are")
