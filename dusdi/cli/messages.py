"""What commands say: errors and warnings as sentences, and tables that fit the terminal."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console

from dusdi.progress import say

WIDTH_OF_FILES = 140  # of tables where the output is not a terminal


def say_error(text: str) -> None:
    """Prints what went wrong on standard error."""
    with suppress(OSError):  # the terminal may be gone
        say(f"dusdi: {text}")


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Shows dusdi's warnings as sentences, each once, without the line of code they come from."""
    usual = warnings.showwarning
    shown = set()

    def show(message, category, filename, lineno, file=None, line=None):
        if str(message) in shown:
            return
        shown.add(str(message))
        if issubclass(category, UserWarning) and "dusdi" in Path(filename).parts:
            say_error(f"warning: {message}")
        else:
            usual(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def console() -> Console:
    """A console for tables, which are as wide as the terminal if there is one."""
    return Console() if sys.stdout.isatty() else Console(width=WIDTH_OF_FILES)
