"""Signals that ask a program to stop: Ctrl-C, `kill`, a closed terminal.

All three mean the same here: save, then stop. What was started with a signal ignored (by `nohup`, or in the background of a
shell) goes on ignoring it.
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
PATIENCE = 1.0  # seconds in which a second signal is taken for the same wish to stop


@contextmanager
def handling(numbers: list[int], handler: Any) -> Iterator[None]:
    """Has signals handled so for a while, but for those that are ignored.

    Only the main thread may say so; in others nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    unheard = (signal.SIG_IGN, None)  # None: a handler that is not Python's
    previous = {number: signal.getsignal(number) for number in numbers}
    previous = {number: old for number, old in previous.items() if old not in unheard}
    for number in previous:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)


@contextmanager
def stoppable(told: Callable[[], None] = lambda: None) -> Iterator[Callable[[], bool]]:
    """Turns the signals that somebody listens to into a flag, which the function it gives tells, so that work ends well.

    Ctrl-C is always listened to, the others where the command line has asked to. Whoever insists, after `PATIENCE`, interrupts
    at once. `told` is called with the first signal.
    """
    began: list[float] = []
    numbers = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_DFL]

    def handler(number, frame):
        if not began:
            began.append(time.monotonic())
            told()
        elif time.monotonic() - began[0] > PATIENCE:
            raise KeyboardInterrupt

    with handling(numbers, handler):
        yield lambda: bool(began)


def leave(number, frame) -> None:
    """Ends the process at once, while nothing was begun: modules that are half imported can't be left in good order."""
    os.write(2, b"dusdi: interrupted\n")
    os._exit(130)
