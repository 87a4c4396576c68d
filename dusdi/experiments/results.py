"""Records as data frames, and the files that are made of them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dusdi.experiments.provenance import footer
from dusdi.experiments.records import Record
from dusdi.experiments.settings import Cell, Settings
from dusdi.files import replacing, write_atomically
from dusdi.metrics.statistics import Estimate, estimate, interquartile_mean


@dataclass(frozen=True)
class Results:
    """What an experiment has measured.

    Attributes:
      name: of the experiment.
      settings: that it was made with.
      cells: those that have a record.
      records: of the cells' jobs, and of the runs that theirs started from, by key.
      missing: cells that have none, since they were not asked for.
    """

    name: str
    settings: Settings
    cells: Sequence[Cell]
    records: Mapping[str, Record]
    missing: Sequence[Cell] = ()

    def of(self, kind: str) -> list[tuple[Cell, Record]]:
        """Returns the cells whose jobs are of a kind, with their records."""
        return [(c, self.records[c.job.key]) for c in self.cells if c.job.kind == kind]

    def curves(self, kind: str) -> pd.DataFrame:
        """Returns a row for each point of the learning curves of a kind of jobs."""
        rows = []
        names: dict[str, None] = {}
        for cell, record in self.of(kind):
            curve = record["curve"]
            names |= dict.fromkeys([*cell.labels, *curve])
            for point in zip(*curve.values(), strict=True):
                rows.append({**cell.labels, **dict(zip(curve, point, strict=True))})
        return pd.DataFrame(rows, columns=list(names))

    def scores(self, kind: str) -> pd.DataFrame:
        """Returns a row of scores for each job of a kind; for DCI, one for each direction."""
        rows = []
        for cell, record in self.of(kind):
            end = {"seconds": record.get("seconds"), "key": record["key"]}
            scores = record["scores"]
            nested = isinstance(next(iter(scores.values())), Mapping)
            for direction, found in scores.items() if nested else [(None, scores)]:
                more = {"direction": direction} if nested else {}
                rows.append({**cell.labels, **more, **found, **end})
        frame = pd.DataFrame(rows)
        return frame.astype({"seed": "Int64"}) if len(frame) else frame

    def path(self, suffix: str) -> Path:
        """Returns the path of one of the experiment's files."""
        return self.settings.out / f"{self.name}{suffix}"

    def write_csv(self, frame: pd.DataFrame, suffix: str = ".csv") -> Path:
        with replacing(self.path(suffix)) as partial:
            frame.to_csv(partial, index=False, lineterminator="\n", float_format="%.6g")
        return self.path(suffix)

    def write_markdown(self, lines: Sequence[str]) -> Path:
        """Writes a page that ends with where its numbers come from."""
        write_atomically(self.path(".md"), "\n".join([*lines, "", *footer(self), ""]))
        return self.path(".md")

    def copy_pictures(self, picture: str, seed: int) -> list[Path]:
        """Copies a picture of the runs of one seed, where their folders are still there."""
        copied = []
        for cell in self.cells:
            source = cell.job.folder(self.settings.runs) / picture
            if cell.labels.get("seed") == seed and source.exists():
                words = [str(cell.labels[name]).replace(" ", "-") for name in ("world", "method")]
                target = self.path(f"-{'-'.join(words)}.png")
                with replacing(target) as partial:
                    shutil.copyfile(source, partial)
                copied.append(target)
        return copied


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a table."""
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def iqm_text(values: Any, style: str = ".3f") -> str:
    """Returns the interquartile mean of the values that are there and its interval, as text."""
    found = numbers(values)
    return estimate_text(estimate(interquartile_mean, found), style) if len(found) else "–"


def estimate_text(found: Estimate, style: str = ".3f") -> str:
    """Returns a number and its interval, if there is one, as text."""
    if found.interval is None:
        return f"{found.value:{style}}"
    low, high = found.interval
    return f"{found.value:{style}} [{low:{style}}, {high:{style}}]"


def mean_and_spread(values: Any, style: str = ".3f") -> str:
    """Returns the mean of the values that are there ± their standard deviation, as text."""
    found = numbers(values)
    spread = f" ± {found.std(ddof=1):{style}}" if len(found) > 1 else ""
    return mean_text(values, style) + spread


def mean_text(values: Any, style: str = ".3f") -> str:
    """Returns the mean of the values that are there, as text; a dash if there are none."""
    mean = mean_or_none(values)
    return "–" if mean is None else f"{mean:{style}}"


def mean_or_none(values: Any) -> float | None:
    """Returns the mean of the values that are there; None if there are none."""
    found = numbers(values)
    return float(found.mean()) if len(found) else None


def numbers(values: Any) -> np.ndarray:
    """Returns the values that are there."""
    return pd.to_numeric(pd.Series(values)).dropna().to_numpy(float)
