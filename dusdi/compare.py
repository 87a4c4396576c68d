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
    """Draws the learning curves of runs, a panel for each world and metric; gives a table's rows.

    Args:
      paths: the runs' folders.
      out: the picture.
    """
    out = check_file(out, (".png", ".pdf", ".svg"))
    paths = list(dict.fromkeys(paths))
    runs = dict(zip(_labels(paths), map(read_run, paths), strict=True))
    panels: dict[tuple[str, str, float | None], Panel] = {}
    for label, run in runs.items():
        key = (run.world, run.metric, run.chance if run.metric == "accuracy" else None)
        name = {"run": label}
        points = [name | {"step": row["step"], "value": row[run.metric]} for row in run.curve]
        if points:
            panels.setdefault(key, Panel(*key, [])).rows.extend(points)
    if not panels:
        raise UsageError(f"nothing was logged in {', '.join(runs)}: there is nothing to compare")
    run_curves(list(panels.values()), out)
    return [_row(label, run) for label, run in runs.items()]


def _labels(paths: Sequence[str | Path]) -> list[str]:
    """Names of folders, or all of their paths if two have the same name."""
    names = [Path(path).resolve().name for path in paths]
    names = names if len(set(names)) == len(names) else [str(path) for path in paths]
    return [
        name.encode("utf-8", errors="replace").decode() for name in names
    ]  # file names may be any bytes


def _row(label: str, run: RunInfo) -> dict[str, str]:
    dci = [value for name in NAMES if (value := run.score(name)) is not None]
    earned, at = run.score("return"), run.measured_at
    final = [row[run.metric] for row in run.curve if row["step"] == run.curve[-1]["step"]]
    spread = f" ± {np.std(final, ddof=1):.2g}" if len(final) > 1 else ""
    return {
        "run": label,
        "method": run.method,
        "seed": str(run.config.get("seed", "")),
        "world": run.world,
        "steps": f"{run.step:,}" + (f" of {run.steps:,}" if run.step < run.steps else ""),
        "seconds": f"{run.seconds:,.0f}",
        "last logged": f"{run.metric} {np.mean(final):.3g}{spread}" if final else "nothing",
        "D, C, I": " ".join(f"{score:.3f}" for score in dci)
        + (f" at step {at:,}" if dci and at != run.step else ""),
        "return": f"{earned:,.2f}" if earned is not None else "",
    }
