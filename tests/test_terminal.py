"""Every command in a terminal: nothing crashes, and what a person sees is readable at any width."""

import re
import sys
import time

import pytest
from terminal import Terminal, python

import dusdi

COMMANDS = """
from dusdi.cli import main

def run(*words):
    print("$ dusdi", *words, flush=True)
    code = main([str(word) for word in words])
    print("exit code", code, flush=True)

debug = ["--preset", "debug"]
"""
#: In a narrow terminal without colours.
ALL = """
run()
run("envs")
run("config", "pretrain", "multi-particle")
run("pretrain", "multi-particle", "--help")
run("pretrain", "gunner-2d", *debug, "--steps", "640", "--out", "g")
run("pretrain", "multi-particle", *debug, "--steps", "640", "--out", "p", "--seeds", "2")
run("pretrain", "gunner-2d", *debug, "--steps", "640", "--method", "diayn", "--out", "d")
run("pretrain", "gunner-2d", *debug, "--steps", "630", "--component", "box:2", "--out", "c")
run("downstream", "g", "gunner-2d/unlimited", *debug, "--steps", "4000", "--out", "t1")
run("downstream", "p", "multi-particle/food-poison-easy", *debug, "--steps", "8000", "--out", "t2")
run("evaluate", "g", "--steps", "2000")
run("evaluate", "t1", "--episodes", "2")
run("render", "g", "--out", "g.gif", "--count", "1")
run("info", "g")
run("compare", "g", "d", "c", "--out", "compare.png")
small = ["--steps", "640", "--seeds", "1", "--worlds", "gunner-2d"]
run("reproduce", "fig3", *debug, *small, "--out", "results", "--runs", "runs")
run("pretrain", "gunner-2d", "--alhpa", "1")
"""
#: Then in a wide one with colours.
SOME = """
run()
run("envs")
run("config", "pretrain", "multi-particle")
run("pretrain", "gunner-2d", *debug, "--steps", "630", "--component", "box:2", "--out", "c2")
run("downstream", "p", "multi-particle/food-poison-easy", *debug, "--steps", "8000", "--out", "t3")
run("evaluate", "t1", "--episodes", "2")
run("info", "g")
run("compare", "g", "d", "c", "--out", "compare.png")
run("pretrain", "gunner-2d", "--alhpa", "1")
"""


def test_every_command_works_in_a_terminal(tmp_path):
    """A wide terminal with colours then shows the runs that were made in a narrow one without."""
    text = check_every_command(tmp_path, ALL, bars=4, width=60, colour=False)
    # a row of the table of components
    assert re.search(r"^agent position +[\d.]+ +[\d.]+ +-?[\d.]+$", text, re.M), text
    check_every_command(tmp_path, SOME, bars=1, width=120, colour=True)


def check_every_command(folder, runs, *, bars, width, colour):
    code = COMMANDS + runs
    environment = {} if colour else {"NO_COLOR": "1"}
    terminal = python(code, width=width, cwd=folder, environment=environment)
    raw = terminal.read(seconds=600)
    lines = terminal.lines()
    text = "\n".join(lines)
    assert terminal.process.returncode == 0 and "Traceback" not in text, text
    codes = [line for line in lines if line.startswith("exit code")]
    assert codes == ["exit code 0"] * (len(codes) - 1) + ["exit code 2"], text
    assert len(codes) == code.count("\nrun("), text
    assert all(len(line) <= width for line in lines)
    assert bool(re.search(rb"\x1b\[(\d+;)*(3[0-7]|38;5;\d+)m", raw)) == colour
    done = [line for line in lines if re.search(r"640/640 steps", line)]
    assert len(done) >= bars and all("━" in line and "done" in line for line in done), text
    assert re.search(r"^station 0 +-?[\d.]+$", text, re.M), text  # a return for each channel
    assert "630 steps are rounded up to 640" in text
    assert "did you mean --alpha" in text and "--help" in text  # words stay whole
    return text


def long_run(folder, *options):
    """Training in a terminal that takes longer than any test waits."""
    command = [sys.executable, "-m", "dusdi", "pretrain", "gunner-2d"]
    command += ["--preset", "debug", "--steps", "400000", "--out", str(folder / "run")]
    return Terminal([*command, *options], cwd=folder)


def test_the_bar_shows_rate_and_time_left(tmp_path):
    terminal = long_run(tmp_path)
    terminal.read(until=b"penalty accuracy")
    text = "\n".join(terminal.lines())
    assert re.search(r"━ +[\d,]+/400,000 steps [\d,]+/s \d:\d\d:\d\d left", text), text
    terminal.interrupt()
    terminal.read()
    assert terminal.process.returncode == 130 and "stopped at step" in "\n".join(terminal.lines())


def test_ctrl_c_twice_saves_and_says_so_once(tmp_path):
    terminal = long_run(tmp_path)
    terminal.read(until=b"accuracy")
    terminal.interrupt()
    terminal.interrupt()
    terminal.read()
    text = "\n".join(terminal.lines())
    assert terminal.process.returncode == 130 and "Traceback" not in text
    assert len(re.findall("stopped at step", text)) == 1
    assert dusdi.load(tmp_path / "run").step > 0


def test_a_closed_terminal_saves(tmp_path):
    terminal = long_run(tmp_path, "--checkpoint-every", "400000")
    terminal.read(until=b"accuracy")
    terminal.close()
    assert terminal.process.wait(60) == 130
    assert dusdi.load(tmp_path / "run").step > 0


IMPORT_THEN_RUN = """
import sys
from dusdi_command import main

sys.argv = ["dusdi", "envs"]
print("up", flush=True)
main()
"""


@pytest.mark.parametrize("after", [0.02, 0.06, 0.1, 0.2, 0.4])
def test_ctrl_c_while_python_imports_is_no_traceback(tmp_path, after):
    terminal = python(IMPORT_THEN_RUN, cwd=tmp_path)
    terminal.read(until=b"up")
    time.sleep(after)
    terminal.interrupt()
    terminal.read()
    lines = terminal.lines()  # a quick machine may have begun with the list of worlds
    assert terminal.process.returncode == 130 and lines[-1] == "dusdi: interrupted"
    assert "Traceback" not in "\n".join(lines)
