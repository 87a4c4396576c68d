"""Running a job: trains (or goes on with) its run, measures, and writes the record."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dusdi.arrays import ENCODER_NAME
from dusdi.encoder import load_encoder
from dusdi.encoder_training import pictured, train_encoder
from dusdi.errors import DusdiError
from dusdi.evaluation import evaluate_expert, measure
from dusdi.experiments.curves import read_curve, thin
from dusdi.experiments.jobs import Job, check_settings, is_trained, make_environment
from dusdi.experiments.records import Record, write_record
from dusdi.metrics.dci import NAMES
from dusdi.policy import read_description
from dusdi.pretraining import pretrain
from dusdi.provenance import provenance
from dusdi.skills import find_policy
from dusdi.task_evaluation import measure_task
from dusdi.task_learning import downstream

#: The directions of DCI: how they are called, and where they are in what `measure` gives.
DIRECTIONS: dict[str, Callable[[Mapping], Mapping]] = {
    "skills to states": lambda result: result,
    "states to skills": lambda result: result["states_to_skills"],
}


@dataclass(frozen=True)
class Folders:
    """Where jobs work.

    Attributes:
      runs: has a folder for each run that is trained.
      records: has a file for each job that is done.
    """

    runs: Path
    records: Path


def run(job: Job, folders: Folders, progress: bool = False) -> Record:
    """Does a job and writes its record; a run that was stopped goes on where it was."""
    if progress:
        print(f"{job.kind}: {job.name}", file=sys.stderr, flush=True)
    measured = RUNNERS[job.kind](job, folders.runs, progress)
    return write_record(folders.records, job, measured)


def plan(wanted: Iterable[Job], records: Mapping[str, Record], runs: Path) -> list[Job]:
    """Returns the jobs to run, inputs first: those without a record, and the runs they need.

    A run that is needed only as an input is trained again if its folder is gone or damaged, even
    if there is a record of it.
    """
    chosen: dict[str, Job] = {}
    trained: dict[str, bool] = {}

    def add(job: Job) -> None:
        for needed in job.inputs:
            if needed.key not in trained:
                trained[needed.key] = is_trained(needed, runs)
            if not trained[needed.key]:
                add(needed)
        chosen.setdefault(job.key, job)

    for job in wanted:
        if job.key not in records:
            add(job)
    return list(chosen.values())


def _discover_skills(job: Job, runs: Path, progress: bool) -> dict[str, Any]:
    folder = _checked_folder(job, runs)
    world = make_environment(job, runs)
    pretrain(world, out=folder, resume=True, progress=progress, **job.request)
    return _about_training(folder)


def _train_encoder(job: Job, runs: Path, progress: bool) -> dict[str, Any]:
    folder = job.folder(runs)
    world = pictured(make_environment(job))
    try:
        encoder = load_encoder(folder)
    except DusdiError:  # there is none, or it is damaged
        (folder / ENCODER_NAME).unlink(missing_ok=True)
        encoder = train_encoder(world, out=folder, resume=True, progress=progress, **job.request)
    made = {name: encoder.description[name] for name in ("seconds", "made_with")}
    return {"scores": encoder.description["errors"], "digest_of_encoder": encoder.digest, **made}


def _learn_task(job: Job, runs: Path, progress: bool) -> dict[str, Any]:
    folder = _checked_folder(job, runs)
    skills = job.inputs[0].folder(runs) if job.inputs else None
    options: dict[str, Any] = {"out": folder, "resume": True, "progress": progress}
    downstream(skills, job.environment, **options, **job.request)
    return _about_training(folder, "return")


def _checked_folder(job: Job, runs: Path) -> Path:
    """The folder of a training job, in which no run with other defaults is gone on with."""
    folder = job.folder(runs)
    description = {}
    with suppress(OSError, ValueError):  # what is damaged is said when the run goes on
        description = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if isinstance(description, Mapping):
        check_settings(job, folder, description, runs)
    return folder


def _measure_dci(job: Job, runs: Path, progress: bool) -> dict[str, Any]:
    report = measure(job.folder(runs), progress=progress, **job.settings)
    scores = _dci_scores(report["seeds"][0])
    if "true_factors" in report:
        true = _dci_scores(report["true_factors"]["seeds"][0])
        scores |= {f"{direction}, true factors": found for direction, found in true.items()}
    return {"scores": scores, "measured_with": report["measured_with"], **_origin(report["run"])}


def _measure_return(job: Job, runs: Path, progress: bool) -> dict[str, Any]:
    report = measure_task(job.folder(runs), progress=progress, **job.settings)
    scores = {
        "return": report["return"],
        "random_skills": report.get("random_skills"),
        "scripted_reference": report.get("scripted_reference"),
    }
    if "discounted" in report:
        scores |= {f"discounted_{name}": report["discounted"].get(name) for name in tuple(scores)}
    return {"scores": scores, "measured_with": report["measured_with"], **_origin(report["run"])}


def _measure_expert(job: Job, runs: Path, progress: bool) -> dict[str, Any]:
    world = make_environment(job)
    result = evaluate_expert(world, progress=progress, **job.settings).to_json()
    return {"scores": _dci_scores(result), "measured_with": provenance()}


#: What does the jobs of each kind, given the folder of the runs and whether to show progress.
RUNNERS: dict[str, Callable[[Job, Path, bool], dict[str, Any]]] = {
    "encoder": _train_encoder,
    "skills": _discover_skills,
    "dci": _measure_dci,
    "task": _learn_task,
    "return": _measure_return,
    "expert": _measure_expert,
}


def _dci_scores(result: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
    """Returns the scores of one seed by direction and name; None where not measured."""
    return {
        direction: {name: find(result)[name] for name in NAMES}
        for direction, find in DIRECTIONS.items()
    }


def _about_training(folder: Path, metric: str | None = None) -> dict[str, Any]:
    """Returns the thinned curve of a finished run and where it comes from."""
    description = read_description(find_policy(folder))
    metric, curve = read_curve(folder, description["step"], metric)
    return {"metric": metric, "curve": thin(curve, metric), **_origin(description)}


def _origin(description: Mapping[str, Any]) -> dict[str, Any]:
    """Returns how a run was made: its last step, seconds of training, versions and processors."""
    seconds = round(description["seconds"], 2)
    return {"step": description["step"], "seconds": seconds, "made_with": description["made_with"]}
