"""`dusdi info`: says what a run is."""

from __future__ import annotations

import json

from rich.table import Table
from rich.text import Text

from dusdi.cli import COMMANDS
from dusdi.cli.options import JsonOptions, RunFolderOptions
from dusdi.cli.parser import Parser, Section, wants_help
from dusdi.cli.tables import console
from dusdi.info import read_run
from dusdi.progress import metrics_view


def run(words: list[str]) -> None:
    """Runs the command."""
    sections = [Section("", RunFolderOptions), Section("", JsonOptions)]
    parser = Parser("info", COMMANDS["info"], sections)
    if wants_help(words):
        parser.print_help()
        return
    given = parser.parse(words)
    found = read_run(given["run_folder"])
    if "json" in given:
        print(json.dumps(found.to_json()))
        return
    output = console()
    grid = Table.grid(padding=(0, 2))
    for heading, text in found.lines():
        grid.add_row(Text(heading, style="bold"), Text(text))
    output.print(grid)
    if found.rows:
        print(f"\nlogged at step {found.rows[-1]['step']:,}:")
        output.print(metrics_view(found.last_metrics, found.component_order))
