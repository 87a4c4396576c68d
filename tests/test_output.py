"""What the command line prints into: pipes that are closed, terminals that know few letters."""

import os
import subprocess
import sys

import pytest

COMMANDS = {0: ["envs"], 1: ["evaluate", "/nowhere"]}  # by exit code


@pytest.mark.parametrize("code", COMMANDS)
def test_a_terminal_that_knows_only_plain_letters(code):
    plain = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "dusdi", *COMMANDS[code]]
    result = subprocess.run(command, capture_output=True, text=True, env=plain)
    assert result.returncode == code and "Traceback" not in result.stderr
    assert "should not have happened" not in result.stderr


@pytest.mark.parametrize("code", COMMANDS)
def test_output_that_is_closed(code):
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "dusdi", *COMMANDS[code]]
    result = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    assert result.returncode == code and "Traceback" not in result.stderr
    assert "should not have happened" not in result.stderr
