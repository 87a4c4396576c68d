"""The paper's tables and figures, each by one command: jobs, records, data frames and files.

An experiment lists jobs (`dusdi.experiments.jobs`); an executor runs those that have no record yet
(`executors`), and every job writes what it measured (`records`). Tables and figures are made from
records alone, so they can be extended without training anything again.

Modules of experiments are imported when they are asked for: they need pandas, other commands don't.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from dusdi.checks import check_writable
from dusdi.errors import DusdiError, UsageError, explain, unknown_name
from dusdi.experiments.checks import check_jobs, check_methods
from dusdi.experiments.executors import Executor, LocalExecutor, Outcome, Work
from dusdi.experiments.jobs import Job
from dusdi.experiments.records import Record, read_records
from dusdi.experiments.running import Folders, plan, run
from dusdi.experiments.settings import Cell, Settings

__all__ = ["EXPERIMENTS", "Cell", "Job", "Settings", "reproduce"]

#: What can be reproduced, a line on each. Modules of these names have functions `cells`, `write`;
#: where what is worth running depends on what was measured, they have `promising`, too.
EXPERIMENTS = {
    "table1": "Table 1: DCI of DUSDi and DIAYN-MC, and of SUSD beside them",
    "fig3": "Figure 3: accuracy of the discriminators, with and without Q decomposition",
    "fig4": "Figure 4: return in every task, with skills and without",
    "fig5": "Figure 5: skills from pictures, with and without labels, beside those from states",
    "fig6": "Figure 6: return with and without the causal policy gradient",
    "susd": "beyond the paper: discounted return in SUSD's own tasks",
    "more-factors": "beyond the paper: DCI of DUSDi in worlds with more factors",
    "tuning": "every method's settings, found with equal effort on tuning seeds",
    "ablation": "each decision of the preset switched back, on tuning seeds",
}


#: How many seeds there are by default; on tuning seeds there are fewer.
SEEDS = 5
TUNING_SEEDS = 3


def usual_seeds(name: str) -> int:
    """Returns how many seeds an experiment has by default."""
    return TUNING_SEEDS if name in ("tuning", "ablation") else SEEDS


def reproduce(name: str, settings: Settings, executor: Executor | None = None) -> list[Path]:
    """Makes a table or figure and returns its files.

    Args:
      name: of the experiment, see `EXPERIMENTS`.
      settings: what to reproduce with.
      executor: runs the jobs; by default processes of this machine, `settings.jobs` at a time.
    """
    experiment = load_experiment(name)
    settings.check()
    check_methods(name, settings)
    check_writable(settings.out)
    cells = experiment.cells(settings)
    if not cells:
        raise UsageError(
            f"{name} has nothing to do with these worlds and tasks; `dusdi envs` lists them"
        )
    executor = executor or LocalExecutor(settings.jobs)
    while jobs := _missing_jobs(experiment, cells, settings.folders):
        check_jobs(name, jobs)
        check_writable(settings.runs, "runs")
        bars = settings.progress and min(settings.jobs, len(jobs)) == 1
        work = functools.partial(run, folders=settings.folders, progress=bars)
        run_all(jobs, work, executor, settings.progress)
    return experiment.write(_results(name, settings, experiment))


def _missing_jobs(experiment: Any, cells: Sequence[Cell], folders: Folders) -> list[Job]:
    """Returns the jobs that are worth running now."""
    records = read_records(folders.records, [cell.job for cell in cells])
    wanted = _promising(experiment, cells, records)
    return plan([cell.job for cell in wanted], records, folders.runs)


def _promising(
    experiment: Any, cells: Sequence[Cell], records: Mapping[str, Record]
) -> Sequence[Cell]:
    """Returns the cells that are worth running, given what was measured."""
    choose = getattr(experiment, "promising", None)
    return cells if choose is None else choose(cells, records)


def load_experiment(name: str) -> Any:
    """Imports the module of an experiment, or raises a `UsageError`."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    try:
        return importlib.import_module(f"dusdi.experiments.{name.replace('-', '_')}")
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise UsageError(
            "tables are made with pandas, which is not installed; pip install 'dusdi[reproduce]'"
        ) from error


def run_all(jobs: Sequence[Job], work: Work, executor: Executor, progress: bool) -> None:
    """Runs jobs and says how far they are; raises a `DusdiError` at the end if some failed."""
    failed: list[Outcome] = []
    began = time.monotonic()

    def say(text: str) -> None:
        if progress:
            print(text, file=sys.stderr, flush=True)

    with closing(executor.run(jobs, work)) as outcomes:
        for number, outcome in enumerate(outcomes, 1):
            title = f"{outcome.job.kind}: {outcome.job.name}"
            left = (time.monotonic() - began) * (len(jobs) / number - 1) / 60
            if outcome.error is None:
                say(f"{number} of {len(jobs)} done, about {left:.0f} min left ({title})")
            else:
                failed.append(outcome)
                say(f"failed ({title}): {explain(outcome.error)}")
    if failed:
        raise _failure(jobs, failed)


def _failure(jobs: Sequence[Job], failed: Sequence[Outcome]) -> DusdiError:
    first = failed[0]
    assert first.error is not None
    kind = type(first.error) if isinstance(first.error, DusdiError) else DusdiError
    found = kind(
        f"{len(failed)} of {len(jobs)} jobs failed; the first, {first.job.kind} "
        f"{first.job.name}: {explain(first.error)}\nWhat is done is kept; start again to go on."
    )
    found.__cause__ = first.error
    return found


def _results(name: str, settings: Settings, experiment: Any) -> Any:
    """Returns what was measured, also before and of others than those chosen, if settings agree."""
    from dusdi.experiments.results import Results

    everywhere = dataclasses.replace(settings, worlds=(), tasks=())
    try:
        cells = experiment.cells(dataclasses.replace(everywhere, methods=()))
        if settings.methods:
            cells += [cell for cell in experiment.cells(everywhere) if cell not in cells]
    except UsageError:  # settings that other worlds or methods can't have
        cells = experiment.cells(settings)
    jobs = [cell.job for cell in cells]
    inputs = [needed for job in jobs for needed in job.run.inputs]
    records = read_records(settings.folders.records, [*jobs, *inputs])
    there = [cell for cell in cells if cell.job.key in records]
    wanted = _promising(experiment, cells, records)
    missing = [cell for cell in wanted if cell.job.key not in records]
    return Results(name, settings, there, records, missing)
