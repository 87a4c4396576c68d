"""`dusdi downstream`: learns a task with skills, or without."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dusdi.cli import COMMANDS
from dusdi.cli.learning import (
    SCRATCH,
    TASK_HELP,
    chosen_agent,
    downstream_parser,
    hints,
    resolve_given_downstream,
    settings_given,
    task_world,
)
from dusdi.cli.options import QuietOptions, WorldOptions, argument, filled, flag, option
from dusdi.cli.parser import wants_help
from dusdi.cli.worlds import folder_name, next_options
from dusdi.errors import UsageError
from dusdi.info import saved_world
from dusdi.messages import say
from dusdi.presets import PPO_PRESETS
from dusdi.resolve import AGENTS
from dusdi.settings import Group
from dusdi.skills import load
from dusdi.task_learning import downstream


@dataclasses.dataclass(frozen=True)
class DownstreamOptions(Group):
    """What is asked for besides settings."""

    skills: str = argument(
        "RUN", f"the folder of the run that learned the skills, or `{SCRATCH}` for none"
    )
    task: str = argument("TASK", TASK_HELP)
    agent: str = option("", f"{', '.join(AGENTS)} (default: ppo; sac from scratch)", "AGENT")
    preset: str = option("fast", f"settings to start from: {', '.join(PPO_PRESETS)}", "PRESET")
    run_seed: int = option(0, "which seed of a run of several, counted from 0")
    out: str = option("", "the run's folder (default: runs/TASK-METHOD-AGENT-seedS)", "DIR")
    resume: bool = flag("go on with the run in that folder, if there is one")


def run(words: list[str]) -> None:
    """Runs the command."""
    agent = chosen_agent(words)
    about = COMMANDS["downstream"]
    parser = downstream_parser(words, "downstream", about, DownstreamOptions, QuietOptions)
    if wants_help(words):
        given = parser.parse(words, complete=False)
        parser.print_help(hints(resolve_given_downstream(task_world(given), agent, given, {})))
        return
    given = parser.parse(words)
    learn(given, agent, settings_given(parser, given))


def learn(given: Mapping[str, Any], agent: str, fields: Mapping[str, Any]) -> None:
    """Learns the task and says what to do next."""
    options = filled(DownstreamOptions, given)
    world_options = filled(WorldOptions, given)
    scratch = options.skills == SCRATCH
    if scratch and agent != "sac":
        raise UsageError(
            f"agent {agent} chooses skills: name the run that learned them instead of {SCRATCH}"
        )
    skills = None if scratch else load(options.skills, options.run_seed)
    parts = [options.task, *([skills.method] if skills else []), agent]
    place = "-".join(folder_name(part) for part in parts)
    out = Path(options.out or f"runs/{place}-seed{fields.get('seed', 0)}")
    saved = saved_world(out) if options.resume else None
    solution = downstream(
        skills,
        task_world(given, skills.spec if skills else saved),
        agent=given.get("agent"),
        preset=given.get("preset"),
        out=out,
        resume=options.resume,
        progress="quiet" not in given,
        **fields,
    )
    say(f"{solution.step:,} steps done; solution in {out}", sys.stdout)
    folder = shlex.quote(str(out))
    env = next_options(options.task, world_options)
    print(f"next: dusdi evaluate {folder}{env}")
    print(f"      dusdi render {folder} --out {folder}/task.mp4{env}")
