"""Signals that ask a program to stop: Ctrl-C, `kill`, a closed terminal.

All three mean the same here: save, then stop. A process that was started with a signal ignored (by
`nohup`, or in the background of a shell) goes on ignoring it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: Ctrl-C, `kill` and cluster schedulers, a closed terminal; Windows lacks the last.
STOPPING = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
PATIENCE = 1.0  # seconds in which a second signal counts as part of the first
_interrupted = threading.Event()


@contextmanager
def handling(numbers: list[int], handler: Any) -> Iterator[None]:
    """Sets the handler of these signals for the duration of a block, except of ignored ones.

    Python allows this in the main thread only; in other threads nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    left_alone = (signal.SIG_IGN, None)  # None: a handler that is not Python's
    previous = {number: signal.getsignal(number) for number in numbers}
    previous = {number: old for number, old in previous.items() if old not in left_alone}
    for number in previous:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)


def interrupt(number: int, frame: Any) -> None:
    """A handler that raises a `KeyboardInterrupt`, which `check_interrupted` raises again.

    Other libraries lose one that comes in the middle of their imports or callbacks.
    """
    _interrupted.set()
    raise KeyboardInterrupt


def check_interrupted() -> None:
    """Raises a `KeyboardInterrupt` if `interrupt` has raised one since work began."""
    if _interrupted.is_set():
        raise KeyboardInterrupt


def begin_work() -> None:
    """Forgets what was interrupted before."""
    _interrupted.clear()


@contextmanager
def stoppable(on_signal: Callable[[], None] = lambda: None) -> Iterator[Callable[[], bool]]:
    """Gives a function that says whether a signal came, so that the work can end in good order.

    Ctrl-C is always handled, the other signals where the command line has set a handler. A signal
    that comes more than `PATIENCE` after the first raises a `KeyboardInterrupt` at once.

    Args:
      on_signal: called when the first signal comes.
    """
    began: list[float] = []
    numbers = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_DFL]

    def handler(number, frame):
        if not began:
            began.append(time.monotonic())
            on_signal()
        elif time.monotonic() - began[0] > PATIENCE:
            raise KeyboardInterrupt

    check_interrupted()
    with handling(numbers, handler):
        yield lambda: bool(began)


def leave(number, frame) -> None:
    """A handler that ends the process at once, for the time before any work begins.

    An exception would leave half-imported modules behind, which print tracebacks of their own.
    """
    os.write(2, b"dusdi: interrupted\n")
    os._exit(130)
