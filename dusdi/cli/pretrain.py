"""`dusdi pretrain`: discovers skills in a world."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dusdi.cli import COMMANDS
from dusdi.cli.learning import (
    ENV_HELP,
    hints,
    pretrain_parser,
    pretrain_world,
    resolve_given_pretrain,
    settings_given,
)
from dusdi.cli.options import QuietOptions, WorldOptions, argument, filled, flag, option
from dusdi.cli.parser import wants_help
from dusdi.cli.worlds import folder_name, named_world, next_options, own_words
from dusdi.info import fine_tuning, saved_world
from dusdi.messages import say
from dusdi.methods import METHODS
from dusdi.presets import PRESETS
from dusdi.pretraining import pretrain
from dusdi.settings import Group


@dataclasses.dataclass(frozen=True)
class PretrainOptions(Group):
    """What is asked for besides settings."""

    env: str = argument("ENV", ENV_HELP)
    method: str = option(
        "dusdi", f"what to learn by: {', '.join(METHODS)} or package.module:Class", "METHOD"
    )
    preset: str = option("fast", f"settings to start from: {', '.join(PRESETS)}", "PRESET")
    out: str = option("", "the run's folder (default: runs/ENV-METHOD-seedS)", "DIR")
    resume: bool = flag("go on with the run in that folder, if there is one")


def run(words: list[str]) -> None:
    """Runs the command."""
    about = COMMANDS["pretrain"]
    parser = pretrain_parser(words, "pretrain", about, PretrainOptions, QuietOptions)
    if wants_help(words):
        given = parser.parse(words, complete=False)
        parser.print_help(hints(resolve_given_pretrain(pretrain_world(given), given, {})))
        return
    given = parser.parse(words)
    learn(given, settings_given(parser, given))


def learn(given: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
    """Discovers skills and says what to do next."""
    options = filled(PretrainOptions, given)
    world_options = filled(WorldOptions, given)
    place = f"{folder_name(options.env)}-{folder_name(options.method)}"
    out = Path(options.out or f"runs/{place}-seed{fields.get('seed', 0)}")
    like = saved_world(out) if options.resume else None
    skills = pretrain(
        named_world(options.env, world_options, like),
        method=given.get("method"),
        preset=given.get("preset"),
        out=out,
        resume=options.resume,
        progress="quiet" not in given,
        **fields,
    )
    learned = "skills" if len(skills.space) else "policy"  # for tasks to start from
    say(f"{skills.step:,} steps done; {learned} in {out}", sys.stdout)
    folder = shlex.quote(str(out))
    env = next_options(options.env, world_options)
    use = f"dusdi evaluate {folder}{env}"
    if not len(skills.space):
        use = fine_tuning(folder, own_words(options.env, world_options) or options.env)
    print(f"next: {use}")
    print(f"      dusdi render {folder} --out {folder}/{learned}.mp4{env}")
