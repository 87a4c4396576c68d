"""The paper's tables and figures, each by one command: trains what is missing, measures it, writes CSV, PNG and Markdown.

Every training run has a folder of its own under `runs`, and experiments share those they have in common. A run that is there
is not trained again and one that was cut off goes on, so the command can be stopped and started at any time. Runs are trained
and measured one after the other on all cores, or side by side, each on its share of them, which takes less time in all.
A few worlds or tasks can be made anew without the others: what the files have of those stays, if it was made the same way.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dusdi.config import Config, configure
from dusdi.envs import WORLDS, make
from dusdi.errors import CheckpointError, UsageError, unknown_name
from dusdi.evaluation import evaluate_oracle, measure, measure_task
from dusdi.files import replacing, write_atomically
from dusdi.metrics.dci import NAMES
from dusdi.parallel import side_by_side
from dusdi.pretraining import pretrain
from dusdi.report import curves, score_bars, task_curves
from dusdi.run import origin, provenance, read_progress
from dusdi.task_learning import agent_config, downstream
from dusdi.tasks import CAUSAL_TASKS, TASKS, make_task

DIRECTIONS = {
    "skills to states": lambda result: result,
    "states to skills": lambda result: result["states_to_skills"],
}
FIG3 = {"with Q decomposition": {}, "without": {"decompose_q": False}}
LEAST_STEPS = 2_000  # of an evaluation
EPISODES = 100  # that the return of a downstream run is measured on
FIG4 = ("dusdi", "diayn", "diayn-mc")
REACHED = 0.5  # the mean accuracy whose first step Figure 3's table tells


@dataclass(frozen=True)
class Settings:
    """What to reproduce with.

    Attributes:
      out: folder of the tables and figures.
      runs: folder of the training runs.
      seeds: how many seeds, from 0.
      preset: settings of every run; `fields` change some of them.
      evaluation_steps: steps that DCI is measured on.
      worlds: those to make anew; default: all.
      tasks: of Figure 4, those to make anew; default: all of the worlds.
      task_fields: changes to the settings of downstream runs.
      jobs: how many runs to train or measure at a time.
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
    task_fields: Mapping[str, Any] = field(default_factory=dict)
    jobs: int = 1
    progress: bool = True

    @property
    def kind(self) -> dict[str, Any]:
        """What makes results comparable: they may stand in one table or figure if this is the same."""
        names = ("seeds", "preset", "fields", "task_fields", "evaluation_steps")
        return json.loads(json.dumps({name: getattr(self, name) for name in names}))

    def wanted(self, worlds: Iterable[str]) -> list[str]:
        """Those of an experiment's worlds that are to be made anew."""
        return [world for world in worlds if not self.worlds or world in self.worlds]


@dataclass(frozen=True)
class Job:
    """A training run that an experiment needs."""

    world: str
    seed: int
    fields: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The world and its options, in a few words."""
        return " ".join([self.world, *(f"{name}={value}" for name, value in self.options.items())])

    def config(self, settings: Settings) -> Config:
        fields = {**settings.fields, **self.fields, "seed": self.seed}
        return configure(settings.preset, make(self.world, **self.options).presets, fields)

    def folder(self, settings: Settings) -> Path:
        method, *others = (
            str(value) if name == "method" else f"{name}={value}"
            for name, value in self.fields.items()
        )
        options = (f"{name}={value}" for name, value in self.options.items())
        return settings.runs / "-".join([self.world, *options, method, *others, f"seed{self.seed}"])

    def check_installed(self) -> None:
        make(self.world, **self.options).check_installed()

    def train(self, settings: Settings) -> None:
        fields = {**settings.fields, **self.fields, "seed": self.seed}
        world = make(self.world, **self.options)
        out, progress = self.folder(settings), settings.progress
        pretrain(world, preset=settings.preset, out=out, resume=True, progress=progress, **fields)

    def report(self, settings: Settings) -> dict[str, Any] | None:
        """The scores of the run's only seed, if they are there: on as many steps as are wanted."""
        folder = self.folder(settings)
        found = _read_report(
            folder,
            "dci.json",
            {"evaluation_steps": settings.evaluation_steps, "evaluation_seed": 0},
        )
        return found if (folder / "dci.png").exists() else None

    def measure(self, settings: Settings) -> dict[str, Any]:
        steps, progress = settings.evaluation_steps, settings.progress
        return measure(self.folder(settings), steps=steps, progress=progress)


