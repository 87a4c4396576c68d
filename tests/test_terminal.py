"""Every command in a terminal: nothing crashes, and what a person sees is readable at any width."""

import os
import re
import sys
import time

import pytest
from rich.console import Console
from terminal import Terminal, python

import dusdi
from dusdi import progress

COMMANDS = """
import sys
from pathlib import Path
from dusdi.cli import main

def run(*words):
    print("$ dusdi", *words, flush=True)
    code = main([str(word) for word in words])
    print("exit code", code, flush=True)

debug = ["--preset", "debug"]
run("envs")
run("pretrain", "gunner-2d", *debug, "--steps", "640", "--out", "g")
run("pretrain", "multi-particle", *debug, "--steps", "640", "--out", "p", "--seeds", "2")
run("pretrain", "gunner-2d", *debug, "--steps", "640", "--method", "diayn", "--out", "d")
run("pretrain", "gunner-2d", *debug, "--steps", "640", "--skill-kind", "continuous", "--out", "c")
run("downstream", "g", "gunner-2d/unlimited", *debug, "--steps", "4000", "--out", "t1")
run("downstream", "p", "multi-particle/food-poison-easy", *debug, "--steps", "4000", "--out", "t2")
run("evaluate", "g", "--steps", "2000")
run("evaluate", "t1", "--episodes", "2")
run("render", "g", "--out", "g.gif", "--count", "1")
run("info", "g")
run("compare", "g", "d", "c", "--out", "compare.png")
run("reproduce", "fig3", *debug, "--steps", "640", "--seeds", "1", "--worlds", "gunner-2d", "--out", "results", "--runs", "runs")
run("pretrain", "gunner-2d", "--alhpa", "1")
"""


@pytest.mark.parametrize(("width", "colour"), [(60, False), (80, True), (120, True)])
def test_every_command_works_in_a_terminal(tmp_path, width, colour):
    terminal = python(
        COMMANDS, width=width, cwd=tmp_path, environment={} if colour else {"NO_COLOR": "1"}
    )
    raw = terminal.read(seconds=600)
    lines = terminal.lines()
    text = "\n".join(lines)
    assert terminal.process.returncode == 0 and "Traceback" not in text, text
    codes = [line for line in lines if line.startswith("exit code")]
    assert codes == ["exit code 0"] * (len(codes) - 1) + ["exit code 2"], text
    assert all(len(line) <= width for line in lines)
    assert bool(re.search(rb"\x1b\[(\d+;)*(3[0-7]|38;5;\d+)m", raw)) == colour
    bars = [line for line in lines if re.search(r"640/640 steps", line)]
    assert len(bars) >= 4 and all("━" in line and "done" in line for line in bars), text
    assert re.search(r"^agent position +[\d.]+ +[\d.]+ +-?[\d.]+$", text, re.M), (
        text
    )  # a row of the table
    assert re.search(r"^station 0 +-?[\d.]+$", text, re.M), text  # a return for each channel
    assert "did you mean --alpha" in text


def test_the_bar_tells_rate_and_time_left(tmp_path):
    command = [
        sys.executable,
        "-m",
        "dusdi",
        "pretrain",
        "gunner-2d",
        "--preset",
        "debug",
        "--steps",
        "400000",
    ]
    terminal = Terminal([*command, "--out", str(tmp_path / "run")], cwd=tmp_path)
    terminal.read(until=b"accuracy from other factors")
    text = "\n".join(terminal.lines())
    assert re.search(r"━ +[\d,]+/400,000 steps [\d,]+/s \d:\d\d:\d\d left", text), text
    terminal.interrupt()
    terminal.read()
    assert terminal.process.returncode == 130 and "stopped at step" in "\n".join(terminal.lines())


