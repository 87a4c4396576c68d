"""Results as pictures.

Figures are built without pyplot, so drawing one leaves no global state behind and needs no display.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from dusdi.metrics.dci import DCI, Scores

INK, MUTED = "#1f2733", "#6b7684"
ANNOTATED = 12  # the most rows or columns whose cells still have room for a number


def heat_map(result: DCI, path: str | os.PathLike[str], title: str) -> None:
    """Draws the importances of both directions side by side, the paper's on the left, and saves them as an image."""
    factors, components = len(result.factors), len(result.components)
    cell = max(0.2, min(0.62, 6.2 / max(factors, components)))  # inches
    widths = [max(2.8, cell * count) for count in (factors, components)]
    height = max(2.8, cell * max(factors, components))
    figure = Figure(figsize=(sum(widths) + 4.2, height + 2.3), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=15, fontweight="bold", color=INK)
    left, right = figure.subplots(1, 2, width_ratios=widths)
    image = _panel(left, result, "Skills → states", result.components, result.factors)
    left.set(xlabel="state factor (predicted)", ylabel="skill component")
    _panel(right, result.states_to_skills, "States → skills", result.factors, result.components)
    right.set(xlabel="skill component (predicted)", ylabel="state factor")
    bar = figure.colorbar(image, ax=[left, right], aspect=32, pad=0.02, ticks=[0, 0.25, 0.5, 0.75, 1])
    bar.set_label("importance (share of gain)", color=MUTED)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, colors=MUTED)
    figure.savefig(path, dpi=160)


def _panel(axes: Axes, scores: Scores, title: str, codes: Sequence[str], targets: Sequence[str]) -> AxesImage:
    """One direction: a row per code, a column per target."""
    image = axes.imshow(scores.importance, cmap="BuPu", vmin=0.0, vmax=1.0)
    size = max(5.5, min(10.0, 220 / max(len(codes), len(targets))))
    long = max(map(len, targets)) * len(targets) > 32
    axes.set_xticks(range(len(targets)), targets, fontsize=size, rotation=90 if long else 0)
    axes.set_yticks(range(len(codes)), codes, fontsize=size)
    axes.tick_params(length=0, colors=INK)
    axes.xaxis.label.set_color(MUTED)
    axes.yaxis.label.set_color(MUTED)
    axes.spines[:].set_visible(False)
    axes.set_xticks([i - 0.5 for i in range(1, len(targets))], minor=True)
    axes.set_yticks([i - 0.5 for i in range(1, len(codes))], minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5 if size > 9 else 0.5)
    axes.tick_params(which="minor", length=0)
    axes.set_title(f"{title}\n", fontsize=12, fontweight="bold", color=INK, loc="left")
    axes.text(0.0, 1.0, _score_line(scores), transform=axes.transAxes, va="bottom", color=MUTED, fontsize=10)
    if scores.measured and max(scores.importance.shape) <= ANNOTATED:
        _annotate(axes, scores)
    return image


def _score_line(scores: Scores) -> str:
    if not scores.measured:
        return "not measured: too many skill values"
    return f"D {scores.disentanglement:.3f}    C {scores.completeness:.3f}    I {scores.informativeness:.3f}"


def _annotate(axes: Axes, scores: Scores) -> None:
    for (row, column), value in np.ndenumerate(scores.importance):
        color = "white" if value > 0.55 else INK if value >= 0.1 else "#a3acb8"
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=9, color=color)
