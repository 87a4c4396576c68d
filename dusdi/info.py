"""What a run's folder holds, read in a moment: descriptions, metrics and scores, but no arrays.

Nothing here needs a sound run. What is damaged is left out and told among the problems.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dusdi import checkpoint
from dusdi.config import Config, PPOConfig, configure, from_json
from dusdi.envs import WORLDS, make
from dusdi.envs.base import HostWorld
from dusdi.errors import CheckpointError
from dusdi.metrics.dci import NAMES
from dusdi.objectives import make_objective
from dusdi.run import read_progress
from dusdi.skill_space import Discrete
from dusdi.task_learning import agent_config
from dusdi.tasks import TASKS, make_task
from dusdi.types import WorldSpec, idle_components

#: Settings that say what a run is, rather than how it differs from its preset.
NAMING = {"preset", "method", "agent", "seed", "seeds"}
SCORES = (*NAMES, "return", "random_skills", "hand_written")
OWN_WORLD = "YOUR_WORLD"  # gym:ID, package.module:function or ./file.py:function
WHEN = ("step", "seed", "seconds")  # the columns of progress.csv that are no metrics


@dataclass(frozen=True)
class RunInfo:
    """A run's folder in short.

    Attributes:
      folder: where it is.
      description: config, world and versions, by config.json or else by its newest checkpoint.
      step: of its newest checkpoint, or of the last row of progress.csv.
      seconds: of training until then.
      rows: progress.csv, a dictionary of numbers for each seed and log point.
      scores: the `dci.json` or `return.json` that `dusdi evaluate` wrote; empty if it did not.
      files: sizes in bytes, by name.
      problems: what is wrong with it.
    """

    folder: Path
    description: Mapping[str, Any]
    step: int
    seconds: float
    rows: list[dict[str, float]]
    scores: Mapping[str, Any]
    files: dict[str, int]
    problems: list[str] = field(default_factory=list)

    @property
    def config(self) -> Mapping[str, Any]:
        return self.description["config"]

    @property
    def is_task(self) -> bool:
        """Whether the run solves a task; if not, it discovers skills."""
        return "skills" in self.description or self.config.get("method") == "extrinsic"

    @property
    def method(self) -> str:
        """The method, or the agent and the method of the skills that it chooses from."""
        if "agent" not in self.config:
            return "sac" if self.is_task else str(self.config.get("method"))
        skills: Any = self.description.get("skills")
        over = f" over {skills['config'].get('method')}" if _is_description(skills) else ""
        return f"{self.config['agent']}{over}"

    @property
    def world(self) -> str:
        """The world or task with its options."""
        world = self.description["world"]
        options = world.get("options", {}).items()
        return " ".join([world["name"], *(f"{name}={value}" for name, value in options)])

    @property
    def steps(self) -> int:
        """How many steps it is to have."""
        return self.config["steps"]

    @property
    def rate(self) -> float:
        """Steps per second since the first log row, before which programs are compiled."""
        first, last = (self.rows[0], self.rows[-1]) if self.rows else ({}, {})
        seconds = last.get("seconds", 0.0) - first.get("seconds", 0.0)
        if seconds > 0.0:
            return (last["step"] - first["step"]) / seconds
        return self.step / self.seconds if self.seconds else math.nan

    @property
    def last_rows(self) -> list[dict[str, float]]:
        """The last row of each seed."""
        return [row for row in self.rows if row["step"] == self.rows[-1]["step"]]

    @property
    def last_metrics(self) -> list[dict[str, float]]:
        """What was logged last of each seed, without when."""
        names = [name for name in (self.rows[-1] if self.rows else ()) if name not in WHEN]
        return [{name: row[name] for name in names} for row in self.last_rows]

    @property
    def metric(self) -> str:
        """The one that tells how far learning is; empty if nothing was logged."""
        names = ("return",) if self.is_task else ("accuracy", "squared_error")
        return next((name for name in names if self.rows and name in self.rows[-1]), "")

    @property
    def curve(self) -> list[dict[str, float]]:
        """The rows whose metric is a number: a return is none until an episode is over."""
        return [row for row in self.rows if self.metric and math.isfinite(row[self.metric])]

    @property
    def changes(self) -> dict[str, tuple[Any, Any]]:
        """The settings that are not the preset's in this world: the run's and the preset's."""
        return _changes(self.description)

    @property
    def chance(self) -> float | None:
        """The accuracy of guessing a value of a component; None if components have no values."""
        return _chance(self.description)

    @property
    def at_chance(self) -> list[str]:
        """The components whose skill the discriminators could hardly tell when last logged."""
        return list(idle_components(self.last_metrics, self.chance))

    def score(self, name: str) -> float | None:
        """A number that was measured; None if it was not."""
        value = self.scores.get(name)
        return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else None

    @property
    def measured_at(self) -> int:
        """The step that the scores are of."""
        run = self.scores.get("run")
        return run.get("step", self.step) if isinstance(run, dict) else self.step

    @property
    def next_commands(self) -> list[str]:
        """What to do with the run now; a world that dusdi can't make by name has to be named."""
        run, world = shlex.quote(str(self.folder)), self.description["world"]
        known = world["name"] in (TASKS if self.is_task else WORLDS)
        place, env = (world["name"], "") if known else (OWN_WORLD, f" --env {OWN_WORLD}")
        if self.step < self.steps and self.is_task:
            builds_on = {"skills", "start"} & set(self.description)
            skills = "RUN_IT_BUILDS_ON" if builds_on else "scratch"
            agent = self.config.get("agent", "sac")
            return [f"dusdi downstream {skills} {place} --agent {agent} --out {run} --resume"]
        if self.step < self.steps:
            options = world.get("options", {}).items() if known else ()
            given = [shlex.quote(f"{name}={value}") for name, value in options]
            asked = "".join(f" --env-option {option}" for option in given)
            return [f"dusdi pretrain {place}{asked} --out {run} --resume"]
        if not self.scores or self.measured_at != self.step:
            return [f"dusdi evaluate {run}{env}"]
        if self.is_task:
            return [f"dusdi render {run} --out task.mp4{env}"]
        tasks = [task for task in TASKS if task.split("/")[0] == world["name"]]
        use = [f"dusdi downstream {run} {task}" for task in tasks[:1]]
        return [f"dusdi render {run} --out skills.mp4{env}", *use]

    def lines(self) -> list[tuple[str, str]]:
        """What there is to say but for the metrics, each with a heading of one or two words."""
        config, changes = self.config, self.changes.items()
        made = self.description.get("made_with", {})
        scores = [(name, value) for name in SCORES if (value := self.score(name)) is not None]
        more = config.get("seeds", 1) - 1
        logged = int(self.rows[-1]["step"]) if self.rows else 0
        said = [
            ("run", str(self.folder)),
            ("kind", "solution of a task" if self.is_task else "skills"),
            ("task" if self.is_task else "world", self.world),
            ("factors", ", ".join(_factor_texts(self.description))),
            ("method", self.method),
            ("preset", str(config.get("preset"))),
            ("changed", ", ".join(f"{name} {ours} ({theirs})" for name, (ours, theirs) in changes)),
            ("seed", f"{config.get('seed')}" + (f" and the {more} after it" if more else "")),
            ("done", f"{self.step:,} of {self.steps:,} steps in {self.seconds:,.0f} s"),
            ("rate", f"{self.rate:,.0f} steps/s"),
            ("logged", f"until step {logged:,}" if logged > self.step else ""),
            ("made with", ", ".join(f"{name} {text}" for name, text in made.items() if text)),
            ("at chance", ", ".join(self.at_chance)),
            ("scores", ", ".join(f"{name} {value:.3f}" for name, value in scores)),
            (
                "measured",
                f"at step {self.measured_at}; evaluate again"
                if self.measured_at != self.step
                else "",
            ),
            ("files", ", ".join(f"{name} ({size:,} B)" for name, size in self.files.items())),
            *(("problem", problem) for problem in self.problems),
            *(("next", command) for command in self.next_commands),
        ]
        return [(heading, text) for heading, text in said if text]

    def to_json(self) -> dict[str, Any]:
        changes = self.changes.items()
        return {
            "folder": str(self.folder),
            "kind": "task" if self.is_task else "skills",
            "method": self.method,
            **self.description,
            "step": self.step,
            "steps": self.steps,
            "seconds": self.seconds,
            "steps_per_second": None if math.isnan(self.rate) else self.rate,
            "changes": {name: {"run": ours, "preset": theirs} for name, (ours, theirs) in changes},
            "metrics": [_finite(row) for row in self.last_rows],
            "at_chance": self.at_chance,
            "scores": dict(self.scores) or None,
            "files": self.files,
            "problems": self.problems,
            "next": self.next_commands,
        }