@dataclass(frozen=True)
class TaskJob:
    """A downstream run that an experiment needs; `skills` is the run it chooses from, none for soft actor-critic."""

    task: str
    agent: str
    seed: int
    skills: Job | None = None

    @property
    def place(self) -> str:
        return self.task

    @property
    def method(self) -> str:
        return str(self.skills.fields["method"]) if self.skills else self.agent

    @property
    def label(self) -> str:
        """Method and agent in a few words."""
        return self.method if self.agent in ("ppo", "sac") else f"{self.method} + {self.agent}"

    def config(self, settings: Settings) -> Any:
        return agent_config(
            make_task(self.task),
            self.agent,
            settings.preset,
            {**settings.task_fields, "seed": self.seed},
        )

    def folder(self, settings: Settings) -> Path:
        names = [
            self.task.replace("/", "-"),
            *([self.method] if self.skills else []),
            self.agent,
            f"seed{self.seed}",
        ]
        return settings.runs / "-".join(names)

    def check_installed(self) -> None:
        make_task(self.task).check_installed()

    def train(self, settings: Settings) -> None:
        skills = self.skills.folder(settings) if self.skills else None
        fields = {**settings.task_fields, "seed": self.seed}
        options: dict[str, Any] = {
            "preset": settings.preset,
            "resume": True,
            "progress": settings.progress,
        }
        downstream(
            skills, self.task, agent=self.agent, out=self.folder(settings), **options, **fields
        )

    def report(self, settings: Settings) -> dict[str, Any] | None:
        """The return of the run's only seed, if it is there."""
        return _read_report(
            self.folder(settings), "return.json", {"episodes": EPISODES, "evaluation_seed": 0}
        )

    def measure(self, settings: Settings) -> dict[str, Any]:
        return measure_task(self.folder(settings), episodes=EPISODES, progress=settings.progress)


