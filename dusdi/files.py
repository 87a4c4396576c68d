"""Writing files so that they appear whole or not at all, and never through a symbolic link.

A run's folder may come from somebody else: a link planted there must not make us write over its target.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

PARTIAL = ".partial"  # how names of unfinished files end


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside `path`, with the same suffix, that takes its place once the block is done without an error.

    The folder is made if need be. What is at `path` is replaced, also if it is a link, whose target stays as it is.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.{os.getpid()}{PARTIAL}{path.suffix}")
    with suppress(FileNotFoundError):
        partial.unlink()  # of a process that was killed, or a link
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        mode = partial.stat().st_mode & 0o777  # what the user's umask allows
        yield partial
        partial.chmod(mode)  # a library may have put a private file in its place
        flush(partial)
        os.replace(partial, path)
        flush(path.parent)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError) and error.filename in (None, str(partial)):
            error.filename = str(path)  # the file that people know
        raise


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text file so that it appears whole or not at all."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def flush(path: Path) -> None:
    """Makes sure that a file's or folder's contents are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_abandoned(name: str) -> bool:
    """Whether a file's name is that of an unfinished file of ours, and the process that wrote it is gone."""
    found = re.fullmatch(rf"\..*\.(\d{{1,9}}){re.escape(PARTIAL)}(\.\w+)?", name)
    if found is None:
        return False
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return int(found[1]) == os.getpid()  # of a process that had this number before


def append(path: Path) -> IO[str]:
    """Opens a text file to add lines to it; a link is refused."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)

    return open(path, "a", newline="", encoding="utf-8", opener=opener)
