"""A run's folder while it is written.

RUN/config.json          the run's id and kind, its settings, world and provenance, how far it is
RUN/policy.safetensors   what was learned, ready to act; one for each seed, see `dusdi.policy`
RUN/checkpoints/         the newest two, from which it goes on, see `dusdi.checkpoint`
RUN/progress.csv         one row per seed and log point
RUN/events.out.*         the same for TensorBoard
RUN/.lock                locked by the process that writes
"""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
import re
import sys
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from dusdi import checkpoint, files
from dusdi.checks import check_writable
from dusdi.errors import UsageError
from dusdi.policy import Policy, policy_name, write_policy
from dusdi.provenance import with_current
from dusdi.types import WorldSpec

try:
    import fcntl
except ImportError:  # where there are no such locks, runs are not protected from each other
    fcntl = None  # type: ignore[assignment]

#: What the description of a run says of the run that it builds on, by the part that it takes over,
#: and the word for that.
BUILT_ON = {"skills": "over", "start": "from"}
WHEN = ("step", "seed", "seconds")  # the columns of progress.csv that are not metrics


def describe_run(
    kind: str,
    spec: WorldSpec,
    settings: Any,
    origins: Mapping[str, str],
    before: Mapping[str, Any] | None = None,
    origin: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What a run is, as JSON.

    Args:
      kind: "skills", "flat" or "hierarchy".
      spec: its world or task.
      settings: of the run.
      origins: where settings that are not defaults come from.
      before: the description of the run that goes on, if it is not new; says how far it is.
      origin: what it builds on, see `BUILT_ON`.
    """
    before = before or {}
    so_far = {name: before[name] for name in ("step", "seconds") if name in before}
    made_with = before.get("made_with")
    if before.get("step", 0) < settings.run.steps:  # nothing is added to a finished run
        made_with = with_current(made_with)
    return {
        "id": before.get("id") or uuid.uuid4().hex,
        "kind": kind,
        "settings": settings.to_json(),
        "origins": dict(origins),
        "world": spec.to_json(),
        "made_with": made_with,
        **so_far,
        **(origin or {}),
    }


def method_text(description: Mapping[str, Any]) -> str:
    """The method or agent of a run, and that of the skills or policy that it builds on."""
    settings = description["settings"]
    text = str(settings.get("agent", settings.get("method")))
    for part, word in BUILT_ON.items():
        if part in description:
            text += f" {word} {description[part]['settings'].get('method')}"
    return text


def run_title(description: Mapping[str, Any]) -> str:
    """What learns, and where."""
    place = "in" if description["kind"] == "skills" else "on"
    return f"{method_text(description)} {place} {description['world']['name']}"


class Run:
    """The folder of a run that is being written."""

    def __init__(
        self, folder: Path, description: Mapping[str, Any], seeds: Sequence[int], after_step: int
    ):
        """Log rows after `after_step`, where the run goes on, are dropped."""
        self.folder = folder
        self.description = dict(description)
        self._seeds = seeds
        folder.mkdir(parents=True, exist_ok=True)
        _clear_leftovers(folder)
        self._write_description()
        self._csv = folder / "progress.csv"
        self._keep_rows(after_step)
        with _without_torch():
            from tensorboardX.event_file_writer import EventsWriter
            from tensorboardX.proto.event_pb2 import Event, SessionLog

        # Written by this thread, so that an error is known at once. The path is absolute, or
        # tensorboardX takes some names for addresses.
        self._events = EventsWriter(str(folder.absolute() / "events"))
        # TensorBoard drops what it has read after that step.
        start = SessionLog(status=SessionLog.START)
        now = time.time()
        self._events.write_event(Event(step=after_step + 1, session_log=start, wall_time=now))

    def _write_description(self) -> None:
        text = json.dumps(self.description, indent=2) + "\n"
        files.write_atomically(self.folder / "config.json", text)

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
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import scalar

        new = not self._csv.exists() or not self._csv.stat().st_size
        with files.append(self._csv) as file:
            writer = csv.writer(file, lineterminator="\n")
            if new:
                writer.writerow(["step", "seed", "seconds", *rows[0]])
            for seed, row in zip(self._seeds, rows, strict=True):
                writer.writerow([step, seed, f"{seconds:.2f}", *row.values()])
        for seed, row in zip(self._seeds, rows, strict=True):
            suffix = f"/seed {seed}" if len(rows) > 1 else ""
            for name, value in row.items():
                if math.isfinite(value):  # a return is not a number until an episode is done
                    summary = scalar(name + suffix, value)
                    event = Event(step=step, summary=summary, wall_time=time.time())
                    self._events.write_event(event)
        self._events.flush()

    def save(self, step: int, seconds: float, state: Any, policies: Sequence[Policy]) -> None:
        """Writes a checkpoint of everything, and the policy of each seed."""
        if not self.folder.is_dir():  # or a second one would be made in its place
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.folder))
        self.description |= {"step": step, "seconds": seconds}
        checkpoint.save(self.folder / "checkpoints", step, state, self.description)
        self.write_policies(policies)
        self._write_description()

    def write_policies(self, policies: Sequence[Policy]) -> None:
        """Writes the policy of each seed, as it is at the step that the description names."""
        for seed, policy in zip(self._seeds, policies, strict=True):
            path = self.folder / policy_name(len(self._seeds), seed)
            write_policy(path, policy, {**self.description, "seed": seed})

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
    has_header = header[:1] == ["step"]
    is_step = re.compile(r"[0-9]{1,18}").fullmatch
    sound = [row for row in rows if has_header and len(row) == len(header) and is_step(row[0])]
    cut_off = bool(rows) and not text.endswith("\n") and rows[-1] not in sound[-1:]
    damaged = len(rows) - len(sound) - cut_off + (bool(text) and not has_header)
    return header, sound, damaged


@contextmanager
def _without_torch() -> Iterator[None]:
    """As if PyTorch were not installed: tensorboardX would import it, which takes seconds.

    This holds for the whole process, so no other thread may import PyTorch for the first time
    meanwhile: it would be told that there is none.
    """
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["torch"]


def _clear_leftovers(folder: Path) -> None:
    """Removes what a process that was killed while writing has left."""
    for place in (folder, folder / "checkpoints"):
        for path in place.iterdir() if place.is_dir() else ():
            by_safetensors = re.fullmatch(r"\.tmp\w{6}", path.name)
            torn = path.parent.name == "checkpoints" and by_safetensors
            if not path.is_dir() and (torn or files.is_abandoned(path.name)):
                path.unlink()


@contextmanager
def locked(folder: Path | None) -> Iterator[None]:
    """Keeps other processes from writing the run in a folder meanwhile.

    Raises a `UsageError` if one is at it. A folder that nothing was written into is removed.
    """
    if folder is None:
        yield
        return
    check_writable(folder)
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / ".lock"
    with _opened(lock) as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another process is writing the run in {folder}; wait for it, or choose another "
                "folder"
            ) from error
        except OSError:
            pass  # a file system without locks
        try:
            yield
        finally:
            with suppress(OSError):  # the folder may be gone
                _remove_if_empty(folder, lock, new)


def _opened(lock: Path) -> IO[str]:
    """The file of a lock; a `UsageError` if it belongs to somebody else."""
    try:
        return files.append(lock)
    except PermissionError as error:
        raise UsageError(
            f"{lock} may not be written ({error.strerror}), so the run in {lock.parent} is "
            "somebody else's; copy the folder to go on with the run, or choose another one"
        ) from error


def _remove_if_empty(folder: Path, lock: Path, new: Sequence[Path]) -> None:
    """Removes a folder that holds nothing but its lock, and the new ones above it."""
    if list(folder.iterdir()) != [lock]:
        return
    lock.unlink()
    for path in new:
        if not any(path.iterdir()):
            path.rmdir()
