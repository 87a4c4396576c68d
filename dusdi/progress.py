"""What a person sees while a command runs: a progress bar, and the latest metrics.

On a terminal the display is live; in a log file or a notebook it is a line every few seconds. A
display never stops the work that it shows: if the terminal is closed, it shows nothing any more.
"""

from __future__ import annotations

import functools
import math
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

from dusdi.signals import check_interrupted

#: Kinds of metrics whose second part is not a component: `loss/critic` stands by itself.
NOT_PER_COMPONENT = {"loss"}
MAX_ROWS = 20  # components in the table, so that it fits on a screen


class Silent:
    """A display that shows nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def advance(self, done: int) -> None:
        """Shows that so much is done in all; raises a `KeyboardInterrupt` that was lost before."""
        check_interrupted()

    def log(self, done: int, rows: Sequence[Mapping[str, float]]) -> None:
        """Shows the latest metrics, a row per seed; the first metric is the headline."""

    def note(self, text: str) -> None:
        """Shows a few words in place of the rate, for instance that the work is about to stop."""

    def message(self, text: str) -> None:
        """Shows a sentence above the bar, where it stays."""


def _ignore_closed_output(method):
    """Makes a display's method do nothing once its output is closed (a terminal, a pipe)."""

    @functools.wraps(method)
    def guarded(self, *arguments):
        if self._closed:
            return
        try:
            method(self, *arguments)
        except OSError:
            self._closed = True

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
      order: the components in the order in which the table of metrics lists them.
    """

    FIRST_LINE_SECONDS = 2.0
    LINE_SECONDS = 10.0  # between lines in a log file
    WINDOW_SECONDS = 10.0  # the rate shown is that of so many last seconds

    def __init__(
        self,
        title: str,
        total: int,
        done: int = 0,
        *,
        unit: str = "steps",
        note: str = "compiling",
        order: Sequence[str] = (),
    ):
        self._console = _Console(file=sys.stderr)
        self._title = title
        self._total = total
        self._unit = unit
        self._order = order
        self._bar = self._make_bar()
        self._bar.add_task("", total=total, completed=min(done, total), rate=note, left="")
        (self._task,) = self._bar.tasks
        self._metrics: RenderableType = ""
        self._live: Live | None = None
        if self._console.is_terminal:
            self._live = Live(get_renderable=self._picture, console=self._console)
        self._marks: deque[tuple[float, int]] = deque()  # when so much was done
        self._next_line = time.monotonic() + self.FIRST_LINE_SECONDS
        self._closed = False

    def _make_bar(self) -> rich.progress.Progress:
        texts = (
            f"{{task.completed:,}}/{{task.total:,}} {self._unit}",
            "{task.fields[rate]}",
            "{task.fields[left]}",
        )
        columns = [rich.progress.TextColumn(text, markup=False) for text in texts]
        bar = rich.progress.BarColumn(bar_width=None)
        return rich.progress.Progress(bar, *columns, console=self._console, expand=True)

    def _picture(self) -> RenderableType:
        return Group(Text(self._title, style="bold"), self._bar, self._metrics)

    def __enter__(self):
        self._start()
        return self

    def __exit__(self, *exception):
        if exception[0] is None:  # the work is done, perhaps with less than was expected
            total = max(self._task.completed, 1)
            self._bar.update(self._task.id, total=total, rate="", left="done")
        self._stop()

    @_ignore_closed_output
    def _start(self) -> None:
        if self._live:
            self._live.start()

    @_ignore_closed_output
    def _stop(self) -> None:
        if self._live:
            self._live.stop()

    def advance(self, done: int) -> None:
        super().advance(done)
        self._show_advance(done)

    @_ignore_closed_output
    def _show_advance(self, done: int) -> None:
        now = time.monotonic()
        marks = self._marks
        marks.append((now, done))
        while len(marks) > 2 and marks[1][0] < now - self.WINDOW_SECONDS:
            marks.popleft()
        rate = self._rate()
        shown: dict[str, Any] = {}
        if rate:
            shown = {"rate": f"{_short(rate)}/s", "left": self._left(done)}
        self._bar.update(self._task.id, completed=min(done, self._total), **shown)
        if not self._live and now > self._next_line:
            self._print_line(done, "")

    @_ignore_closed_output
    def log(self, done: int, rows: Sequence[Mapping[str, float]]) -> None:
        self._metrics = metrics_view(rows, self._order)
        due = time.monotonic() > self._next_line or done >= self._total
        if not self._live and due:
            shown = {name: value for name, value in _mean(rows).items() if "/" not in name}
            texts = [f"  {name} {_number(value, '.3g')}" for name, value in shown.items()]
            self._print_line(done, "".join(texts))

    def note(self, text: str) -> None:
        # What comes now may be much slower or faster. This may be called by a signal's handler, in
        # the middle of a method that goes on with the marks it has.
        self._marks = deque()
        self._task.fields.update(rate=text, left="")

    @_ignore_closed_output
    def message(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=not self._live)

    def _rate(self) -> float:
        """Units per second lately; 0 if that is not known yet."""
        marks = self._marks
        if len(marks) < 2:
            return 0.0
        start, done_before = marks[0]
        end, done = marks[-1]
        return (done - done_before) / max(end - start, 1e-9)

    def _left(self, done: int) -> str:
        """The time left at the present rate, as text."""
        if done >= self._total:
            return "done"
        rate = self._rate()
        return f"{_duration((self._total - done) / rate)} left" if rate > 0 else ""

    def _print_line(self, done: int, metrics: str) -> None:
        self._next_line = time.monotonic() + self.LINE_SECONDS
        counted = f"{min(done, self._total):,}/{self._total:,} {self._unit}"
        text = f"{self._title}: {counted}{metrics}  {self._left(done)}"
        self._console.print(Text(text), soft_wrap=True)


def metrics_view(rows: Sequence[Mapping[str, float]], order: Sequence[str] = ()) -> RenderableType:
    """Metrics averaged over seeds: those of the whole run, then a table with a row per component.

    Args:
      rows: the metrics of each seed. One named `KIND/COMPONENT` belongs into the table, with a
        column for each kind; the first of the others is the headline.
      order: the components in the order of the table's rows; those not named come last.
    """
    mean = _mean(rows)
    cells = {name: parts for name in mean if (parts := _component_metric(name))}
    texts = [f"{name} {_number(mean[name], '.3g')}" for name in mean if name not in cells]
    shown = [Text(text, no_wrap=True) for text in texts]
    if shown:
        shown[0].stylize("bold")
    whole = Columns(shown, padding=(0, 2))
    if not cells:
        return whole
    kinds = dict.fromkeys(kind for kind, _ in cells.values())
    logged = dict.fromkeys(component for _, component in cells.values())
    components = [name for name in dict.fromkeys(order) if name in logged]
    components += [name for name in logged if name not in order]
    return Group(whole, _component_table(mean, list(kinds), components))


def _component_table(
    mean: Mapping[str, float], kinds: Sequence[str], components: Sequence[str]
) -> Table:
    table = Table("", box=None, pad_edge=False)
    for kind in kinds:
        table.add_column(kind.replace("_", " "), justify="right")
    for component in components[:MAX_ROWS]:
        values = [mean.get(f"{kind}/{component}") for kind in kinds]
        table.add_row(Text(component), *("" if x is None else _number(x, ".3f") for x in values))
    if len(components) > MAX_ROWS:
        table.add_row(Text(f"and {len(components) - MAX_ROWS} more", style="dim"))
    return table


def _component_metric(name: str) -> tuple[str, str] | None:
    """Kind and component of a metric, or None if it belongs to the whole run."""
    kind, slash, component = name.partition("/")
    return (kind, component) if slash and kind not in NOT_PER_COMPONENT else None


def _mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def _number(value: float, form: str) -> str:
    """A metric as text; a dash before there is one: a return needs an episode that has ended."""
    return "-" if math.isnan(value) else format(value, form)


def _short(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def _duration(seconds: float) -> str:
    """A time as h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