def saved_world(folder: Path) -> WorldSpec | None:
    """The world of the newest checkpoint in a run's folder; None if there is none that can be read."""
    try:
        return WorldSpec.from_json(_newest_description(folder / "checkpoints", [])["world"])
    except (CheckpointError, KeyError, TypeError, ValueError, AttributeError):
        return None


def read_run(path: str | Path) -> RunInfo:
    """What is in a run's folder, however damaged.

    Raises a `CheckpointError` if nothing there says what run it is.
    """
    path = Path(path)
    problems: list[str] = []
    folder = path.parent.parent if path.is_file() else path
    written = _read_json(folder / "config.json", problems)
    saved = _newest_description(folder / "checkpoints", problems)
    if not _is_description(written) and not _is_description(saved):
        reasons = "; ".join(problems) or "nothing there describes one"
        raise CheckpointError(f"{path} holds no run: {reasons}")
    if not _is_description(written):
        problems.append("config.json does not describe a run; this is from the newest checkpoint")
    if not _is_description(saved):
        problems.append("there is no checkpoint that can be read")
    rows = _read_rows(folder / "progress.csv", problems)
    last = rows[-1] if rows else {"step": 0, "seconds": 0.0}
    scores = [_read_json(folder / name, problems) for name in ("dci.json", "return.json")]
    return RunInfo(
        folder=folder,
        description=written if _is_description(written) else saved,
        step=int(saved.get("step", last["step"])),
        seconds=float(saved.get("seconds", last["seconds"])),
        rows=rows,
        scores=scores[0] or scores[1],
        files=_sizes(folder),
        problems=problems,
    )