def reproduce(name: str, settings: Settings) -> list[Path]:
    """Makes a table or figure of the paper; returns the files."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    if settings.seeds < 1:
        raise UsageError(f"seeds must be at least 1, not {settings.seeds}")
    if settings.evaluation_steps < LEAST_STEPS:
        raise UsageError(
            f"evaluation_steps must be at least {LEAST_STEPS:,} to mean something, not {settings.evaluation_steps}"
        )
    if settings.jobs < 1:
        raise UsageError(f"jobs must be at least 1, not {settings.jobs}")
    for kind, asked, known in (("world", settings.worlds, WORLDS), ("task", settings.tasks, TASKS)):
        for choice in asked:
            if choice not in known:
                raise unknown_name(kind, choice, known)
    _check_kept(name, settings)
    return EXPERIMENTS[name](settings)


def table1(settings: Settings) -> list[Path]:
    """Table 1: DCI of DUSDi and DIAYN-MC, beside the paper's figures and a hand-written oracle's"""
    methods = {world: tuple(WORLDS[world].paper_dci) for world in settings.wanted(paper_worlds())}
    jobs = [
        Job(world, seed, {"method": method})
        for world in methods
        for method in methods[world]
        for seed in range(settings.seeds)
    ]
    return _dci_table("table1", "Table 1: how disentangled the skills are", jobs, settings)


def more_factors(settings: Settings) -> list[Path]:
    """Beyond the paper: DCI of DUSDi in worlds with more factors than its own"""
    jobs = [
        Job(world, seed, {"method": "dusdi"}, options)
        for world in settings.wanted(WORLDS)
        for options in WORLDS[world].larger
        for seed in range(settings.seeds)
    ]
    return _dci_table("more-factors", "More factors than in the paper", jobs, settings)


def _dci_table(name: str, title: str, jobs: Sequence[Job], settings: Settings) -> list[Path]:
    """Trains and measures the runs, and writes their scores and the heat maps of seed 0."""
    _check_any(name, jobs)
    _train(jobs, settings)
    results: dict[tuple[str, str], list[dict[str, Any]]] = {}
    pictures = []
    for job, found in zip(jobs, _measure(jobs, settings), strict=True):
        method = str(job.fields["method"])
        results.setdefault((job.place, method), []).append(found)
        if job.seed == 0:
            place = job.place.replace(" ", "-")
            pictures.append(
                _copy(
                    job.folder(settings) / "dci.png", settings.out / f"{name}-{place}-{method}.png"
                )
            )
    ceilings = {
        place: _oracle(job, settings) for place, job in {job.place: job for job in jobs}.items()
    }
    paper = {job.place: {} if job.options else WORLDS[job.world].paper_dci for job in jobs}
    rows = [
        _dci_row(place, method, direction, found, ceilings[place], paper[place].get(method))
        for (place, method), found in results.items()
        for direction in DIRECTIONS
    ]
    runs = _origins(name, jobs, settings)
    rows = _with_kept(settings.out / f"{name}.csv", rows, "world", runs)
    files = [
        _write_csv(settings.out / f"{name}.csv", rows),
        _write(settings.out / f"{name}.md", _dci_markdown(name, title, rows, runs, settings)),
        _write_origins(name, runs, settings),
    ]
    score_bars(
        rows, settings.out / f"{name}.png", title="Disentanglement, completeness, informativeness"
    )
    return [*files, settings.out / f"{name}.png", *pictures]


def fig3(settings: Settings) -> list[Path]:
    """Figure 3: accuracy of the discriminators over environment steps, with and without Q decomposition"""
    jobs = {
        (world, label, seed): Job(world, seed, {"method": "dusdi", **fields})
        for world in settings.wanted(paper_worlds())
        for label, fields in FIG3.items()
        for seed in range(settings.seeds)
    }
    _check_any("fig3", jobs)
    _train(jobs.values(), settings)
    rows = []
    for (world, label, seed), job in jobs.items():
        for row in _read_curve(job.folder(settings), ("step", "seconds", "accuracy")):
            rows.append({"world": world, "critic": label, "seed": seed, **row})
    runs = _origins("fig3", list(jobs.values()), settings)
    rows = _with_kept(settings.out / "fig3.csv", rows, "world", runs)
    files = [
        _write_csv(settings.out / "fig3.csv", rows),
        _write(settings.out / "fig3.md", _fig3_markdown(rows, runs, settings)),
        _write_origins("fig3", runs, settings),
    ]
    curves(
        rows,
        settings.out / "fig3.png",
        title="Accuracy of the skill discriminators",
        chance=_chance(jobs.values(), settings),
    )
    return [*files, settings.out / "fig3.png"]


def fig4(settings: Settings) -> list[Path]:
    """Figure 4: return over environment steps in every task, of skills chosen by PPO and of flat soft actor-critic"""
    jobs = []
    for task in settings.tasks or [task for task in TASKS if settings.wanted([task.split("/")[0]])]:
        for seed in range(settings.seeds):
            jobs += [
                TaskJob(task, "ppo", seed, Job(task.split("/")[0], seed, {"method": method}))
                for method in FIG4
            ]
            jobs.append(TaskJob(task, "sac", seed))
    return _task_figure("fig4", "Figure 4: learning tasks with skills", jobs, settings)


def fig6(settings: Settings) -> list[Path]:
    """Figure 6: return over environment steps with and without the causal policy gradient"""
    jobs = [
        TaskJob(task, agent, seed, Job(task.split("/")[0], seed, {"method": "dusdi"}))
        for task in CAUSAL_TASKS
        if settings.wanted([task.split("/")[0]])
        for agent in ("ppo", "cpg")
        for seed in range(settings.seeds)
    ]
    return _task_figure("fig6", "Figure 6: the causal policy gradient", jobs, settings)


#: What can be reproduced, by name.
EXPERIMENTS: dict[str, Callable[[Settings], list[Path]]] = {
    "table1": table1,
    "fig3": fig3,
    "fig4": fig4,
    "fig6": fig6,
    "more-factors": more_factors,
}


def paper_worlds() -> list[str]:
    """The worlds that the paper measures DCI in."""
    return [name for name, world in WORLDS.items() if world.paper_dci]


# --- training and measuring what is missing ---


def _train(jobs: Iterable[Job | TaskJob], settings: Settings) -> None:
    """Trains the runs that are not finished, after looking at all of them for what can't work."""
    jobs = list(jobs)
    for job in jobs:
        job.check_installed()
        _check_same_config(job, settings)
    skills = {
        job.skills.folder(settings): job.skills
        for job in jobs
        if isinstance(job, TaskJob) and job.skills
    }
    if skills:
        _train(skills.values(), settings)
    _each(
        "train",
        [
            job
            for job in jobs
            if origin(job.folder(settings)).get("step", 0) < job.config(settings).steps
        ],
        settings,
    )


