"""Records: what a job measured, as small JSON files that can be kept in the repository.

A record is named by its job's key and holds what the key is a hash of, and all settings. It is used
only if these agree with the job that asks for it, so a table never shows numbers of other settings.
A digest of all that it says tells if it was damaged or edited.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dusdi.experiments.jobs import Job, agree, hash_of
from dusdi.files import write_atomically

Record = dict[str, Any]


def write_record(folder: Path, job: Job, measured: Mapping[str, Any]) -> Record:
    """Writes what a job measured, whole or not at all, and returns the record."""
    about = {"key": job.key, "name": job.name, "job": job.identity, "settings": job.all_settings}
    record = {**about, **measured}
    record = json.loads(json.dumps(record))  # as it is read again
    record["digest"] = hash_of(record)
    write_atomically(record_path(folder, job), json.dumps(record, indent=1) + "\n")
    return record


def record_path(folder: Path, job: Job) -> Path:
    return folder / f"{job.key}.json"


def read_record(folder: Path, job: Job) -> Record | None:
    """Returns the record of a job; None if there is none, or one that does not belong to it."""
    path = record_path(folder, job)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        said = {name: value for name, value in record.items() if name != "digest"}
        intact = hash_of(said) == record["digest"]
        ours = hash_of(record["job"]) == job.key == record["key"]
        same = ours and record["job"] == job.identity
        if intact and same and agree(record["settings"], job.all_settings):
            return record
        reason = "its settings are not those that it is named by"
        if not intact:
            reason = "it does not match its digest: it was edited or damaged"
        elif same:
            reason = "a setting that it was made with has another default now"
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = f"it can't be read: {type(error).__name__}: {error}"
    warnings.warn(f"{path} is not used, since {reason}", stacklevel=2)
    return None


def read_records(folder: Path, jobs: Iterable[Job]) -> dict[str, Record]:
    """Returns the records of jobs that have one, by key."""
    found = {job.key: read_record(folder, job) for job in {job.key: job for job in jobs}.values()}
    return {key: record for key, record in found.items() if record is not None}
