"""A run's folder: its config, checkpoints, CSV and TensorBoard events, and how to take it up again.

RUN/config.json       what was asked for, the world, versions and commit
RUN/checkpoints/      the newest two, see `dusdi.checkpoint`
RUN/progress.csv      one row per seed and log point
RUN/events.out.*      the same for TensorBoard
RUN/.lock             held by the process that writes
"""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
import platform
import re
import subprocess
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.summary import scalar

from dusdi import checkpoint, files
from dusdi.checkpoint import Checkpoint
from dusdi.config import AnyConfig, BaseConfig, Config, PPOConfig, configure, from_json
from dusdi.errors import CheckpointError, UsageError, unknown_name
from dusdi.parallel import cores
from dusdi.types import WorldSpec, difference

try:
    import fcntl
except ImportError:  # where there are no such locks, runs are not protected from each other
    fcntl = None  # type: ignore[assignment]

#: Settings that may change when a run is resumed: it can be made longer.
RESUMABLE = {"steps"}
#: What a run is: the same in config.json and in every checkpoint, but for what may change.
IDENTITY = ("id", "config", "world", "skills", "start")


class Run:
    """The folder of a run that is being written."""

    def __init__(
        self,
        folder: Path,
        spec: WorldSpec,
        config: AnyConfig,
        after_step: int,
        *,
        name: str | None = None,
        origin: Mapping[str, Any] | None = None,
    ):
        """Rows and events after `after_step` were logged after the checkpoint the run goes on from; they are dropped.

        `name` is the run's id, new if there is none. `origin` says what else it builds on: the `skills` of a downstream run, or
        the policy that it `start`s from.
        """
        self.folder, self._config = folder, config
        folder.mkdir(parents=True, exist_ok=True)
        _clear_leftovers(folder)
        self._description = {
            "id": name or uuid.uuid4().hex,
            "config": config.to_json(),
            "world": spec.to_json(),
            "made_with": provenance(),
            "cores": len(cores()),
            **(origin or {}),
        }
        files.write_atomically(
            folder / "config.json", json.dumps(self._description, indent=2) + "\n"
        )
        self._csv = folder / "progress.csv"
        self._keep_rows(after_step)
        # Written by this thread, so that an error is known at once. TensorBoard drops what it has read after that step.
        self._events = EventsWriter(
            str(folder.absolute() / "events")
        )  # or it takes some names for addresses
        start = SessionLog(status=SessionLog.START)
        self._events.write_event(
            Event(step=after_step + 1, session_log=start, wall_time=time.time())
        )

    def _keep_rows(self, until: int) -> None:
        """Drops the rows after a step, and what can't be read, of which a copy is kept."""
        if not os.path.lexists(self._csv):
            return
        header, rows, damaged = read_progress(self._csv)
        if damaged:
            copy = self._csv.with_name("progress.damaged.csv")
            with files.replacing(copy) as partial:
                partial.write_bytes(self._csv.read_bytes())
            warnings.warn(
                f"{damaged} rows of {self._csv} could not be read; a copy of it is {copy.name}",
                stacklevel=2,
            )
        kept = [row for row in rows if int(row[0]) <= until]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([header, *kept] if kept else [])
        files.write_atomically(self._csv, text.getvalue())

    def log(self, step: int, seconds: float, rows: Sequence[Mapping[str, float]]) -> None:
        """Writes the metrics of each seed."""
        fields = ["step", "seed", "seconds", *rows[0]]
        new = not self._csv.exists() or not self._csv.stat().st_size
        with files.append(self._csv) as file:
            writer = csv.writer(file, lineterminator="\n")
            if new:
                writer.writerow(fields)
            for index, row in enumerate(rows):
                writer.writerow([step, self._config.seed + index, f"{seconds:.2f}", *row.values()])
        for index, row in enumerate(rows):
            suffix = f"/seed {self._config.seed + index}" if len(rows) > 1 else ""
            for name, value in row.items():
                if math.isfinite(value):  # a return is not a number until an episode is over
                    event = Event(
                        step=step, summary=scalar(name + suffix, value), wall_time=time.time()
                    )
                    self._events.write_event(event)
        self._events.flush()

    def save(self, step: int, seconds: float, state: Any) -> None:
        """Writes a checkpoint of everything."""
        if not self.folder.is_dir():  # or a second one would be made in its place
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.folder))
        checkpoint.save(
            self.folder / "checkpoints", step, state, {**self._description, "seconds": seconds}
        )

    def close(self) -> None:
        with suppress(OSError):  # what could not be written was said before
            self._events.close()