def _is_description(found: Any) -> bool:
    """Whether it tells a run's settings and its world."""
    if not isinstance(found, dict):
        return False
    config, world = found.get("config"), found.get("world")
    if not isinstance(config, dict) or not isinstance(world, dict):
        return False
    wanted = [
        (world.get("name"), str),
        (world.get("options", {}), dict),
        (config.get("steps"), int),
        (config.get("seeds", 1), int),
        (found.get("made_with", {}), dict),
    ]
    return all(isinstance(value, kind) for value, kind in wanted)


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
    """What the newest checkpoint with a sound header says of its run; empty if there is none."""
    for path in checkpoint.newest_first(folder):
        try:
            found = checkpoint.read_description(path)
            return {**found, "step": int(found["step"]), "seconds": float(found["seconds"])}
        except (CheckpointError, KeyError, TypeError, ValueError) as error:
            problems.append(
                str(error) if isinstance(error, CheckpointError) else f"{path.name} lacks {error}"
            )
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
    sound = [row for row in rows if row]
    damaged += len(rows) - len(sound)
    if damaged:
        problems.append(f"{damaged} rows of {path.name} can't be read")
    return sound


def _numbers(header: list[str], line: list[str]) -> dict[str, float]:
    """A row of a progress.csv; empty if it is damaged."""
    try:
        row = {name: float(text) for name, text in zip(header, line, strict=True)}
        return row | {"step": int(row["step"]), "seed": int(row["seed"]), "seconds": row["seconds"]}
    except (ValueError, KeyError, OverflowError):
        return {}


def _sizes(folder: Path) -> dict[str, int]:
    """The sizes in bytes of the files in a run's folder and of its checkpoints."""
    paths = [path for path in (*folder.iterdir(), *folder.glob("checkpoints/*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.stat().st_size for path in sorted(paths)}


def _changes(description: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The settings that are not those of the run's preset in its world, each with the preset's."""
    config = json.loads(json.dumps(description["config"]))
    try:
        preset = json.loads(json.dumps(_preset_config(description).to_json()))
    except Exception:  # a preset, a world or options that this version does not know
        return {}
    names = [name for name in config if name in preset and name not in NAMING]
    return {name: (config[name], preset[name]) for name in names if config[name] != preset[name]}


def _preset_config(description: Mapping[str, Any]) -> Config | PPOConfig:
    """The config that the run would have if nobody had changed a setting."""
    config, name = description["config"], description["world"]["name"]
    options, preset = description["world"].get("options", {}), config["preset"]
    world: Any = HostWorld  # most likely
    if name in TASKS:
        world = make_task(name, **options)
    elif name in WORLDS:
        world = make(name, **options)
    if "agent" in config:
        return agent_config(world, config["agent"], preset, {})
    if config["method"] == "extrinsic":
        return agent_config(world, "sac", preset, {})
    return configure(preset, world.presets, {"method": config["method"]})


def _chance(description: Mapping[str, Any]) -> float | None:
    """The accuracy of guessing a value of a component; None if that can't be said."""
    try:
        spec = WorldSpec.from_json(description["world"])
        space = make_objective(spec, from_json(description["config"])).skill_space
    except Exception:  # a run of a task, or of another version
        return None
    return 1.0 / space.component_size if isinstance(space, Discrete) else None


def _factor_texts(description: Mapping[str, Any]) -> list[str]:
    """The factors with their sizes, as far as they can be read."""
    try:
        factors = WorldSpec.from_json(description["world"]).factors
    except Exception:  # a world that is not described as it should be
        return []
    kinds = ["" if factor.controlled else ", no skill" for factor in factors]
    sizes = [len(factor.indices) for factor in factors]
    return [f"{f.name} ({size}{kind})" for f, size, kind in zip(factors, sizes, kinds, strict=True)]


def _finite(row: Mapping[str, float]) -> dict[str, float | None]:
    """A row as JSON knows it, which has no NaN."""
    return {name: value if math.isfinite(value) else None for name, value in row.items()}
