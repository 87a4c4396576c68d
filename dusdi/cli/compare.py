"""`dusdi compare`: puts runs side by side."""

from __future__ import annotations

import dataclasses
import json
import sys

from dusdi.cli import COMMANDS
from dusdi.cli.options import JsonOptions, argument, filled, option
from dusdi.cli.parser import Parser, Section, wants_help
from dusdi.cli.tables import console, print_table
from dusdi.compare import compare
from dusdi.messages import say
from dusdi.settings import Group


@dataclasses.dataclass(frozen=True)
class CompareOptions(Group):
    """What to compare."""

    run_folders: tuple[str, ...] = argument("RUN [RUN ...]", "the runs' folders", ())
    out: str = option("compare.png", "the picture", "FILE")


def run(words: list[str]) -> None:
    """Runs the command."""
    sections = [Section("", CompareOptions), Section("", JsonOptions)]
    parser = Parser("compare", COMMANDS["compare"], sections)
    if wants_help(words):
        parser.print_help()
        return
    given = parser.parse(words)
    options = filled(CompareOptions, given)
    rows = compare(options.run_folders, options.out)
    if "json" in given:
        print(json.dumps(rows))
        return
    used = [name for name in rows[0] if any(row[name] for row in rows)]
    print_table(console(), used, [[str(row[name]) for name in used] for row in rows])
    say(f"learning curves: {options.out}", sys.stdout)
