"""Which commands make sense for a run, depending on how far it is."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from dusdi.envs import WORLDS
from dusdi.run import BUILT_ON
from dusdi.tasks import TASKS

if TYPE_CHECKING:
    from dusdi.info.run_info import RunInfo

OWN_WORLD = "YOUR_WORLD"  # stands for gym:ID, package.module:function or ./file.py:function
OWN_SKILLS = "RUN_IT_BUILDS_ON"  # stands for the folder of the run that learned the skills


def next_commands(run: RunInfo) -> list[str]:
    """What to do with the run now; none while a process is still writing it.

    Worlds and skills that the run's files don't name stand there in capital letters.
    """
    if run.running:
        return []
    if run.step < run.steps:
        return [_resume_task(run) if run.is_task else _resume_pretraining(run)]
    folder = shlex.quote(str(run.folder))
    env = "" if _is_known(run) else f" --env {OWN_WORLD}"
    if run.is_flat:
        world = run.description["world"]["name"] if _is_known(run) else OWN_WORLD
        return [fine_tuning(folder, world), f"dusdi render {folder} --out policy.mp4{env}"]
    if not run.scores or run.measured_at != run.step:
        return [f"dusdi evaluate {folder}{env}"]
    if run.is_task:
        return [f"dusdi render {folder} --out task.mp4{env}"]
    task = first_task(run.description["world"]["name"])
    use = [f"dusdi downstream {folder} {task}"] if task else []
    return [f"dusdi render {folder} --out skills.mp4{env}", *use]


def first_task(world: str) -> str:
    """The first task in a world of dusdi's; empty if there is none."""
    return next((task for task in TASKS if task.split("/")[0] == world), "")


def fine_tuning(folder: str, world: str) -> str:
    """What to do with a flat policy: a world of one's own is a task by its own reward."""
    return f"dusdi downstream {folder} {first_task(world) or world} --agent sac"


def _resume_pretraining(run: RunInfo) -> str:
    world = run.description["world"]
    known = _is_known(run)
    place = world["name"] if known else OWN_WORLD
    options = world.get("options", {}).items() if known else ()
    pairs = [shlex.quote(f"{name}={value}") for name, value in options]
    given = "".join(f" --env-option {pair}" for pair in pairs)
    return f"dusdi pretrain {place}{given} --out {shlex.quote(str(run.folder))} --resume"


def _resume_task(run: RunInfo) -> str:
    place = run.description["world"]["name"] if _is_known(run) else OWN_WORLD
    skills = OWN_SKILLS if set(BUILT_ON) & set(run.description) else "scratch"
    agent = run.settings.get("agent", "sac")
    folder = shlex.quote(str(run.folder))
    return f"dusdi downstream {skills} {place} --agent {agent} --out {folder} --resume"


def _is_known(run: RunInfo) -> bool:
    """Whether dusdi can make the run's world or task by its name."""
    return run.description["world"]["name"] in (TASKS if run.is_task else WORLDS)
