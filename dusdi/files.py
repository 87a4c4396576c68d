"""Writing files so that they appear whole or not at all, and never through a symbolic link.

A run's folder may come from somebody else: a link planted there must not make us write over the
file that it points to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

#: Where the files are that descriptions of runs name by their digests.
_BY_DIGEST: dict[str, Path] = {}
PARTIAL = ".partial"  # part of the names of unfinished files


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a temporary file that replaces `path` when the block ends without an error.

    It lies in the same folder, which is made if need be, and has the same suffix. If there is a
    link at `path`, the link is replaced and the file that it points to stays as it is.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.{os.getpid()}{PARTIAL}{path.suffix}")
    with suppress(FileNotFoundError):
        partial.unlink()  # left by a process that was killed, or a link
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
            error.filename = str(path)  # messages should name the file that the user knows
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
    """Whether a name is that of an unfinished file whose writing process has ended."""
    found = re.fullmatch(rf"\..*\.(\d{{1,9}}){re.escape(PARTIAL)}(\.\w+)?", name)
    if found is None:
        return False
    process = int(found[1])
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return process == os.getpid()  # an earlier process had the number of this one


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock (`flock`) of a file; False if that can't be known.

    To find out, the lock is taken and released at once. A process that asks for it in this very
    moment without waiting would be refused.
    """
    if fcntl is None:
        return False
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is no such file, or the file system has no locks
        return False
    return False


def append(path: Path) -> IO[str]:
    """Opens a text file to add lines to it; a link is refused."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)

    return open(path, "a", newline="", encoding="utf-8", opener=opener)


def remember(digest: str, path: Path) -> None:
    """Notes where a file is that a description names by its digest; what is not there is not."""
    if path.exists():
        _BY_DIGEST[digest] = path


def remembered(digest: str) -> Path | None:
    """Where the file with that digest is, if a run that carries it was loaded."""
    return _BY_DIGEST.get(digest)
