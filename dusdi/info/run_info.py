"""A run's folder in short: what it is, how far it is, what it reached."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dusdi.info.commands import next_commands
from dusdi.info.settings import (
    changed_settings,
    component_order,
    factor_texts,
    is_description,
    skill_space,
)
from dusdi.metrics.dci import NAMES
from dusdi.run import BUILT_ON, WHEN, method_text
from dusdi.settings import without_groups
from dusdi.skill_space import idle_components

SCORES = (*NAMES, "return", "random_skills", "scripted_reference")


@dataclass(frozen=True)
class RunInfo:
    """A run's folder in short.

    Attributes:
      folder: where it is.
      description: settings, world and versions, by config.json or its newest checkpoint.
      step: of its newest checkpoint, or of the last row of progress.csv.
      seconds: of training until then.
      rows: progress.csv, a dictionary of numbers for each seed and log point.
      scores: the `dci.json` or `return.json` that `dusdi evaluate` wrote; empty if it did not.
      files: sizes in bytes, by name.
      running: whether a process is writing the run at the moment.
      problems: what is wrong with it.
    """

    folder: Path
    description: Mapping[str, Any]
    step: int
    seconds: float
    rows: list[dict[str, float]]
    scores: Mapping[str, Any]
    files: dict[str, int]
    running: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by name, without their groups."""
        return without_groups(self.description["settings"])

    @property
    def is_task(self) -> bool:
        """Whether the run solves a task; if not, it discovers skills."""
        return self.description.get("kind") in ("flat", "hierarchy")

    @property
    def is_flat(self) -> bool:
        """Whether the run explores without skills; its policy is there to be fine-tuned."""
        space = skill_space(self.description)
        return not self.is_task and space is not None and not len(space)

    @property
    def kind(self) -> str:
        """What the run learns, in words."""
        if self.is_task:
            return "solution of a task"
        return "policy without skills" if self.is_flat else "skills"

    @property
    def method(self) -> str:
        """The method or agent, and that of the skills or policy that the run builds on."""
        found = self.description
        damaged = [name for name in BUILT_ON if not is_description(found.get(name))]
        return method_text({name: found[name] for name in found if name not in damaged})

    @property
    def world(self) -> str:
        """The world or task with its options."""
        world = self.description["world"]
        options = world.get("options", {}).items()
        return " ".join([world["name"], *(f"{name}={value}" for name, value in options)])

    @property
    def steps(self) -> int:
        """How many steps it is to have."""
        return self.settings["steps"]

    @property
    def rate(self) -> float:
        """Steps per second since the first log row, before which programs are compiled."""
        if self.rows:
            first = self.rows[0]
            last = self.rows[-1]
            seconds = last["seconds"] - first["seconds"]
            if seconds > 0.0:
                return (last["step"] - first["step"]) / seconds
        return self.step / self.seconds if self.seconds else math.nan

    @property
    def last_rows(self) -> list[dict[str, float]]:
        """The last row of each seed."""
        return [row for row in self.rows if row["step"] == self.rows[-1]["step"]]

    @property
    def last_metrics(self) -> list[dict[str, float]]:
        """The metrics in the last row of each seed."""
        return [
            {name: value for name, value in row.items() if name not in WHEN}
            for row in self.last_rows
        ]

    @property
    def component_order(self) -> list[str]:
        """The factors and reward channels in the world's own order, for tables."""
        return component_order(self.description)

    @property
    def metric(self) -> str:
        """The headline metric: the first that is logged; empty if nothing was."""
        return next(iter(self.last_metrics[0]), "") if self.rows else ""

    @property
    def curve(self) -> list[dict[str, float]]:
        """The rows whose headline metric is a number; a return is none before an episode ends."""
        return [row for row in self.rows if self.metric and math.isfinite(row[self.metric])]

    @property
    def changes(self) -> dict[str, Any]:
        """The settings that the user chose."""
        return changed_settings(self.description)

    @property
    def chance(self) -> float | None:
        """What the headline metric is for discriminators that know nothing, if that is known."""
        space = skill_space(self.description)
        chances = {(part.score_name, part.chance) for part in space.spaces} if space else set()
        name, chance = chances.pop() if len(chances) == 1 else ("", None)
        return chance if name == self.metric else None

    @property
    def at_chance(self) -> list[str]:
        """The components that discriminators could hardly predict when metrics were last logged."""
        space = skill_space(self.description)
        return list(idle_components(space, self.last_metrics)) if space else []

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
    def size(self) -> int:
        """The size of all files in bytes."""
        return sum(self.files.values())

    @property
    def next_commands(self) -> list[str]:
        """What to do with the run now."""
        return next_commands(self)

    def lines(self) -> list[tuple[str, str]]:
        """Everything but the metrics as text, each line with a heading of one or two words."""
        found = [*self._what_it_is(), *self._how_far_it_is(), *self._what_it_reached()]
        found.append(("files", f"{len(self.files)}, {self.size / 1e6:,.1f} MB in all"))
        found += [("problem", problem) for problem in self.problems]
        found += [("next", command) for command in self.next_commands]
        return [(heading, text) for heading, text in found if text]

    def _what_it_is(self) -> list[tuple[str, str]]:
        settings = self.settings
        more = settings.get("seeds", 1) - 1
        changes = [f"{name} {value}" for name, value in self.changes.items()]
        space = skill_space(self.description)
        return [
            ("run", str(self.folder)),
            ("kind", self.kind),
            ("task" if self.is_task else "world", self.world),
            ("factors", ", ".join(factor_texts(self.description))),
            ("method", self.method),
            ("skill", str(space) if space and len(space) else ""),
            ("preset", str(settings.get("preset"))),
            ("changed", ", ".join(changes)),
            ("seed", f"{settings.get('seed')}" + (f" and the {more} after it" if more else "")),
        ]

    def _how_far_it_is(self) -> list[tuple[str, str]]:
        made_with = self.description.get("made_with") or [{}]
        versions = [f"{name} {text}" for name, text in made_with[-1].items() if text]
        before = [entry.get("commit") or "unknown" for entry in made_with[:-1]]
        logged = int(self.rows[-1]["step"]) if self.rows else 0
        return [
            ("state", "a process is training it now" if self.running else ""),
            ("done", f"{self.step:,} of {self.steps:,} steps in {self.seconds:,.0f} s"),
            ("rate", f"{self.rate:,.0f} steps/s"),
            ("logged", f"until step {logged:,}" if logged > self.step else ""),
            ("made with", ", ".join(versions)),
            ("begun with", f"commit {', '.join(before)}" if before else ""),
        ]

    def _what_it_reached(self) -> list[tuple[str, str]]:
        scores = {name: self.score(name) for name in SCORES}
        texts = [f"{name} {value:.3f}" for name, value in scores.items() if value is not None]
        outdated = f"at step {self.measured_at:,}; evaluate it again"
        return [
            ("at chance", ", ".join(self.at_chance)),
            ("scores", ", ".join(texts)),
            ("measured", outdated if self.measured_at != self.step else ""),
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            **self.description,
            "kind": self.kind,
            "method": self.method,
            "step": self.step,
            "steps": self.steps,
            "running": self.running,
            "seconds": self.seconds,
            "steps_per_second": None if math.isnan(self.rate) else self.rate,
            "changes": self.changes,
            "metrics": [_finite(row) for row in self.last_rows],
            "at_chance": self.at_chance,
            "scores": dict(self.scores) or None,
            "files": list(self.files),
            "bytes": self.size,
            "problems": self.problems,
            "next": self.next_commands,
        }


def _finite(row: Mapping[str, float]) -> dict[str, float | None]:
    """A row as JSON, which has no NaN."""
    return {name: value if math.isfinite(value) else None for name, value in row.items()}
