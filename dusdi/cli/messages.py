"""How commands say things: warnings as sentences, and tables that fit the terminal."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from dusdi.progress import PlainWarnings

WIDTH_OF_FILES = 140  # of tables where the output is not a terminal


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Shows dusdi's warnings as sentences, here and in workers."""
    with warnings.catch_warnings():
        warnings.showwarning = PlainWarnings()
        yield


def console() -> Console:
    """A console for tables, which are as wide as the terminal if there is one."""
    return Console() if sys.stdout.isatty() else Console(width=WIDTH_OF_FILES)