def read_progress(path: Path) -> tuple[list[str], list[list[str]], int]:
    """The header and the rows of a progress.csv, and how many more can't be read.

    A last row that is cut off does not count: it was being written when the run was killed.
    """
    text = path.read_text(encoding="utf-8", errors="replace").replace("\0", "\ufffd")
    try:
        header, *rows = list(csv.reader(io.StringIO(text))) or [[]]
    except csv.Error:
        return [], [], text.count("\n") + 1
    is_step = re.compile(r"[0-9]{1,18}").fullmatch
    sound = [
        row
        for row in rows
        if header[:1] == ["step"] and len(row) == len(header) and is_step(row[0])
    ]
    cut_off = bool(rows) and not text.endswith("\n") and rows[-1] not in sound[-1:]
    return header, sound, len(rows) - len(sound) - cut_off + (bool(text) and header[:1] != ["step"])


def _clear_leftovers(folder: Path) -> None:
    """Removes what a process that was killed while writing has left."""
    for place in (folder, folder / "checkpoints"):
        for path in place.iterdir() if place.is_dir() else ():
            torn = path.parent.name == "checkpoints" and re.fullmatch(
                r"\.tmp\w{6}", path.name
            )  # by safetensors
            if not path.is_dir() and (torn or files.is_abandoned(path.name)):
                path.unlink()


@contextmanager
def held(folder: Path | None) -> Iterator[None]:
    """Keeps other processes from writing the run in a folder meanwhile, or raises a `UsageError` if one is at it."""
    if folder is None:
        yield
        return
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / ".lock"
    with files.append(lock) as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another process is writing the run in {folder}; wait for it, or choose another folder"
            ) from error
        except OSError:
            pass  # a file system without locks
        try:
            yield
        finally:
            with suppress(OSError):  # the folder may be gone
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
    """The config of the run in a folder and its newest checkpoint, if it got that far; None to begin a new run.

    `asked` holds the config fields the user named; they must not contradict the run's, except for its length. Nor must the
    `origin`: the skills or policy that it builds on. A run without a checkpoint has nothing to lose, so it may be begun anew.
    """
    found = checkpoint.load_newest(folder / "checkpoints")
    if found is None:
        _check_not_foreign(folder / "config.json")
        return _begun(folder / "config.json", spec, asked, kind, origin or {}) if resume else None
    if not resume:
        raise UsageError(
            f"{folder} already holds a run; resume it with --resume (resume=True), or choose another folder"
        )
    settings = found.description.get("config")
    if isinstance(settings, dict) and any(
        set(settings) == set(other.fields()) for other in (Config, PPOConfig) if other is not kind
    ):
        raise UsageError(f"{folder} holds a run of another kind; choose another folder")
    read_settings(found, kind)  # before it is compared with config.json
    config, theirs = read_settings(_with_written(found, folder / "config.json"), kind)
    if _as_json(theirs.to_json()) != _as_json(spec.to_json()):
        raise UsageError(f"{folder} holds a run in another world: {difference(theirs, spec)}")
    if _builds_on(origin or {}) != _builds_on(found.description):
        raise UsageError(
            f"{folder} holds a run that builds on other skills or another policy; choose another folder"
        )
    return _lengthened(folder, config, asked), found


def _check_not_foreign(path: Path) -> None:
    """Raises a `UsageError` if a config.json is there that no run of ours wrote."""
    try:
        text = path.read_text(encoding="utf-8")
        description = (
            json.loads(text) if text.strip() else {"config": {}, "world": {}}
        )  # what a power cut may leave
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(
            f"{path} can't be read: {error.strerror}; choose another folder"
        ) from error
    except (ValueError, RecursionError):
        description = None
    if not isinstance(description, dict) or not {"config", "world"} <= set(description):
        raise UsageError(
            f"{path} is not of a run of dusdi's, and would be overwritten; choose another folder"
        )


def _begun(
    written: Path,
    spec: WorldSpec,
    asked: Mapping[str, Any],
    kind: type[BaseConfig],
    origin: Mapping[str, Any],
) -> tuple[Any, None] | None:
    """What was asked of a run that was stopped before its first checkpoint, if it is the same; what is asked now counts more."""
    try:
        description = json.loads(written.read_text(encoding="utf-8"))
        same = _as_json(description["world"]) == _as_json(spec.to_json()) and _builds_on(
            description
        ) == _builds_on(origin)
        config = from_json(description["config"], kind)
    except (OSError, ValueError, TypeError, KeyError, RecursionError, CheckpointError):
        return None
    if not same or asked.get("preset", config.preset) != config.preset:
        return None
    return configure(config.preset, {config.preset: config.to_json()}, asked, kind), None


