"""The `dusdi` command, from the first moment on: Ctrl-C while Python imports the package ends it without a traceback.

This lies outside the package, since importing anything of a package imports the package first.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Runs the command line as a process of its own."""
    if (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):  # in the background of a shell it is ignored
        signal.signal(signal.SIGINT, _leave)
    _mend_output()
    from dusdi.cli import main as run

    code = run()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done, and what is left is to end
    sys.exit(code)


def _leave(number, frame) -> None:
    os.write(2, b"dusdi: interrupted\n")
    os._exit(130)


def _mend_output() -> None:
    """Has output that is closed go nowhere, and letters that it does not know be replaced."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
