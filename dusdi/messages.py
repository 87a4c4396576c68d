"""Sentences on standard error: messages, errors, and dusdi's warnings."""

from __future__ import annotations

import sys
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from rich.console import Console

PACKAGE = Path(__file__).resolve().parent


def say(text: str, stream: TextIO | None = None) -> None:
    """Prints a message, on standard error by default, wrapped at words if that is a terminal."""
    stream = sys.stderr if stream is None else stream
    console = Console(file=stream)
    print(wrap(text, console.width) if console.is_terminal else text, file=stream, flush=True)


def say_error(text: str) -> None:
    """Prints what went wrong on standard error."""
    with suppress(OSError):  # the terminal may be gone
        say(f"dusdi: {text}")


def wrap(text: str, width: int) -> str:
    """The text with its lines wrapped at words.

    Indented lines (the code in a traceback) and words longer than a line (paths) stay whole.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        if len(line) <= width or line[0].isspace():
            lines.append(line)
        else:
            lines += textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


class PlainWarnings:
    """Shows dusdi's warnings as sentences, each once, without the line of code they come from.

    To be set as `warnings.showwarning`.
    """

    def __init__(self):
        self._usual = warnings.showwarning
        self._shown: set[str] = set()

    def __call__(self, message, category, filename, lineno, file=None, line=None):
        if str(message) in self._shown:
            return
        self._shown.add(str(message))
        if issubclass(category, UserWarning) and PACKAGE in Path(filename).resolve().parents:
            say_error(f"warning: {message}")
        else:
            self._usual(message, category, filename, lineno, file, line)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Shows dusdi's warnings as sentences, here and in workers."""
    with warnings.catch_warnings():
        warnings.showwarning = PlainWarnings()
        yield