def _with_written(found: Checkpoint, written: Path) -> Checkpoint:
    """A checkpoint with what its run's config.json may say differently, which is how long the run is to be.

    The file is newer than the checkpoint if the run was made longer and stopped before its next one.
    """
    try:
        description = json.loads(written.read_text(encoding="utf-8"))
        settings = description["config"]
        steps = settings["steps"]
    except FileNotFoundError:
        return found
    except OSError as error:
        raise CheckpointError(f"{written} can't be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        warnings.warn(
            f"{written} can't be read ({reason}); using its copy in {found.path.name}", stacklevel=2
        )
        return found
    theirs = found.description
    for name in dict.fromkeys([*theirs["config"], *settings]):
        said, made = settings.get(name, "nothing"), theirs["config"].get(name, "nothing")
        if name not in RESUMABLE and _as_json(said) != _as_json(made):
            raise CheckpointError(
                f"{written} says {name} = {said}, but {found.path.name} was made with {made}: one of them was changed or belongs "
                "to another run; put it right, or remove config.json to go on with what the checkpoint says"
            )
    for name in IDENTITY:
        if name != "config" and _as_json(description.get(name)) != _as_json(theirs.get(name)):
            raise CheckpointError(
                f"{found.path} belongs to another run than {written}: they differ in {name!r}"
            )
    planned = theirs["config"]["steps"]
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < planned:
        raise CheckpointError(
            f"{written} says steps = {steps}, but the run was begun with {planned}; put it right, or remove it"
        )
    return found._replace(description={**theirs, "config": {**theirs["config"], "steps": steps}})


def read_settings(
    found: Checkpoint, kind: type[BaseConfig] = Config, part: str | None = None
) -> tuple[Any, WorldSpec]:
    """The config and the world that a checkpoint (or a part of its description) names, or a `CheckpointError`."""
    try:
        description = found.description[part] if part else found.description
        return from_json(description["config"], kind), WorldSpec.from_json(description["world"])
    except CheckpointError as error:
        raise CheckpointError(f"{found.path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise CheckpointError(
            f"{found.path} does not describe a run: {type(error).__name__}: {error}"
        ) from error


def _lengthened(folder: Path, config: Any, asked: Mapping[str, Any]) -> Any:
    """The config of a run that goes on as it was begun, but for its length."""
    fields = type(config).fields()
    for name in asked:
        if name not in fields:
            raise unknown_name("config field", name, fields)
    wanted = type(config)(**{**config.to_json(), **asked})
    for name in asked:
        ours, theirs = getattr(wanted, name), getattr(config, name)
        if name not in RESUMABLE and ours != theirs:
            raise UsageError(
                f"{folder} was run with {name} = {theirs}, not {ours}; resume it without that, or choose another folder"
            )
    if wanted.steps < config.steps:
        raise UsageError(
            f"{folder} was begun with {config.steps:,} steps; it can be made longer but not shorter ({wanted.steps:,})"
        )
    return wanted


def _builds_on(description: Mapping[str, Any]) -> str:
    """The skills or policy that a run builds on, as text to compare."""
    return _as_json({key: description.get(key) for key in ("skills", "start")})


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def origin(folder: Path) -> dict[str, Any]:
    """Where a run's results come from: config, world, versions, commit and seconds of training."""
    found = checkpoint.load_newest(folder / "checkpoints")
    keys = ("config", "world", "skills", "start", "made_with", "cores", "step", "seconds")
    return (
        {key: found.description[key] for key in keys if key in found.description} if found else {}
    )


def describe(spec: WorldSpec) -> str:
    """A world in a few words, for messages."""
    options = ", ".join(f"{name}={value}" for name, value in spec.options.items())
    return f"{spec.name}({options}) with {spec.observation_size} observations and {spec.action_size} actions"


def provenance() -> dict[str, str]:
    """The versions and the commit that produce a result."""
    packages = {
        name: metadata.version(name) for name in ("jax", "jaxlib", "flax", "optax", "numpy")
    }
    return {
        "python": platform.python_version(),
        "device": jax.default_backend(),
        "commit": _commit(),
        **packages,
    }


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
