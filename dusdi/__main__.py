"""The `dusdi` command, from the first moment on: Ctrl-C while Python still imports ends it without a word too many."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Runs the command line as a process of its own."""
    signal.signal(signal.SIGINT, _leave)
    from dusdi.cli import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = run()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done, and what is left is to end
    sys.exit(code)


def _leave(number, frame) -> None:
    """Nothing was begun yet, and modules that are half imported can't be left in good order."""
    os.write(2, b"dusdi: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
