"""A real pseudo-terminal for the tests: what a person would see, read off an emulated screen."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pyte


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, command, *, width=80, height=50, environment=None, cwd=None):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        unset = ("COLUMNS", "LINES", "NO_COLOR")
        variables = {name: value for name, value in os.environ.items() if name not in unset}
        variables |= {"TERM": "xterm-256color"} | (environment or {})
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=variables,
            cwd=cwd,
            start_new_session=True,
        )
        os.close(theirs)
        self._file = ours
        self.raw = b""
        self._screen = pyte.HistoryScreen(width, height, history=10_000)
        self._stream = pyte.ByteStream(self._screen)

    def read(self, until=None, seconds=120.0):
        """Reads until the command ends, or until this text appears; gives all output so far."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if until is not None and until in self.raw:
                return self.raw
            if select.select([self._file], [], [], 0.05)[0]:
                try:
                    data = os.read(self._file, 65536)
                except OSError:  # how Linux says that the other side is closed
                    data = b""
                if not data:
                    break
                self.raw += data
                self._stream.feed(data)
            elif self.process.poll() is not None:
                break
        if until is None:
            self.process.wait(seconds)
        return self.raw

    def lines(self):
        """The lines on the screen and above it, without blank ones."""
        columns = range(self._screen.columns)
        above = ["".join(row[i].data for i in columns) for row in self._screen.history.top]
        return [line.rstrip() for line in [*above, *self._screen.display] if line.strip()]

    def interrupt(self):
        """Presses Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)

    def close(self):
        """Closes the window: the command gets SIGHUP, and its output goes nowhere."""
        os.close(self._file)
        os.killpg(self.process.pid, signal.SIGHUP)


def python(code, **options):
    """A Python program in a terminal."""
    return Terminal([sys.executable, "-c", code], **options)