def _measure(jobs: Sequence[Job | TaskJob], settings: Settings) -> list[dict[str, Any]]:
    """Reports on all runs; those that are not there are made."""
    there = [job.report(settings) for job in jobs]
    made = iter(
        _each(
            "measure",
            [job for job, report in zip(jobs, there, strict=True) if report is None],
            settings,
        )
    )
    return [report or next(made) for report in there]


def _each(what: str, jobs: Sequence[Job | TaskJob], settings: Settings) -> list[Any]:
    """What "train" or "measure" gives for each job."""
    count, began = min(settings.jobs, len(jobs)), time.monotonic()

    def tell(text: str, index: int) -> None:
        if settings.progress:
            print(f"{text}: {jobs[index].folder(settings).name}", file=sys.stderr, flush=True)

    if count > 1:
        finished: list[int] = []
        if settings.progress:
            print(f"{what} {len(jobs)} runs, {count} at a time", file=sys.stderr, flush=True)

        def tell_done(index: int) -> None:
            finished.append(index)
            left = (time.monotonic() - began) * (len(jobs) / len(finished) - 1) / 60
            tell(f"{what} {len(finished)} of {len(jobs)} done, about {left:.0f} min left", index)

        return side_by_side(
            _call,
            [(what, job, replace(settings, progress=False)) for job in jobs],
            count,
            tell_done,
        )
    results = []
    for index, job in enumerate(jobs):
        tell(f"{what} {index + 1} of {len(jobs)}", index)
        results.append(_call(what, job, settings))
    return results


def _call(what: str, job: Job | TaskJob, settings: Settings) -> Any:
    return getattr(job, what)(settings)


