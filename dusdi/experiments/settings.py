"""What to reproduce with, and the cells that an experiment consists of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dusdi.envs import WORLDS
from dusdi.errors import UsageError, unknown_name
from dusdi.experiments.jobs import Job, skills_job, task_job
from dusdi.experiments.running import Folders
from dusdi.methods import METHODS
from dusdi.tasks import TASKS

LEAST_STEPS = 2_000  # that DCI is measured on
MOST_SEEDS = 10  # of an experiment: those for reporting and for tuning stay apart
FIRST_TUNING_SEED = 100


@dataclass(frozen=True)
class Settings:
    """What to reproduce with.

    Attributes:
      out: folder of the tables and figures; its folder `records` has what every job measured.
      runs: folder of the training runs.
      seeds: how many seeds.
      preset: settings of every run; `fields` change some of them.
      evaluation_steps: steps that DCI is measured on.
      worlds: those whose missing jobs are run; default: all. Others are shown if they have records.
      tasks: the same for tasks.
      methods: the same for the methods that an experiment lets one choose, see
        `dusdi.experiments.checks`; default: those that say so, see `Method.experiments`.
      task_fields: changes to the settings of downstream runs.
      jobs: how many jobs to run at a time.
      progress: whether to show how far things are.
    """

    out: Path = Path("results")
    runs: Path = Path("runs/reproduce")
    seeds: int = 3
    preset: str = "fast"
    fields: Mapping[str, Any] = field(default_factory=dict)
    evaluation_steps: int = 100_000
    worlds: Sequence[str] = ()
    tasks: Sequence[str] = ()
    methods: Sequence[str] = ()
    task_fields: Mapping[str, Any] = field(default_factory=dict)
    jobs: int = 1
    progress: bool = True

    @property
    def folders(self) -> Folders:
        return Folders(self.runs, self.out / "records")

    def check(self) -> None:
        """Raises a `UsageError` for numbers and names that can't be."""
        for name in ("seeds", "jobs"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.seeds > MOST_SEEDS:
            raise UsageError(
                f"seeds must be at most {MOST_SEEDS}, not {self.seeds}: 0 to 9 are for reporting, "
                "and 100 to 109 for tuning"
            )
        if self.evaluation_steps < LEAST_STEPS:
            raise UsageError(
                f"evaluation_steps must be at least {LEAST_STEPS:,} to mean something, "
                f"not {self.evaluation_steps}"
            )
        for kind, names, known in (("world", self.worlds, WORLDS), ("task", self.tasks, TASKS)):
            for name in names:
                if name not in known:
                    raise unknown_name(kind, name, known)

    def chosen(self, names: Iterable[str]) -> list[str]:
        """Returns those of an experiment's worlds or tasks that are to be made."""
        return [
            name
            for name in names
            if (not self.worlds or name.split("/")[0] in self.worlds)
            and (not self.tasks or name in self.tasks)
        ]

    def chosen_methods(self, experiment: str) -> Sequence[str]:
        """Returns the methods that an experiment is to be made with."""
        own = [name for name, method in METHODS.items() if experiment in method.experiments]
        return self.methods or own

    def skills(self, world: str, method: str, seed: int, **options: Any) -> Job:
        """Returns the job of skill discovery with these settings; see `skills_job`."""
        fields = {**self.fields, **options.pop("fields", {})}
        return skills_job(world, method, seed, preset=self.preset, fields=fields, **options)

    def task(self, task: str, agent: str, seed: int, skills: Job | None, **options: Any) -> Job:
        """Returns the downstream job with these settings; see `task_job`."""
        fields = {**self.task_fields, **options.pop("fields", {})}
        return task_job(task, agent, seed, skills, preset=self.preset, fields=fields, **options)


@dataclass(frozen=True)
class Cell:
    """A job of an experiment.

    Attributes:
      labels: of its rows in the table.
      job: what is made.
      varied: the settings that the experiment varies on purpose in this job.
    """

    labels: Mapping[str, Any]
    job: Job
    varied: frozenset[str] = frozenset()


def paper_worlds() -> list[str]:
    """Returns the worlds that the paper measures DCI in."""
    return [name for name, world in WORLDS.items() if world.published_dci]
