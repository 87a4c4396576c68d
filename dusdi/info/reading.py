"""Reads the folder of a run, however damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dusdi import checkpoint
from dusdi.errors import CheckpointError, missing_run
from dusdi.files import is_locked
from dusdi.info.run_info import RunInfo
from dusdi.info.settings import is_description
from dusdi.run import read_progress
from dusdi.types import WorldSpec


def read_run(path: str | Path) -> RunInfo:
    """What is in a run's folder, or in the folder of one of its checkpoints.

    Raises a `CheckpointError` if nothing there says which run it is.
    """
    path = Path(path)
    if not path.exists():
        raise missing_run(path)
    folder = path.parent.parent if path.is_file() else path
    problems: list[str] = []
    written = _read_json(folder / "config.json", problems)
    saved = _newest_description(folder / "checkpoints", problems)
    description = _choose_description(path, written, saved, problems)
    rows = _read_rows(folder / "progress.csv", problems)
    last = rows[-1] if rows else {"step": 0, "seconds": 0.0}
    scores = [_read_json(folder / name, problems) for name in ("dci.json", "return.json")]
    return RunInfo(
        folder=folder,
        description=description,
        step=int(saved.get("step", last["step"])),
        seconds=float(saved.get("seconds", last["seconds"])),
        rows=rows,
        scores=scores[0] or scores[1],
        files=_file_sizes(folder),
        running=is_locked(folder / ".lock"),
        problems=problems,
    )


def saved_world(folder: Path) -> WorldSpec | None:
    """The world of the newest checkpoint in a run's folder; None if none can be read."""
    try:
        return WorldSpec.from_json(_newest_description(folder / "checkpoints", [])["world"])
    except (CheckpointError, KeyError, TypeError, ValueError, AttributeError):
        return None


def _choose_description(
    path: Path, written: dict[str, Any], saved: dict[str, Any], problems: list[str]
) -> dict[str, Any]:
    """The description in config.json, or else the one in the newest checkpoint."""
    if not is_description(written) and not is_description(saved):
        reasons = "; ".join(problems) or "nothing there describes one"
        raise CheckpointError(f"{path} holds no run: {reasons}")
    if not is_description(written):
        problems.append("config.json does not describe a run; this is from the newest checkpoint")
    if not is_description(saved):
        problems.append("there is no checkpoint that can be read")
    return written if is_description(written) else saved


def _read_json(path: Path, problems: list[str]) -> dict[str, Any]:
    """The object in a file; empty if there is no such file, or if it is damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"{path.name} can't be read: {error}")
        return {}
    if isinstance(found, dict):
        return found
    problems.append(f"{path.name} is no JSON object")
    return {}


def _newest_description(folder: Path, problems: list[str]) -> dict[str, Any]:
    """The description in the newest checkpoint whose header can be read; empty if there is none."""
    for path in checkpoint.newest_first(folder):
        try:
            found = checkpoint.read_description(path)
            return {**found, "step": int(found["step"]), "seconds": float(found["seconds"])}
        except CheckpointError as error:
            problems.append(str(error))
        except (KeyError, TypeError, ValueError) as error:
            problems.append(f"{path.name} lacks {error}")
    return {}


def _read_rows(path: Path, problems: list[str]) -> list[dict[str, float]]:
    """The rows of a progress.csv that can be read."""
    try:
        header, lines, damaged = read_progress(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(f"{path.name} can't be read: {error.strerror}")
        return []
    rows = [_numbers(header, line) for line in lines]
    intact = [row for row in rows if row]
    damaged += len(rows) - len(intact)
    if damaged:
        problems.append(f"{damaged} rows of {path.name} can't be read")
    return intact


def _numbers(header: list[str], line: list[str]) -> dict[str, float]:
    """A row of a progress.csv; empty if it is damaged."""
    try:
        row = {name: float(text) for name, text in zip(header, line, strict=True)}
        return row | {"step": int(row["step"]), "seed": int(row["seed"]), "seconds": row["seconds"]}
    except (ValueError, KeyError, OverflowError):
        return {}


def _file_sizes(folder: Path) -> dict[str, int]:
    """The sizes in bytes of the files in a run's folder and of its checkpoints."""
    paths = [path for path in (*folder.iterdir(), *folder.glob("checkpoints/*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.stat().st_size for path in sorted(paths)}
