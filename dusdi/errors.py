"""Errors meant for people: each says what was wrong, what was expected and what to do.

Python users can catch `DusdiError`. For whatever went wrong, the command line prints one sentence,
made by `explain`.
"""

from __future__ import annotations

import difflib
import os
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path


class DusdiError(Exception):
    """Base of every error this package raises on purpose."""


class UsageError(DusdiError, ValueError):
    """A request that can't be met: an unknown name, a bad value, a world that does not fit."""


class WorldError(DusdiError, ValueError):
    """A world that breaks its contract, for instance by a non-finite observation."""


class CheckpointError(DusdiError):
    """A checkpoint that is missing, damaged or does not belong to this run."""


class StorageError(DusdiError):
    """A file or folder that can't be written."""


class NonFiniteError(DusdiError, ArithmeticError):
    """Training produced a NaN or an infinity."""


def unknown_name(kind: str, name: str, valid: Iterable[str]) -> UsageError:
    """The error for a mistyped name, with the nearest valid ones first."""
    valid = sorted(valid)
    near = difflib.get_close_matches(name, valid, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose from: {', '.join(valid)}"
    return UsageError(f"unknown {kind} {name!r}; {hint}")


def missing_run(path: Path) -> CheckpointError:
    """The error for a run that is not there, with the nearest name beside it."""
    beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.5)
    hint = f"; did you mean {path.with_name(near[0])}?" if near else ""
    return CheckpointError(f"{path} holds no run: it does not exist{hint}")


def explain(error: BaseException) -> str:
    """What went wrong, in a sentence.

    If the user's own code failed, its part of the traceback follows.
    """
    own = own_traceback(error)
    below = f"\n\n{own}" if own else ""
    if isinstance(error, DusdiError):
        return f"{error}{below}"
    if isinstance(error, OSError) and not own:
        return explain_os(error)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return (
            "there is not enough memory for this; try fewer environments (num_envs), "
            "smaller networks or a smaller replay_capacity"
        )
    if isinstance(error, RecursionError) and not own:
        return "something is nested too deeply: a path of too many folders, or lists within lists"
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if own:
        return f"your code failed with {what}{below}"
    return f"this should not have happened: {what}; please report it with what --debug prints"


def explain_os(error: OSError) -> str:
    """What the operating system refused, and where."""
    reason = error.strerror or str(error) or type(error).__name__
    names = (error.filename, error.filename2)
    paths = [os.fspath(name) for name in names if isinstance(name, str | os.PathLike)]
    if not paths:
        return f"the operating system refused: {reason}"
    return f"can't read or write {paths[-1]}: {reason}"


def own_traceback(error: BaseException) -> str:
    """The traceback from the first of the user's own files on; empty if none is in it."""
    for found in (error.__cause__, error):
        if found is None:
            continue
        frames = traceback.extract_tb(found.__traceback__)
        own = [index for index, frame in enumerate(frames) if not _is_library(frame.filename)]
        if own:
            lines = traceback.format_list(frames[own[0] :])
            lines += traceback.format_exception_only(found)
            return "Traceback (in your code):\n" + "".join(lines).rstrip()
        if isinstance(found, SyntaxError) and found.filename and not _is_library(found.filename):
            return "".join(traceback.format_exception_only(found)).rstrip()
    return ""


def _is_library(filename: str) -> bool:
    """Whether a file belongs to this package, to Python or to an installed package."""
    path = os.path.abspath(filename)
    # Code without a file, as in the import system and in compiled extensions.
    if filename.startswith("<") or not os.path.exists(path):
        return True
    if {"site-packages", "dist-packages"} & set(path.split(os.sep)):
        return True
    if os.path.dirname(path) == sysconfig.get_path("scripts"):
        return True
    folders = [os.path.dirname(os.path.abspath(__file__))]
    folders += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return any(path.startswith(folder + os.sep) for folder in folders)
