"""Results as pictures: heat maps, histograms, bars and learning curves, all in one palette."""

from dusdi.report.bars import score_bars
from dusdi.report.curves import Panel, curves, run_curves, task_curves
from dusdi.report.heat_maps import heat_map
from dusdi.report.histograms import value_histograms

__all__ = [
    "Panel",
    "curves",
    "heat_map",
    "run_curves",
    "score_bars",
    "task_curves",
    "value_histograms",
]
