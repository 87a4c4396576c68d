"""A run's folder: its config, checkpoints, CSV and TensorBoard events, and how to take it up again.

RUN/config.json       what was asked for, the world, versions and commit
RUN/checkpoints/      the newest two, see `dusdi.checkpoint`
RUN/progress.csv      one row per seed and log point
RUN/events.out.*      the same for TensorBoard
RUN/.lock             held by the process that writes
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
from tensorboardX import SummaryWriter

from dusdi import checkpoint
from dusdi.checkpoint import Checkpoint
from dusdi.config import AnyConfig, BaseConfig, from_json
from dusdi.errors import UsageError, unknown_name
from dusdi.parallel import cores
from dusdi.types import WorldSpec

try:
    import fcntl
except ImportError:  # where there are no such locks, runs are not protected from each other
    fcntl = None  # type: ignore[assignment]

#: Config fields that may change when a run is resumed: it can be made longer.
RESUMABLE = {"steps"}


class Run:
    """The folder of a run that is being written."""

    def __init__(
        self, folder: Path, spec: WorldSpec, config: AnyConfig, after_step: int, origin: Mapping[str, Any] | None = None
    ):
        """Rows and events after `after_step` are of a life that ended before its next checkpoint; they are dropped.

        `origin` says what else it builds on: the `skills` of a downstream run, or the policy that it `start`s from.
        """
        self.folder, self._config = folder, config
        folder.mkdir(parents=True, exist_ok=True)
        self._description = {"config": config.to_json(), "world": spec.to_json(), "made_with": provenance(), **(origin or {})}
        self._description["cores"] = len(cores())
        write_atomically(folder / "config.json", json.dumps(self._description, indent=2) + "\n")
        self._csv = folder / "progress.csv"
        self._keep_rows(after_step)
        self._events = SummaryWriter(str(folder), purge_step=after_step + 1)

    def _keep_rows(self, until: int) -> None:
        if not self._csv.exists():
            return
        with self._csv.open(newline="") as file:
            header, *rows = list(csv.reader(file)) or [[]]
        kept = [row for row in rows if len(row) == len(header) and int(row[0]) <= until]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([header, *kept] if kept else [])
        write_atomically(self._csv, text.getvalue())

    def log(self, step: int, seconds: float, rows: Sequence[Mapping[str, float]]) -> None:
        """Writes the metrics of each seed."""
        fields = ["step", "seed", "seconds", *rows[0]]
        new = not self._csv.exists() or not self._csv.stat().st_size
        with self._csv.open("a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if new:
                writer.writerow(fields)
            for index, row in enumerate(rows):
                writer.writerow([step, self._config.seed + index, f"{seconds:.2f}", *row.values()])
        for index, row in enumerate(rows):
            suffix = f"/seed {self._config.seed + index}" if len(rows) > 1 else ""
            for name, value in row.items():
                if math.isfinite(value):  # a return is not a number until an episode is over
                    self._events.add_scalar(name + suffix, value, step)
        self._events.flush()

    def save(self, step: int, seconds: float, state: Any) -> None:
        """Writes a checkpoint of everything."""
        checkpoint.save(self.folder / "checkpoints", step, state, {**self._description, "seconds": seconds})

    def close(self) -> None:
        self._events.close()


@contextmanager
def held(folder: Path | None) -> Iterator[None]:
    """Keeps other processes from writing the run in a folder meanwhile, or raises a `UsageError` if one is at it."""
    if folder is None:
        yield
        return
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / ".lock"
    with lock.open("w") as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"another process is writing the run in {folder}; wait for it, or choose another folder") from error
        except OSError:
            pass  # a file system without locks
        try:
            yield
        finally:
            if list(folder.iterdir()) == [lock]:  # nothing came of it
                lock.unlink()
                for path in new:
                    if not any(path.iterdir()):
                        path.rmdir()


def take_up(
    folder: Path,
    spec: WorldSpec,
    asked: Mapping[str, Any],
    *,
    resume: bool,
    kind: type[BaseConfig],
    origin: Mapping[str, Any] | None = None,
) -> tuple[Any, Checkpoint | None] | None:
    """The config of the run in a folder and its newest checkpoint, if it got that far; None if there is no run.

    `asked` holds the config fields the user named; they must not contradict the run's, except for its length. Nor must the
    `origin`: the skills or policy that it builds on.
    """
    found = checkpoint.load_newest(folder / "checkpoints")
    written = folder / "config.json"
    if found is None and not written.exists():
        return None
    if not resume:
        raise UsageError(f"{folder} already holds a run; resume it with --resume (resume=True), or choose another folder")
    # config.json is newer than the checkpoint if the run was made longer and killed before its next checkpoint
    description = json.loads(written.read_text()) if written.exists() else found.description  # type: ignore[union-attr]
    theirs = WorldSpec.from_json(description["world"])
    if json.dumps(theirs.to_json()) != json.dumps(spec.to_json()):
        raise UsageError(f"{folder} holds a run in {describe(theirs)}, which is not {describe(spec)}")
    if not set(description["config"]) <= set(kind.fields()):  # fields that are new since then have the old behaviour as default
        raise UsageError(f"{folder} holds a run of another kind (or of another version of dusdi); choose another folder")
    if _builds_on(origin or {}) != _builds_on(description):
        raise UsageError(f"{folder} holds a run that builds on other skills or another policy; choose another folder")
    config = from_json(description["config"], kind)
    for name, value in asked.items():
        if name not in kind.fields():
            raise unknown_name("config field", name, kind.fields())
        value = tuple(value) if isinstance(value, list) else value
        if name not in RESUMABLE and getattr(config, name) != value:
            raise UsageError(
                f"{folder} was run with {name} = {getattr(config, name)}, not {value}; "
                "resume it without that, or choose another folder"
            )
    steps = asked.get("steps", config.steps)
    if steps < config.steps:
        raise UsageError(f"{folder} was begun with {config.steps:,} steps; it can be made longer but not shorter ({steps:,})")
    return dataclasses.replace(config, steps=steps), found


def _builds_on(description: Mapping[str, Any]) -> str:
    """The skills or policy that a run builds on, as text to compare; fields that their config lacks have their defaults."""
    parts = {key: description[key] for key in ("skills", "start") if key in description}
    full = {key: {**part, "config": from_json(part["config"]).to_json()} for key, part in parts.items()}
    return json.dumps(full, sort_keys=True)


def origin(folder: Path) -> dict[str, Any]:
    """Where a run's results come from: config, world, versions, commit and seconds of training."""
    found = checkpoint.load_newest(folder / "checkpoints")
    keys = ("config", "world", "skills", "start", "made_with", "cores", "step", "seconds")
    return {key: found.description[key] for key in keys if key in found.description} if found else {}


def describe(spec: WorldSpec) -> str:
    """A world in a few words, for messages."""
    options = ", ".join(f"{name}={value}" for name, value in spec.options.items())
    return f"{spec.name}({options}) with {spec.observation_size} observations and {spec.action_size} actions"


def provenance() -> dict[str, str]:
    """The versions and the commit that produce a result."""
    packages = {name: metadata.version(name) for name in ("jax", "jaxlib", "flax", "optax", "numpy")}
    return {"python": platform.python_version(), "device": jax.default_backend(), "commit": _commit(), **packages}


def _commit() -> str:
    """The source's commit, with a + if the package was changed since; empty where the package is not in a checkout of its own."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return ""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "dusdi")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def write_atomically(path: Path, text: str) -> None:
    """Writes a file so that it appears whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    os.replace(partial, path)
