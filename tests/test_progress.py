"""What people see of work in progress: metrics and rates."""

import math
import os
import re
import signal
from collections import deque
from contextlib import suppress

import pytest
from rich.console import Console

from dusdi import progress
from dusdi.progress import Silent
from dusdi.signals import STOPPING, begin_work, handling, interrupt, stoppable


def show(rows, width=80, order=()):
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(progress.metrics_view(rows, order))
    return capture.get()


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set: its first element is the time in seconds."""
    seconds = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: seconds[0])
    return seconds


# --- metrics ---


def test_metrics_of_the_whole_run_stand_side_by_side():
    text = show([{"return": 19.5, "episodes": 4.0, "loss/policy": 0.1, "entropy": 3.0}], width=60)
    words = ["return", "19.5", "episodes", "4", "loss/policy", "0.1", "entropy", "3"]
    assert text.split() == words


def test_metrics_are_averaged_over_seeds_and_names_are_not_read_as_markup():
    rows = [{"accuracy": 0.2, "accuracy/[/x]": 0.2}, {"accuracy": 0.4, "accuracy/[/x]": 0.4}]
    text = show(rows)
    assert "accuracy 0.3" in text and re.search(r"\[/x\] +0\.300", text)


def test_every_kind_of_metric_has_a_column_and_every_component_a_row():
    text = show([{"distance": 2.0, "distance/a": 1.0, "distance/b": 3.0, "dual_weight/b": 0.5}])
    assert [line.split() for line in text.splitlines()] == [
        ["distance", "2"],
        ["distance", "dual", "weight"],
        ["a", "1.000"],
        ["b", "3.000", "0.500"],
    ]


def test_a_return_before_an_episode_has_ended_is_a_dash():
    text = show([{"return": math.nan, "episodes": 0.0, "return/a": math.nan}])
    assert [line.split() for line in text.splitlines()] == [
        ["return", "-", "episodes", "0"],
        ["return"],
        ["a", "-"],
    ]


def test_components_are_listed_in_the_given_order_and_others_after_them():
    row = {f"accuracy/{name}": 0.1 for name in ("ammo", "new", "position", "target")}
    lines = show([row], order=["position", "arm", "target", "ammo"]).splitlines()
    assert [line.split()[0] for line in lines[-4:]] == ["position", "target", "ammo", "new"]


def test_a_channel_with_the_name_of_a_component_has_one_row():
    row = {"return/ammo": 1.0, "return/target": 2.0}
    lines = show([row], order=["ammo", "target", "ammo", "target"]).splitlines()
    assert [line.split() for line in lines[-2:]] == [["ammo", "1.000"], ["target", "2.000"]]
    assert len([line for line in lines if line.strip()]) == 3


def test_components_that_do_not_fit_on_a_screen_are_counted():
    lines = show([{f"accuracy/{i:02d}": 0.5 for i in range(23)}]).splitlines()
    assert lines[-2].split() == ["19", "0.500"]
    assert lines[-1].strip() == "and 3 more"


def test_a_component_may_be_called_not_another():
    row = {"accuracy/a": 0.1, "accuracy/not a": 0.2}
    row |= {"penalty_accuracy/a": 0.3, "penalty_accuracy/not a": 0.4}
    text = show([row])
    assert re.search(r"^a +0\.100 +0\.300", text, re.M)
    assert re.search(r"^not a +0\.200 +0\.400", text, re.M)


# --- the display ---


def test_the_rate_is_that_of_the_last_seconds(clock):
    display = progress.Progress("x", 100_000)
    for second in range(1, 100):  # 1,000 steps a second, then 2
        clock[0] = second
        display.advance(1_000 * second if second < 24 else 24_000 + 2 * (second - 24))
    assert display._task.fields["rate"] == "2/s"
    assert display._task.fields["left"] == "10:32:05 left"  # of 75,850 steps
    display.note("compiling")
    clock[0] += 60.0  # which does not count
    display.advance(24_200)
    assert display._task.fields["rate"] == "compiling"
    clock[0] += 1.0
    display.advance(24_700)
    assert display._task.fields["rate"] == "500/s"


def test_a_log_file_gets_a_line_every_ten_seconds_and_at_the_end(clock, capsys):
    with progress.Progress("title", 1_000) as display:
        for second in range(1, 20):
            clock[0] = second
            display.advance(10 * second)
        display.message("a sentence")
        display.log(1_000, [{"return": math.nan, "return/a": math.nan, "loss": 2.0}])
    lines = [line.rstrip() for line in capsys.readouterr().err.splitlines()]
    assert lines == [
        "title: 30/1,000 steps  0:01:37 left",
        "title: 140/1,000 steps  0:01:26 left",
        "a sentence",
        "title: 1,000/1,000 steps  return -  loss 2  done",
    ]


def test_what_ends_early_is_done():
    with progress.Progress("x", 100) as display:
        display.advance(10)
    assert display._task.fields["left"] == "done" and display._task.finished


def test_a_display_shows_nothing_any_more_when_its_output_is_closed():
    display = progress.Progress("x", 100)
    reading, writing = os.pipe()
    os.close(reading)
    display._console.file = os.fdopen(writing, "w", buffering=1)
    display._next_line = 0.0
    display.advance(50)
    display.advance(60)
    display.message("hello")
    assert display._console.quiet


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0:00:00"), (59.6, "0:01:00"), (3_725, "1:02:05")]
)
def test_durations(seconds, text):
    assert progress._duration(seconds) == text


def test_a_signal_may_come_while_the_rate_is_worked_out(clock):
    display = progress.Progress("x", 100)

    class Marks(deque):
        """A signal comes after every look at how many there are."""

        def __len__(self):
            count = super().__len__()
            display.note("stopping")
            return count

    for second in range(1, 4):
        clock[0] = second
        display._marks = Marks([(0.0, 0), (second / 2, 5)])
        display.advance(10 * second)
        assert display._task.fields["rate"] == "stopping"
        display._marks = Marks([(0.0, 0), (2.0, 5)])
        assert display._rate() == 2.5


# --- interrupts that other code swallows ---


@pytest.mark.parametrize("go_on", [lambda: Silent().advance(1), lambda: stoppable().__enter__()])
def test_an_interrupt_that_another_library_has_lost_is_raised_again(go_on):
    begin_work()
    with handling(STOPPING, interrupt):
        with suppress(BaseException):  # as callbacks and imports of other libraries do
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            go_on()
    begin_work()
    Silent().advance(1)
