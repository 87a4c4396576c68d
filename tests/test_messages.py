"""Sentences on standard error."""

import io
import warnings

import pytest

from dusdi.messages import PACKAGE, plain_warnings, say, wrap


class TerminalStream(io.StringIO):
    """Text output that claims to be a terminal."""

    def isatty(self):
        return True


def test_lines_are_wrapped_at_words():
    """Paths, however long, and the code in a traceback stay whole."""
    text = "one two three four\n    code that is indented\n\n/a/very/long/path is"
    lines = ["one two", "three four", "    code that is indented", "", "/a/very/long/path", "is"]
    assert wrap(text, 10).split("\n") == lines


def test_messages_are_wrapped_on_terminals_only(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")
    message = "dusdi: there is no such option here"
    terminal = TerminalStream()
    say(message, terminal)
    assert terminal.getvalue() == "dusdi: there is no\nsuch option here\n"
    file = io.StringIO()
    say(message, file)
    assert file.getvalue() == message + "\n"


def test_messages_go_to_standard_error(capsys):
    say("hello")
    assert capsys.readouterr().err == "hello\n"


def test_only_warnings_of_the_package_are_shown_as_its_own(capsys):
    """A folder that is called dusdi may hold a clone and its environment."""
    with pytest.warns(UserWarning, match="theirs"), plain_warnings():
        warnings.warn_explicit("theirs", UserWarning, "/home/me/dusdi/.venv/numpy/core.py", 1)
        warnings.warn_explicit("ours", UserWarning, str(PACKAGE / "envs" / "base.py"), 1)
    assert capsys.readouterr().err == "dusdi: warning: ours\n"
