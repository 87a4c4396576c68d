"""Where results come from: versions, commit, processor."""

from __future__ import annotations

import functools
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from dusdi.parallel import cores

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy")


def provenance() -> dict[str, Any]:
    """The versions, the commit and the processor that produce a result."""
    return {
        "python": platform.python_version(),
        "device": jax.default_backend(),
        "processor": _processor(),
        "cores": len(cores()),
        "commit": _commit(),
        **{name: metadata.version(name) for name in PACKAGES},
    }


def with_current(made_with: Any) -> list[dict[str, Any]]:
    """All that a run was made with so far, in order, and what it goes on with now."""
    now = provenance()
    before = [entry for entry in made_with or [] if isinstance(entry, dict)]
    return before if before and before[-1] == now else [*before, now]


@functools.cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _commit() -> str:
    """The source's commit, with a + if the package was changed since.

    It is empty where the package is not in a checkout of its own.
    """
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return ""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        edited = git("status", "--porcelain", "--untracked-files=no", "--", "dusdi")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if edited else "")
    except (OSError, subprocess.CalledProcessError):
        return ""
