"""The `dusdi` command. Ctrl-C ends it without a traceback, also while Python imports the package.

This lies outside the package, since importing anything of a package imports the package first.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Runs the command line as a process of its own."""
    # In the background of a shell Ctrl-C is ignored, and stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    _repair_output()
    from dusdi.cli import main as run

    code = run()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the work is done, and Python is shutting down
    sys.exit(code)


def _leave(number, frame) -> None:
    os.write(2, b"dusdi: interrupted\n")
    os._exit(130)


def _repair_output() -> None:
    """Replaces closed output by one that discards, and makes output replace unknown characters."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
