"""`dusdi compare`: puts runs side by side."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dusdi.cli import COMMANDS
from dusdi.cli.messages import console
from dusdi.cli.options import JsonOptions, argument, filled, option
from dusdi.cli.parser import Parser, Section, wants_help
from dusdi.compare import compare
from dusdi.progress import say
from dusdi.settings import Group

TABLE_WIDTH = 100  # columns from which on runs are rows of a table


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
    print_rows(console(), [{name: row[name] for name in used} for row in rows])
    say(f"learning curves: {options.out}", sys.stdout)


def print_rows(output: Console, rows: Sequence[Mapping[str, str]]) -> None:
    """Prints runs as rows of a table, or below each other where there is little space."""
    if output.width >= TABLE_WIDTH:
        table = Table(*rows[0])
        for row in rows:
            table.add_row(*(Text(str(value)) for value in row.values()))
        output.print(table)
        return
    for row in rows:
        output.print(Text(row["run"], style="bold"))
        for name, value in row.items():
            if name != "run" and value:
                output.print(Padding(Text(f"{name}: {value}"), (0, 0, 0, 2)))
