"""`dusdi encode`: trains an encoder of a world's pictures."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from dusdi.checks import check_writable
from dusdi.cli import COMMANDS
from dusdi.cli.options import QuietOptions, WorldOptions, argument, filled, flag, option
from dusdi.cli.parser import Parser, Section, wants_help
from dusdi.cli.tables import console, print_table
from dusdi.cli.worlds import folder_name, named_world
from dusdi.encoder_training import pictured, train_encoder
from dusdi.envs import WORLDS
from dusdi.envs.pictured import PicturedWorld, encoded_pictures
from dusdi.errors import UsageError
from dusdi.messages import say
from dusdi.settings import Group

PICTURE = "encoder.png"
ERRORS = ("mean", "median", "95 %", "covered")
PICTURED = [name for name, kind in WORLDS.items() if issubclass(kind, PicturedWorld)]
HEADINGS = ("things", *ERRORS, "share covered")


@dataclasses.dataclass(frozen=True)
class EncodeOptions(Group):
    """What to train."""

    env: str = argument("ENV", f"a world that shows pictures: {', '.join(PICTURED)}")
    labels: bool = flag("learn from the true places, as in the paper (default)")
    no_labels: bool = flag("learn from drawings of its own, without seeing the world")
    updates: int = option(5000, "gradient updates")
    batch_size: int = option(64, "pictures per update")
    seed: int = option(0, "seed of random play and network")
    out: str = option("", "folder (default: runs/ENV-encoder-labels-seedS or -drawings-)", "DIR")
    resume: bool = flag("go on where training was stopped")


def run(words: list[str]) -> None:
    """Runs the command."""
    sections = [
        Section("", EncodeOptions),
        Section("world", WorldOptions),
        Section("", QuietOptions),
    ]
    parser = Parser("encode", COMMANDS["encode"], sections)
    if wants_help(words):
        parser.print_help()
        return
    given = parser.parse(words)
    options = filled(EncodeOptions, given)
    if options.labels and options.no_labels:
        raise UsageError("--labels and --no-labels contradict each other; name one of them")
    world = pictured(named_world(options.env, filled(WorldOptions, given)))
    how = "drawings" if options.no_labels else "labels"
    place = "-".join([folder_name(options.env), *given.get("env_option", ())])
    default = f"runs/{place}-encoder-{how}-seed{options.seed}"
    folder = Path(options.out or default)
    check_writable(folder)
    encoder = train_encoder(
        world,
        labels=not options.no_labels,
        updates=options.updates,
        batch_size=options.batch_size,
        seed=options.seed,
        out=folder,
        resume=options.resume,
        progress="quiet" not in given,
    )
    Image.fromarray(np.asarray(encoded_pictures(world, encoder))).save(folder / PICTURE)
    rows = [
        [kind, *(number(one[name]) for name in ERRORS), f"{one['share covered']:.0%}"]
        for kind, one in encoder.description["errors"].items()
    ]
    title = "distance from seen to true place; covered: less than half is visible"
    print_table(console(), HEADINGS, rows, title=title, numbers_from=1)
    say(f"encoder and pictures in {folder}", sys.stdout)
    chosen = [*given.get("env_option", ()), f"encoder={folder}"]
    again = " ".join(f"--env-option {shlex.quote(word)}" for word in chosen)
    print(f"next: dusdi pretrain {options.env} {again}")


def number(value: float | None) -> str:
    """An error as text; a dash where nothing was covered."""
    return "-" if value is None else f"{value:.3f}"
