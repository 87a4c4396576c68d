"""What a person sees while training: a bar with rate and time left, and the latest metrics below it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

import rich.progress
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

GROUPS = ("accuracy", "squared_error", "reward", "return")  # metrics that each component or channel has


class Silent:
    """A display that shows nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def advance(self, step: int) -> None:
        pass

    def log(self, step: int, rows: Sequence[Mapping[str, float]]) -> None:
        pass


class Progress(Silent):
    """A live display on a terminal; elsewhere a line every few seconds."""

    LINE_SECONDS = 10.0

    def __init__(self, title: str, steps: int, done: int):
        self._console = Console(file=sys.stderr)
        self._steps, self._title = steps, title
        self._bar = rich.progress.Progress(
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(),
            rich.progress.TextColumn("{task.completed:,}/{task.total:,} steps"),
            rich.progress.TextColumn("{task.fields[rate]}"),
            rich.progress.TimeRemainingColumn(),
            console=self._console,
        )
        self._task = self._bar.add_task(self._title, total=steps, completed=done, rate="compiling")
        self._live = Live(self._bar, console=self._console, refresh_per_second=4) if self._console.is_terminal else None
        self._start, self._done, self._last_line = time.monotonic(), done, 0.0

    def __enter__(self):
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *exception):
        if self._live:
            self._live.stop()

    def advance(self, step: int) -> None:
        rate = (step - self._done) / (time.monotonic() - self._start)
        self._bar.update(self._task, completed=min(step, self._steps), rate=f"{rate:,.0f}/s")

    def log(self, step: int, rows: Sequence[Mapping[str, float]]) -> None:
        if self._live:
            self._live.update(Group(self._bar, _table(rows)))
        elif time.monotonic() - self._last_line > self.LINE_SECONDS or step >= self._steps:
            self._last_line = time.monotonic()
            shown = {name: value for name, value in _mean(rows).items() if "/" not in name}
            metrics = "  ".join(f"{name} {value:.3g}" for name, value in shown.items())
            elapsed = time.monotonic() - self._start
            left = elapsed * max(0, self._steps - step) / max(step - self._done, 1)
            self._console.print(f"{self._title}: step {step:,}/{self._steps:,}  {metrics}  {left:.0f} s left", soft_wrap=True)


def _mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def _table(rows: Sequence[Mapping[str, float]]) -> Table:
    """The scalars in one row and the metrics of each component below, averaged over seeds."""
    mean = _mean(rows)
    scalars = {name: value for name, value in mean.items() if "/" not in name or name.startswith("loss/")}
    groups = [name for name in GROUPS if any(key.startswith(f"{name}/") for key in mean)]
    names = list(dict.fromkeys(key.split("/", 1)[1] for key in mean if key.split("/", 1)[0] in groups))
    names = [name for name in names if not name.startswith("not ")]
    table = Table(title="  ".join(f"{name} {value:.3g}" for name, value in scalars.items()), title_justify="left", box=None)
    table.add_column("")
    others = any(f"{group}/not {name}" in mean for group in groups for name in names)
    for group in groups:
        table.add_column(group, justify="right")
    if others:
        table.add_column("seen in other factors", justify="right")
    for name in names[:20]:
        cells = [f"{mean[f'{group}/{name}']:.3f}" if f"{group}/{name}" in mean else "" for group in groups]
        if others:
            cells.append(f"{mean.get(f'{groups[0]}/not {name}', float('nan')):.3f}")
        table.add_row(name, *cells)
    return table
