"""What the command line prints into: pipes that are closed, terminals that know few letters."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from dusdi.cli import main
from dusdi.errors import own_traceback

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


def test_a_users_code_that_ends_the_program_is_said_to(tmp_path, monkeypatch, capsys):
    (tmp_path / "leaves.py").write_text("import sys\ndef make(): sys.exit(7)\n")
    monkeypatch.chdir(tmp_path)
    assert main(["pretrain", "./leaves.py:make", "--factor", "a=0"]) == 1
    assert "your code ended the program, by SystemExit(7)" in capsys.readouterr().err


def test_errors_in_compiled_extensions_are_not_called_the_users():
    with pytest.raises(ValueError) as caught:  # in numpy/random/_generator.pyx
        np.random.default_rng(0).choice(3, p=[0.5, 0.1, 0.1])
    first = re.findall(
        r'File "([^"]+)"',
        own_traceback(caught.value.with_traceback(caught.value.__traceback__.tb_next)),
    )
    assert first == []