def _read_report(folder: Path, name: str, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The report on a run, if it is there and is what would be made now: of this run, by this code."""
    report = _read_json(folder / name) or {}
    wanted = {"measured_with": provenance(), "run": origin(folder), **wanted}
    return (
        report
        if all(report.get(key) == json.loads(json.dumps(value)) for key, value in wanted.items())
        else None
    )


def _read_curve(folder: Path, columns: Sequence[str]) -> list[dict[str, float]]:
    """Columns of a run's progress.csv as numbers."""
    path = folder / "progress.csv"
    found: list[dict[str, float]] = []
    try:
        header, rows, damaged = read_progress(path)
        places = [header.index(name) for name in columns]
        found = [
            {name: float(row[i]) for name, i in zip(columns, places, strict=True)} for row in rows
        ]
    except ValueError:
        damaged = 1
    if damaged:
        raise CheckpointError(f"{path} is damaged; remove {folder} to have that run trained again")
    return [row | {"step": int(row["step"])} for row in found]


def _read_json(path: Path) -> dict[str, Any] | None:
    """What a JSON file of ours holds; None if it is not there or damaged, so that it is made anew."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _check_same_config(job: Job | TaskJob, settings: Settings) -> None:
    written, ours = job.folder(settings) / "config.json", job.config(settings)
    theirs = (_read_json(written) or {}).get("config")
    if not isinstance(theirs, dict):
        return
    for name, value in json.loads(json.dumps(ours.to_json())).items():
        if theirs.get(name) != value:
            raise UsageError(
                f"{written.parent} holds a run with {name} = {theirs.get(name)}, but {value} is wanted now; "
                "remove it, or choose another folder for the runs (--runs)"
            )


def _task_figure(name: str, title: str, jobs: Sequence[TaskJob], settings: Settings) -> list[Path]:
    """Trains and measures downstream runs, and writes their learning curves and a table of where they end."""
    _check_any(name, jobs)
    _train(jobs, settings)
    points, finals = [], []
    for job, found in zip(jobs, _measure(jobs, settings), strict=True):
        folder = job.folder(settings)
        head = {"task": job.task, "method": job.label, "seed": job.seed}
        for row in _read_curve(folder, ("step", "seconds", "return", "episodes")):
            if row.pop("episodes"):
                points.append({**head, **row})
        ends = {key: found.get(key, "") for key in ("return", "random_skills", "hand_written")}
        finals.append({**head, **ends, "seconds": round(found["run"]["seconds"], 1)})
    runs = _origins(name, jobs, settings)
    points = _with_kept(settings.out / f"{name}.csv", points, "task", runs)
    finals = _with_kept(settings.out / f"{name}-final.csv", finals, "task", runs)
    files = [
        _write_csv(settings.out / f"{name}.csv", points),
        _write_csv(settings.out / f"{name}-final.csv", finals),
        _write(
            settings.out / f"{name}.md", _task_markdown(name, title, points, finals, runs, settings)
        ),
        _write_origins(name, runs, settings),
    ]
    task_curves(points, finals, settings.out / f"{name}.png", title=title)
    return [*files, settings.out / f"{name}.png"]


def _task_markdown(
    name: str,
    title: str,
    points: Sequence[dict],
    finals: Sequence[dict],
    runs: Mapping[str, dict],
    settings: Settings,
) -> str:
    """Per task: where each method ends, as a share of the way from random skills to the hand-written solution too."""
    lines = [
        f"# {title}",
        "",
        f"Return per episode over {EPISODES} episodes with the most probable decisions, mean ± standard deviation over "
        f"{settings.seeds} seeds.",
        "Random skills are those of the first method, the hand-written solution is a ceiling; the share is of the way between.",
        "While learning is the mean of the whole learning curve, with decisions drawn at random: who learns sooner earns more.",
        "The last column is the step at which the learning curve (mean of the seeds) first gets where the first method's ends.",
        "",
    ]
    for task in dict.fromkeys(row["task"] for row in finals):
        own = [row for row in finals if row["task"] == task]
        methods = list(dict.fromkeys(row["method"] for row in own))
        floor = float(np.mean([row["random_skills"] for row in own if row["method"] == methods[0]]))
        ceiling = float(own[0]["hand_written"]) if own[0]["hand_written"] != "" else None
        bar = _mean_curve(points, task, methods[0])[-1][1]
        lines += [
            f"## {task}",
            "",
            f"Random skills {floor:,.1f}, "
            + (
                f"hand-written solution {ceiling:,.1f}."
                if ceiling is not None
                else "no hand-written solution."
            ),
            "",
            "| | return | share | while learning | seconds per seed | steps to the first method's end |",
            "|---|---|---|---|---|---|",
        ]
        for method in methods:
            curve = _mean_curve(points, task, method)
            values = [row["return"] for row in own if row["method"] == method]
            spread = f" ± {np.std(values, ddof=1):,.1f}" if len(values) > 1 else ""
            share = (
                f"{(np.mean(values) - floor) / (ceiling - floor):.0%}"
                if ceiling is not None
                else ""
            )
            seconds = np.mean([row["seconds"] for row in own if row["method"] == method])
            reached = next((f"{step:,}" for step, value in curve if value >= bar), "never")
            sooner = (
                f"{np.mean([value for _, value in curve]):,.1f}" if curve else ""
            )  # no episode may have ended
            lines.append(
                f"| {method} | {np.mean(values):,.1f}{spread} | {share} | {sooner} | {seconds:.0f} | {reached} |"
            )
        lines.append("")
    return "\n".join([*lines, *_made_by(name, runs, settings)])


def _mean_curve(points: Sequence[dict], task: str, method: str) -> list[tuple[int, float]]:
    """Steps and the mean return of the seeds."""
    values: dict[int, list[float]] = {}
    for row in points:
        if (row["task"], row["method"]) == (task, method):
            values.setdefault(row["step"], []).append(row["return"])
    return [(step, float(np.mean(found))) for step, found in sorted(values.items())]


def _oracle(job: Job, settings: Settings) -> dict[str, Any] | None:
    if WORLDS[job.world].oracle is None:
        return None
    if settings.progress:
        print(f"measuring the oracle of {job.place}", file=sys.stderr)
    world, length = make(job.world, **job.options), job.config(settings).skill_length
    steps, progress = settings.evaluation_steps, settings.progress
    return evaluate_oracle(world, skill_length=length, steps=steps, progress=progress).to_json()


def _chance(jobs: Iterable[Job], settings: Settings) -> float:
    return 1 / next(iter(jobs)).config(settings).skill_values


# --- tables ---


def _dci_row(
    world: str,
    method: str,
    direction: str,
    reports: Sequence[dict],
    oracle: dict | None,
    paper: tuple[float, ...] | None,
) -> dict[str, Any]:
    """A row of the CSV: for each score the mean, spread and values of the seeds, the paper's value and the oracle's."""
    pick = DIRECTIONS[direction]
    row: dict[str, Any] = {
        "world": world,
        "method": method,
        "direction": direction,
        "seeds": len(reports),
    }
    row["seconds_per_seed"] = round(
        float(np.mean([report["run"]["seconds"] for report in reports])), 1
    )
    for name, published in zip(NAMES, paper or ("",) * len(NAMES), strict=True):
        values = [pick(report)[name] for report in reports]
        row[name] = round(float(np.mean(values)), 4)
        row[f"{name}_std"] = round(float(np.std(values, ddof=1)), 4) if len(values) > 1 else ""
        row[f"{name}_paper"] = published
        row[f"{name}_oracle"] = round(pick(oracle)[name], 4) if oracle else ""
        row[f"{name}_of_each_seed"] = " ".join(f"{value:.4f}" for value in values)
    return row


def _dci_markdown(
    name: str, title: str, rows: Sequence[dict], runs: Mapping[str, dict], settings: Settings
) -> str:
    lines = [
        f"# {title}",
        "",
        f"DCI on {settings.evaluation_steps:,} steps, mean ± standard deviation over {settings.seeds} seeds.",
        "The paper's text measures from skills to states, its first release from states to skills.",
        "The oracle is a hand-written policy that does what each component asks: a ceiling set by world and metric.",
        "",
    ]
    for world in dict.fromkeys(row["world"] for row in rows):
        lines += [
            f"## {world}",
            "",
            "| | disentanglement | completeness | informativeness | seconds per seed |",
            "|---|---|---|---|---|",
        ]
        ours = [row for row in rows if row["world"] == world]
        for row in ours:
            cells = [_mean_and_std(row, score) for score in NAMES]
            lines.append(
                f"| {row['method']}, {row['direction']} | {' | '.join(cells)} | {row['seconds_per_seed']:.0f} |"
            )
            if row["method"] == "dusdi" and row["disentanglement_oracle"] != "":
                shares = [f"{row[score] / row[f'{score}_oracle']:.0%}" for score in NAMES]
                lines.append(f"| – share of the oracle's | {' | '.join(shares)} | |")
        for row in ours[:2]:
            if row["disentanglement_oracle"] != "":
                oracle = [f"{row[f'{score}_oracle']:.3f}" for score in NAMES]
                lines.append(f"| oracle, {row['direction']} | {' | '.join(oracle)} | |")
        for row in ours[::2]:
            if row["disentanglement_paper"] == "":
                continue
            paper = [f"{row[f'{score}_paper']:.3f}" for score in NAMES]
            lines.append(f"| paper, {row['method']} | {' | '.join(paper)} | |")
        note = WORLDS[world.split()[0]].paper_note
        lines += ["", note, ""] if note else [""]
    return "\n".join([*lines, *_made_by(name, runs, settings)])


def _mean_and_std(row: dict, name: str) -> str:
    spread = row[f"{name}_std"]
    return f"{row[name]:.3f}" + (f" ± {spread:.3f}" if spread != "" else "")


def _fig3_markdown(rows: Sequence[dict], runs: Mapping[str, dict], settings: Settings) -> str:
    lines = [
        "# Figure 3: does Q decomposition help?",
        "",
        f"Mean accuracy of the discriminators q_φ on replayed states, mean ± standard deviation over {settings.seeds} seeds.",
        "The paper shows curves only: about equal in its simplest world, decomposition far ahead where there are many factors.",
        "",
        f"| world | critic | accuracy in the end | steps to {REACHED} (mean of the seeds that got there) | seconds per seed |",
        "|---|---|---|---|---|",
    ]
    for world, critic in dict.fromkeys((row["world"], row["critic"]) for row in rows):
        finals, reached, seconds = [], [], []
        for seed in range(settings.seeds):
            own = [
                row
                for row in rows
                if (row["world"], row["critic"], row["seed"]) == (world, critic, seed)
            ]
            finals.append(own[-1]["accuracy"])
            seconds.append(own[-1]["seconds"])
            reached += [row["step"] for row in own if row["accuracy"] >= REACHED][:1]
        spread = f" ± {np.std(finals, ddof=1):.3f}" if len(finals) > 1 else ""
        steps = (
            f"{np.mean(reached):,.0f} ({len(reached)} of {settings.seeds})" if reached else "never"
        )
        lines.append(
            f"| {world} | {critic} | {np.mean(finals):.3f}{spread} | {steps} | {np.mean(seconds):.0f} |"
        )
    return "\n".join([*lines, "", *_made_by("fig3", runs, settings)])


def _made_by(name: str, runs: Mapping[str, dict], settings: Settings) -> list[str]:
    changes = {
        **settings.fields,
        **{f"task {name}": value for name, value in settings.task_fields.items()},
    }
    changed = "".join(f", {name} {value}" for name, value in changes.items())
    commits = sorted({run["made_with"]["commit"] or "unknown" for run in runs.values()})
    cores = sorted({run.get("cores", 0) for run in runs.values()})
    on = (
        f" on {' or '.join(map(str, cores))} {'core' if cores == [1] else 'cores'} each"
        if all(cores)
        else ""
    )
    return [
        f"Made by `dusdi reproduce {name}`, preset `{settings.preset}`{changed}.",
        f"Trained at commit {', '.join(commits)}{on}.",
        f"Configs, versions and wall times of all runs are in `{name}.json`.",
        "",
    ]


# --- what is there already ---


def _check_any(name: str, jobs: Collection[Any]) -> None:
    if not jobs:
        raise UsageError(f"{name} has nothing to do with these worlds; `dusdi envs` lists them")


def _before(name: str, settings: Settings) -> dict[str, Any]:
    """What there is of an experiment of which only a part is made anew."""
    path = settings.out / f"{name}.json"
    if not path.exists() or not (settings.worlds or settings.tasks):
        return {}
    before = _read_json(path)
    if before is None:
        raise UsageError(
            f"{path} is damaged, so nothing can be put beside it; remove it, or choose another folder (--out)"
        )
    return before


def _check_kept(name: str, settings: Settings) -> None:
    """Refuses to put what is made anew beside results that were made in another way."""
    before = _before(name, settings)
    theirs = before.get("settings", {})
    for field_name, value in settings.kind.items() if before else ():
        if theirs.get(field_name) != value:
            raise UsageError(
                f"{settings.out / name}.json holds results with {field_name} = {theirs.get(field_name)}, but {value} is wanted "
                "now; choose another folder (--out), or make all worlds and tasks anew"
            )


def _origins(name: str, jobs: Sequence[Job | TaskJob], settings: Settings) -> dict[str, dict]:
    """Where everything comes from: config, seed, versions, commit and wall time of every run, by its name; kept ones first."""
    ours = {
        job.folder(settings).name: {"place": job.place, **origin(job.folder(settings))}
        for job in jobs
    }
    made, before = {job.place for job in jobs}, _before(name, settings).get("runs", {})
    return {run_name: run for run_name, run in before.items() if run["place"] not in made} | ours


def _write_origins(name: str, runs: Mapping[str, dict], settings: Settings) -> Path:
    report = {"made_with": provenance(), "settings": settings.kind, "runs": runs}
    return _write(settings.out / f"{name}.json", json.dumps(report, indent=1) + "\n")


def _with_kept(path: Path, rows: Sequence[dict], key: str, runs: Mapping[str, dict]) -> list[dict]:
    """New rows of a table and those in its file whose runs are kept, in the order in which worlds and tasks are listed."""
    kept = {run["place"] for run in runs.values()} - {row[key] for row in rows}
    there = [row for row in _read_csv(path) if row[key] in kept] if kept else []
    order = [*WORLDS, *TASKS]
    return sorted([*there, *rows], key=lambda row: order.index(row[key].split()[0]))


def _read_csv(path: Path) -> list[dict[str, Any]]:
    """What `_write_csv` wrote, with its numbers."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: _number(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _number(text: str) -> Any:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def _write(path: Path, text: str) -> Path:
    write_atomically(path, text)
    return path


def _copy(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(source, target))
