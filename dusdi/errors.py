"""Errors meant for people: each says what was wrong, what was expected and what to do.

The command line prints them without a traceback; Python users can catch `DusdiError`.
"""

import difflib
from collections.abc import Iterable


class DusdiError(Exception):
    """Base of every error this package raises on purpose."""


class UsageError(DusdiError, ValueError):
    """A request that can't be carried out: an unknown name, a bad value, a world that does not fit."""


class WorldError(DusdiError, ValueError):
    """A world that breaks its contract, for instance by a non-finite observation."""


class CheckpointError(DusdiError):
    """A checkpoint that is missing, damaged or does not belong to this run."""


class NonFiniteError(DusdiError, ArithmeticError):
    """Training produced a NaN or an infinity."""


def unknown_name(kind: str, name: str, valid: Iterable[str]) -> UsageError:
    """The error for a mistyped name, with the nearest valid ones first."""
    valid = sorted(valid)
    near = difflib.get_close_matches(name, valid, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose from: {', '.join(valid)}"
    return UsageError(f"unknown {kind} {name!r}; {hint}")
