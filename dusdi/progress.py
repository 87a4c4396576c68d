"""What a person sees while something takes time: a bar with rate and time left, and the latest metrics below it.

On a terminal the display is live; in a log file or a notebook it is a line every few seconds. A display never stops the work
it shows: if the terminal is gone, it falls silent.
"""

from __future__ import annotations

import functools
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import rich.progress
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

#: Metrics that each component or channel has, and the headings of their columns.
GROUPS = {
    "accuracy": "accuracy",
    "squared_error": "squared error",
    "penalty_accuracy": "accuracy from other factors",
    "penalty_squared_error": "squared error from other factors",
    "reward": "reward",
    "return": "return",
}
MAX_ROWS = 20  # components in the table, so that it fits on a screen


class Silent:
    """A display that shows nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def advance(self, done: int) -> None:
        """So much is done in all."""

    def log(self, done: int, rows: Sequence[Mapping[str, float]]) -> None:
        """The latest metrics, a row per seed."""

    def note(self, text: str) -> None:
        """Says something in place of the rate, for instance that the work is about to stop."""


def _harmless(method):
    """A display's method that gives up showing anything once its output is gone (a closed terminal, a broken pipe)."""

    @functools.wraps(method)
    def guarded(self, *arguments):
        if self._gone:
            return
        try:
            method(self, *arguments)
        except OSError:
            self._gone = True

    return guarded


class _Console(Console):
    """A console that does not end the program when nobody reads its output any more."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


class Progress(Silent):
    """A live display on a terminal; elsewhere a line every few seconds.

    Args:
      title: what is being done.
      total: how much there is to do.
      done: how much of it was done before.
      unit: what is counted.
      note: what to show in place of a rate until there is one.
    """

    FIRST_LINE_SECONDS, LINE_SECONDS = 2.0, 10.0
    WINDOW_SECONDS = 10.0  # the rate is that of so long

    def __init__(
        self, title: str, total: int, done: int = 0, *, unit: str = "steps", note: str = "compiling"
    ):
        self._console = _Console(file=sys.stderr)
        self._title, self._total, self._unit = title, total, unit
        columns = (
            rich.progress.BarColumn(bar_width=None),
            rich.progress.TextColumn(f"{{task.completed:,}}/{{task.total:,}} {unit}", markup=False),
            rich.progress.TextColumn("{task.fields[rate]}", markup=False),
            rich.progress.TextColumn("{task.fields[left]}", markup=False),
        )
        self._bar = rich.progress.Progress(*columns, console=self._console, expand=True)
        self._bar.add_task("", total=total, completed=min(done, total), rate=note, left="")
        (self._task,) = self._bar.tasks
        self._metrics: RenderableType = ""
        self._live = (
            Live(get_renderable=self._picture, console=self._console)
            if self._console.is_terminal
            else None
        )
        self._marks: deque[tuple[float, int]] = deque()
        self._next_line, self._gone = time.monotonic() + self.FIRST_LINE_SECONDS, False

    def _picture(self) -> RenderableType:
        return Group(Text(self._title, style="bold"), self._bar, self._metrics)

    def __enter__(self):
        self._start()
        return self

    def __exit__(self, *exception):
        if exception[0] is None:  # done, perhaps with less than was expected
            self._bar.update(
                self._task.id, total=max(self._task.completed, 1), rate="", left="done"
            )
        self._stop()

    @_harmless
    def _start(self) -> None:
        if self._live:
            self._live.start()

    @_harmless
    def _stop(self) -> None:
        if self._live:
            self._live.stop()

    def _rate(self) -> float:
        """Units per second lately; 0 if that is not known yet."""
        if len(self._marks) < 2:
            return 0.0
        (start, before), (end, done) = self._marks[0], self._marks[-1]
        return (done - before) / max(end - start, 1e-9)

    def _left(self, done: int) -> str:
        """The time left at the present rate, in words."""
        if done >= self._total:
            return "done"
        rate = self._rate()
        return f"{_duration((self._total - done) / rate)} left" if rate > 0 else ""

    @_harmless
    def advance(self, done: int) -> None:
        now = time.monotonic()
        self._marks.append((now, done))
        while len(self._marks) > 2 and self._marks[1][0] < now - self.WINDOW_SECONDS:
            self._marks.popleft()
        shown, rate = min(done, self._total), self._rate()
        told: dict[str, Any] = (
            {"rate": f"{_short(rate)}/s", "left": self._left(done)} if rate else {}
        )
        self._bar.update(self._task.id, completed=shown, **told)
        if not self._live and now > self._next_line:
            self._line(done, "")

    @_harmless
    def log(self, done: int, rows: Sequence[Mapping[str, float]]) -> None:
        self._metrics = _metrics(rows)
        if not self._live and (time.monotonic() > self._next_line or done >= self._total):
            shown = {name: value for name, value in _mean(rows).items() if "/" not in name}
            self._line(done, "".join(f"  {name} {value:.3g}" for name, value in shown.items()))

    def note(self, text: str) -> None:
        self._marks.clear()  # what comes now may be much slower or faster
        self._task.fields.update(rate=text, left="")

    def _line(self, done: int, metrics: str) -> None:
        self._next_line = time.monotonic() + self.LINE_SECONDS
        text = f"{self._title}: {min(done, self._total):,}/{self._total:,} {self._unit}{metrics}  {self._left(done)}"
        self._console.print(Text(text), soft_wrap=True)


def _mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def _metrics(rows: Sequence[Mapping[str, float]]) -> RenderableType:
    """Metrics averaged over seeds: those of the whole run side by side, then a table with a row for each component."""
    mean = _mean(rows)
    groups = [group for group in GROUPS if any(key.startswith(f"{group}/") for key in mean)]
    scalars = [key for key in mean if key.split("/", 1)[0] not in groups or "/" not in key]
    whole = Columns(
        [Text(f"{name} {mean[name]:.3g}", no_wrap=True) for name in scalars], padding=(0, 2)
    )
    names = list(
        dict.fromkeys(
            key.split("/", 1)[1] for key in mean if "/" in key and key.split("/", 1)[0] in groups
        )
    )
    if not names:
        return whole
    table = Table("", box=None, pad_edge=False)
    for group in groups:
        table.add_column(GROUPS[group], justify="right")
    for name in names[:MAX_ROWS]:
        table.add_row(
            Text(name),
            *(
                f"{mean[f'{group}/{name}']:.3f}" if f"{group}/{name}" in mean else ""
                for group in groups
            ),
        )
    if len(names) > MAX_ROWS:
        table.add_row(Text(f"and {len(names) - MAX_ROWS} more", style="dim"))
    return Group(whole, table)


def _short(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def _duration(seconds: float) -> str:
    """A time as h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
