"""Checks of what users ask for, before any compute is spent."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from dusdi.errors import UsageError

MOST = 100_000_000  # steps, episodes or skills to measure


def check_numbers(*, seed: int, **counts: int) -> None:
    """Raises a `UsageError` for a seed that random generators don't take, or a count of nothing."""
    if not 0 <= seed < 2**31:
        raise UsageError(f"seed must be from 0 to {2**31 - 1}, not {seed}")
    for name, count in counts.items():
        if not 1 <= count <= MOST:
            raise UsageError(f"{name} must be from 1 to {MOST:,}, not {count:,}")


def check_writable(folder: Path, option: str = "out") -> None:
    """Raises a `UsageError` if files can't be made in a folder that may yet have to be made.

    `option` is what the user chooses the folder by.
    """
    try:
        absolute = folder.absolute()
        place = next(path for path in (absolute, *absolute.parents) if path.exists())
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        advice = f"choose another place with --{option} ({option}=...)"
        raise UsageError(f"can't write into {folder} ({error.strerror}); {advice}") from error


def check_file(out: str | Path, suffixes: Sequence[str]) -> Path:
    """The file to write, or a `UsageError` if it is of no such kind or can't be written."""
    out = Path(out)
    if out.suffix.lower() not in suffixes:
        raise UsageError(f"this is written as {' or '.join(suffixes)}, not as {out.name!r}")
    if out.is_dir():
        raise UsageError(f"{out} is a folder; name a file in it")
    check_writable(out.parent)
    return out
