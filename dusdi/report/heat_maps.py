"""Heat maps of the importances behind DCI, in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from dusdi.metrics.dci import DCI, Scores
from dusdi.report import style
from dusdi.report.style import EMPTY, FAINT, INK, MUTED, File

ANNOTATED = 14  # the most rows or columns whose cells have room for a number


@style.plain_text
def heat_map(result: DCI, path: File, title: str) -> None:
    """Saves the importances in both directions side by side, the paper's on the left."""
    components, factors = result.components, result.factors
    most = max(len(components), len(factors))
    cell = float(np.clip(5.2 / most, 0.2, 0.95))  # all lengths are in inches
    font = min(10.0, 36.0 * cell)  # points: half a cell
    gap = 1.0 + font / 120 * max(map(len, factors))  # room for the names of factors
    panels = [max(2.4, cell * len(columns)) for columns in (factors, components)]
    width = sum(panels) + gap + 0.5
    height = cell * most

    figure = Figure(figsize=(width, height), dpi=180, facecolor="white")
    FigureCanvasAgg(figure)
    figure.text(0.0, 1.0 + 0.72 / height, title, fontsize=15, fontweight="bold", color=INK)
    left = _axes(figure, 0.0, cell * len(factors), cell * len(components))
    image = _direction(left, result, "Skills → states", components, factors, font)
    left.set(xlabel="state factor (predicted)", ylabel="skill component")
    right = _axes(figure, panels[0] + gap, cell * len(components), cell * len(factors))
    _direction(right, result.states_to_skills, "States → skills", factors, components, font)
    right.set(xlabel="skill component (predicted)", ylabel="state factor")
    _colour_bar(figure, image, _axes(figure, width - 0.2, 0.14, height))
    style.save(figure, path, bbox_inches="tight", pad_inches=0.2)


def _axes(figure: Figure, left: float, width: float, height: float) -> Axes:
    """Adds axes of a size in inches, hanging from the figure's upper edge."""
    whole_width, whole_height = figure.get_size_inches()
    box = (
        left / whole_width,
        1.0 - height / whole_height,
        width / whole_width,
        height / whole_height,
    )
    return figure.add_axes(box)


def _colour_bar(figure: Figure, image: AxesImage, axes: Axes) -> None:
    bar = figure.colorbar(image, cax=axes, ticks=[0, 0.25, 0.5, 0.75, 1])
    bar.set_label("importance (share of gain)", color=MUTED)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelcolor=MUTED)


def _direction(
    axes: Axes,
    scores: Scores,
    title: str,
    inputs: Sequence[str],
    targets: Sequence[str],
    font: float,
) -> AxesImage:
    """Draws one direction: a row for each input of the prediction, a column for each target."""
    axes.set_facecolor(EMPTY)
    image = axes.imshow(scores.importance, cmap="BuPu", vmin=0.0, vmax=1.0, aspect="auto")
    _name_cells(axes, inputs, targets, font)
    above: dict[str, Any] = {
        "xy": (0, 1),
        "xycoords": "axes fraction",
        "textcoords": "offset points",
    }
    axes.annotate(title, xytext=(0, 24), fontsize=12, fontweight="bold", color=INK, **above)
    axes.annotate(_score_line(scores), xytext=(0, 8), fontsize=10, color=MUTED, **above)
    if scores.measured and max(scores.importance.shape) <= ANNOTATED:
        _write_numbers(axes, scores.importance, min(9.0, font))
    return image


def _name_cells(axes: Axes, inputs: Sequence[str], targets: Sequence[str], font: float) -> None:
    """Names rows and columns, with white lines between the cells."""
    slant = 90 if font < 8 else 45 if max(map(len, targets)) > 3 else 0
    axes.set_xticks(range(len(targets)), targets, fontsize=font, rotation=slant)
    if slant == 45:
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(inputs)), inputs, fontsize=font)
    axes.set_xticks(np.arange(1, len(targets)) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, len(inputs)) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=0.15 * font)
    axes.tick_params(which="both", length=0, labelcolor=INK)
    axes.spines[:].set_visible(False)
    axes.xaxis.label.set_color(MUTED)
    axes.yaxis.label.set_color(MUTED)


def _write_numbers(axes: Axes, importance: np.ndarray, font: float) -> None:
    centred: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": font}
    for (row, column), value in np.ndenumerate(importance):
        tone = "white" if value > 0.55 else INK if value >= 0.1 else FAINT
        axes.text(column, row, f"{value:.2f}", color=tone, **centred)


def _score_line(scores: Scores) -> str:
    if not scores.measured:
        return "not measured: too many skill values"
    return (
        f"D {scores.disentanglement:.3f}    C {scores.completeness:.3f}    "
        f"I {scores.informativeness:.3f}"
    )
