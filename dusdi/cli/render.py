"""`dusdi render`: makes a video of skills, or of a task's solution."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from dusdi.cli import COMMANDS
from dusdi.cli.options import (
    OwnWorldOptions,
    QuietOptions,
    RunFolderOptions,
    filled,
    option,
    repeated,
)
from dusdi.cli.parser import Parser, Section, wants_help
from dusdi.cli.values import read_skill
from dusdi.cli.worlds import own_world
from dusdi.controller import load_controller, solves_task
from dusdi.errors import UsageError
from dusdi.evaluation import world_for
from dusdi.skills import load
from dusdi.task_evaluation import task_for
from dusdi.video import render, render_task


@dataclasses.dataclass(frozen=True)
class RenderOptions(RunFolderOptions):
    """What to show."""

    out: str = option("", "the video, .mp4 or .gif; required", "FILE")
    skill: tuple[str, ...] = repeated("N,N", "a skill to show, e.g. 0,3,1; may be repeated")
    count: int = option(6, "how many skills to show if none is given")
    seed: int = option(0, "seed of the world and the random skills")
    run_seed: int = option(0, "which seed of a run of several, counted from 0")
    view: str = option("", "which kind of picture to draw, of worlds that have several", "VIEW")


def run(words: list[str]) -> None:
    """Runs the command."""
    sections = [
        Section("", RenderOptions),
        Section("world", OwnWorldOptions),
        Section("", QuietOptions),
    ]
    parser = Parser("render", COMMANDS["render"], sections)
    if wants_help(words):
        parser.print_help()
        return
    given = parser.parse(words)
    options = filled(RenderOptions, given)
    if not options.out:
        raise UsageError("--out FILE is missing: the video, .mp4 or .gif")
    how = {"count": options.count, "seed": options.seed, "progress": "quiet" not in given}
    if solves_task(options.run_folder):
        _render_task(options, given, how)
    else:
        _render_skills(options, given, how)


def _render_task(options: RenderOptions, given: Mapping[str, Any], how: Mapping[str, Any]) -> None:
    if options.skill:
        raise UsageError(
            "--skill is for runs of skill discovery; a task's solution chooses its skills itself"
        )
    solution = load_controller(options.run_folder, options.run_seed)
    world_options = filled(OwnWorldOptions, given)
    task = task_for(solution.spec, own_world(world_options.env, world_options, solution.spec))
    if options.view:
        task.choose_view(options.view)
    print(render_task(solution, task, options.out, **how))


def _render_skills(
    options: RenderOptions, given: Mapping[str, Any], how: Mapping[str, Any]
) -> None:
    skills = load(options.run_folder, options.run_seed)
    world_options = filled(OwnWorldOptions, given)
    world = world_for(skills, own_world(world_options.env, world_options, skills.spec))
    if options.view:
        world.choose_view(options.view)
    chosen = [read_skill(text) for text in options.skill]
    print(render(skills, world, options.out, chosen=chosen, **how))
