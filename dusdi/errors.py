"""Errors meant for people: each says what was wrong, what was expected and what to do.

Python users can catch `DusdiError`. The command line prints one sentence for whatever went wrong, made by `explain`.
"""

from __future__ import annotations

import difflib
import os
import sysconfig
import traceback
from collections.abc import Iterable


class DusdiError(Exception):
    """Base of every error this package raises on purpose."""


class UsageError(DusdiError, ValueError):
    """A request that can't be carried out: an unknown name, a bad value, a world that does not fit."""


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


def explain(error: BaseException) -> str:
    """What went wrong, in a sentence; below it the traceback of the user's own code, if that is what failed."""
    own = _own_traceback(error)
    below = f"\n\n{own}" if own else ""
    if isinstance(error, DusdiError):
        return f"{error}{below}"
    if isinstance(error, OSError) and not own:
        return explain_os(error)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return "there is not enough memory for this; try fewer copies (num_envs), smaller networks or a smaller replay_capacity"
    if isinstance(error, RecursionError) and not own:
        return "something is nested too deeply: a path of too many folders, or a list in a list in a list"
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if own:
        return f"your code failed with {what}{below}"
    return f"this should not have happened: {what}; please report it with what --debug prints"


def explain_os(error: OSError) -> str:
    """What the operating system refused, and where."""
    reason = error.strerror or str(error) or type(error).__name__
    paths = [
        os.fspath(path)
        for path in (error.filename, error.filename2)
        if isinstance(path, str | os.PathLike)
    ]
    return (
        f"can't read or write {paths[-1]}: {reason}"
        if paths
        else f"the operating system refused: {reason}"
    )


def _own_traceback(error: BaseException) -> str:
    """The part of a traceback that lies in the user's own files, from the first of them on; empty if there is none."""
    for found in (error.__cause__, error):
        frames = traceback.extract_tb(found.__traceback__) if found is not None else []
        own = [index for index, frame in enumerate(frames) if not _is_library(frame.filename)]
        if found is not None and own:
            lines = traceback.format_list(frames[own[0] :]) + traceback.format_exception_only(found)
            return "Traceback (in your code):\n" + "".join(lines).rstrip()
        if isinstance(found, SyntaxError) and found.filename and not _is_library(found.filename):
            return "".join(traceback.format_exception_only(found)).rstrip()
    return ""


def _is_library(filename: str) -> bool:
    """Whether a file belongs to this package, to Python or to an installed package."""
    folders = [os.path.dirname(os.path.abspath(__file__))]
    folders += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    path = os.path.abspath(filename)
    if {"site-packages", "dist-packages"} & set(path.split(os.sep)):
        return True
    scripts = sysconfig.get_path("scripts")
    return (
        filename.startswith("<")
        or os.path.dirname(path) == scripts
        or any(path.startswith(f + os.sep) for f in folders)
    )