def test_ctrl_c_twice_saves_and_says_so_once(tmp_path):
    command = [
        sys.executable,
        "-m",
        "dusdi",
        "pretrain",
        "gunner-2d",
        "--preset",
        "debug",
        "--steps",
        "400000",
    ]
    terminal = Terminal([*command, "--out", str(tmp_path / "run")], cwd=tmp_path)
    terminal.read(until=b"accuracy")
    terminal.interrupt()
    terminal.interrupt()
    terminal.read()
    text = "\n".join(terminal.lines())
    assert terminal.process.returncode == 130 and "Traceback" not in text
    assert len(re.findall("stopped at step", text)) == 1
    assert dusdi.load(tmp_path / "run").step > 0


def test_a_closed_terminal_saves(tmp_path):
    command = [
        sys.executable,
        "-m",
        "dusdi",
        "pretrain",
        "gunner-2d",
        "--preset",
        "debug",
        "--steps",
        "400000",
    ]
    terminal = Terminal(
        [*command, "--out", str(tmp_path / "run"), "--checkpoint-every", "400000"], cwd=tmp_path
    )
    terminal.read(until=b"accuracy")
    terminal.close()
    assert terminal.process.wait(60) == 130
    assert dusdi.load(tmp_path / "run").step > 0


@pytest.mark.parametrize("after", [0.02, 0.06, 0.1, 0.2, 0.4])
def test_ctrl_c_while_python_imports_is_no_traceback(tmp_path, after):
    command = "from dusdi_command import main; import sys; sys.argv = ['dusdi', 'envs']; print('up', flush=True); main()"
    terminal = python(command, cwd=tmp_path)
    terminal.read(until=b"up")
    time.sleep(after)
    terminal.interrupt()
    terminal.read()
    assert terminal.process.returncode == 130 and terminal.lines() == ["up", "dusdi: interrupted"]


# --- the display itself ---


def show(rows, width=80):
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(progress._metrics(rows))
    return capture.get()


def test_metrics_of_a_task_with_one_channel_stand_side_by_side():
    text = show([{"return": 19.5, "episodes": 4.0, "loss/policy": 0.1, "entropy": 3.0}], width=60)
    assert text.splitlines()[0].split() == [
        "return",
        "19.5",
        "episodes",
        "4",
        "loss/policy",
        "0.1",
        "entropy",
        "3",
    ]


def test_names_are_not_read_as_markup_and_metrics_are_averaged_over_seeds():
    rows = [{"accuracy": 0.2, "accuracy/[/x]": 0.2}, {"accuracy": 0.4, "accuracy/[/x]": 0.4}]
    text = show(rows)
    assert "accuracy 0.3" in text and re.search(r"\[/x\] +0\.300", text)


def test_a_factor_may_be_called_not_another():
    text = show(
        [
            {
                "accuracy/a": 0.1,
                "accuracy/not a": 0.2,
                "penalty_accuracy/a": 0.3,
                "penalty_accuracy/not a": 0.4,
            }
        ]
    )
    assert re.search(r"^a +0\.100 +0\.300", text, re.M) and re.search(
        r"^not a +0\.200 +0\.400", text, re.M
    )


def test_the_rate_is_that_of_the_last_seconds(monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    display = progress.Progress("x", 100_000)
    for second in range(1, 100):  # 1,000 steps a second, then 2
        clock[0] = second
        display.advance(1_000 * second if second < 24 else 24_000 + 2 * (second - 24))
    assert display._task.fields["rate"] == "2/s" and display._task.fields["left"].startswith("10:")
    display.note("compiling")
    clock[0] += 60.0  # which does not count
    display.advance(24_200)
    assert display._task.fields["rate"] == "compiling"
    clock[0] += 1.0
    display.advance(24_700)
    assert display._task.fields["rate"] == "500/s"


def test_what_ends_early_is_done(capsys):
    with progress.Progress("x", 100) as display:
        display.advance(10)
    assert display._task.fields["left"] == "done" and display._task.finished


def test_a_display_falls_silent_when_its_output_is_gone():
    display = progress.Progress("x", 100)
    reading, writing = os.pipe()
    os.close(reading)
    display._console.file = os.fdopen(writing, "w", buffering=1)
    display._next_line = 0.0
    display.advance(50)
    display.advance(60)
    assert display._console.quiet
