"""Runs side by side: a table of what they are and reach, and their learning curves as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dusdi.checks import check_file
from dusdi.errors import UsageError
from dusdi.info import RunInfo, read_run
from dusdi.metrics.dci import NAMES
from dusdi.report import Panel, run_curves


def compare(paths: Sequence[str | Path], out: str | Path = "compare.png") -> list[dict[str, str]]:
    """Draws the learning curves of runs, a panel for each world and metric.

    Args:
      paths: the runs' folders.
      out: the picture.

    Returns:
      The rows of a table, one for each run.
    """
    out = check_file(out, (".png", ".pdf", ".svg"))
    paths = list(dict.fromkeys(paths))
    runs = dict(zip(_labels(paths), map(read_run, paths), strict=True))
    panels: dict[tuple[str, str, float | None], Panel] = {}
    for label, run in runs.items():
        key = (run.world, run.metric, run.chance)
        points = [
            {"run": label, "seed": row["seed"], "step": row["step"], "value": row[run.metric]}
            for row in run.curve
        ]
        if points:
            panels.setdefault(key, Panel(*key, [])).rows.extend(points)
    if not panels:
        raise UsageError(f"nothing was logged in {', '.join(runs)}: there is nothing to compare")
    run_curves(list(panels.values()), out)
    return [_row(label, run) for label, run in runs.items()]


def _labels(paths: Sequence[str | Path]) -> list[str]:
    """Returns the names of folders, or their whole paths if two have the same name."""
    names = [Path(path).resolve().name for path in paths]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    # The names of files may be any bytes.
    return [name.encode("utf-8", errors="replace").decode() for name in names]


def _row(label: str, run: RunInfo) -> dict[str, str]:
    """Returns what a run is and what it reached, as texts."""
    dci = [value for name in NAMES if (value := run.score(name)) is not None]
    mean_return = run.score("return")
    old = f" at step {run.measured_at:,}" if dci and run.measured_at != run.step else ""
    final = [row[run.metric] for row in run.curve if row["step"] == run.curve[-1]["step"]]
    spread = f" ± {np.std(final, ddof=1):.2g}" if len(final) > 1 else ""
    return {
        "run": label,
        "method": run.method,
        "seed": str(run.settings.get("seed", "")),
        "world": run.world,
        "steps": f"{run.step:,}" + (f" of {run.steps:,}" if run.step < run.steps else ""),
        "seconds": f"{run.seconds:,.0f}",
        "last logged": f"{run.metric} {np.mean(final):.3g}{spread}" if final else "nothing",
        "D, C, I": " ".join(f"{score:.3f}" for score in dci) + old,
        "return": f"{mean_return:,.2f}" if mean_return is not None else "",
    }
