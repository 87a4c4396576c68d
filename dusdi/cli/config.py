"""`dusdi config`: the settings that a run would use, and where each value comes from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dusdi.cli import COMMANDS
from dusdi.cli.learning import (
    ENV_HELP,
    TASK_HELP,
    chosen_agent,
    downstream_parser,
    hints,
    pretrain_parser,
    pretrain_world,
    resolve_given_downstream,
    resolve_given_pretrain,
    settings_given,
    task_world,
)
from dusdi.cli.options import JsonOptions, argument, filled, flag, option
from dusdi.cli.parser import Parser, Section, wants_help
from dusdi.cli.tables import console
from dusdi.cli.values import value_text
from dusdi.errors import unknown_name
from dusdi.high_level import check_agent
from dusdi.methods import METHODS, find_method
from dusdi.presets import PRESETS
from dusdi.resolve import AGENTS, DEFAULT, Resolved
from dusdi.settings import Group

KINDS = ("pretrain", "downstream")
SPACE = 2  # columns between two columns of the table
LONGEST_VALUE = 20  # columns for values; longer ones take several lines
LEAST_MEANING = 30  # columns for documentation; where there are fewer, it stands below


@dataclasses.dataclass(frozen=True)
class TableOptions(JsonOptions):
    """How to print the settings."""

    changed: bool = flag("only settings that are not at their default")


@dataclasses.dataclass(frozen=True)
class PretrainConfigOptions(Group):
    """Which run of skill discovery is meant."""

    env: str = argument("ENV", ENV_HELP)
    method: str = option(
        "dusdi", f"what to learn by: {', '.join(METHODS)} or package.module:Class", "METHOD"
    )
    preset: str = option("fast", f"settings to start from: {', '.join(PRESETS)}", "PRESET")


@dataclasses.dataclass(frozen=True)
class DownstreamConfigOptions(Group):
    """Which run on a task is meant."""

    task: str = argument("TASK", TASK_HELP)
    agent: str = option("ppo", ", ".join(AGENTS), "AGENT")
    preset: str = option("fast", f"settings to start from: {', '.join(PRESETS)}", "PRESET")


def run(words: list[str]) -> None:
    """Runs the command."""
    kind = words[0] if words else "--help"
    if kind in ("-h", "--help"):
        print("usage: dusdi config pretrain ENV [options]")
        print("       dusdi config downstream TASK [options]\n")
        print(COMMANDS["config"])
        print("\nwith the options of these commands, --json and --changed")
        return
    if kind not in KINDS:
        raise unknown_name("kind of run", kind, KINDS)
    if kind == "pretrain":
        show_pretrain(words[1:])
    else:
        show_downstream(words[1:])


def show_pretrain(words: list[str]) -> None:
    """Shows the settings of a run of skill discovery."""
    about = COMMANDS["config"]
    parser = pretrain_parser(words, "config pretrain", about, PretrainConfigOptions, TableOptions)
    asks_help = wants_help(words)
    given = parser.parse(words, complete=not asks_help)
    world = pretrain_world(given)
    if asks_help:
        parser.print_help(hints(resolve_given_pretrain(world, given, {})))
        return
    resolved = resolve_given_pretrain(world, given, settings_given(parser, given))
    settings = resolved.settings
    find_method(settings.method)(world.spec, settings.objective)  # refuses what does not fit
    title = f"{settings.method} in {world.spec.name}, preset {settings.preset}"
    print_settings(title, parser, resolved, given)


def show_downstream(words: list[str]) -> None:
    """Shows the settings of a run on a task."""
    about = COMMANDS["config"]
    parser = downstream_parser(
        words, "config downstream", about, DownstreamConfigOptions, TableOptions
    )
    agent = chosen_agent(words)
    asks_help = wants_help(words)
    given = parser.parse(words, complete=not asks_help)
    task = task_world(given)
    if asks_help:
        parser.print_help(hints(resolve_given_downstream(task, agent, given, {})))
        return
    check_agent(task, agent)
    resolved = resolve_given_downstream(task, agent, given, settings_given(parser, given))
    title = f"{agent} on {task.spec.name}, preset {resolved.settings.preset}"
    print_settings(title, parser, resolved, given)


def print_settings(
    title: str, parser: Parser, resolved: Resolved, given: Mapping[str, Any]
) -> None:
    """Prints settings as a table, or as JSON."""
    options = filled(TableOptions, given)
    shown = [
        name
        for name, origin in resolved.origins.items()
        if origin != DEFAULT or not options.changed
    ]
    if options.json:
        print(json.dumps(settings_json(resolved, shown)))
        return
    output = console()
    output.print(Text(title, style="bold"))
    for line in settings_rows(parser.sections[1:-2], shown, resolved, output.width):
        output.print(line)


def settings_json(resolved: Resolved, shown: Sequence[str]) -> dict[str, Any]:
    """The settings with these names as nested tables, and where they come from."""
    settings = resolved.settings.to_json()
    for group, values in settings.items():
        if isinstance(values, dict):
            settings[group] = {name: value for name, value in values.items() if name in shown}
    return {"settings": settings, "origins": {name: resolved.origins[name] for name in shown}}


def settings_rows(
    sections: Sequence[Section], shown: Sequence[str], resolved: Resolved, width: int
) -> Iterator[RenderableType]:
    """The rows of a table of settings, group by group, with documentation beside or below them."""
    flat = resolved.settings.flat()
    values = {name: value_text(flat[name]) for name in shown}
    widths = column_widths(shown, values, resolved.origins, width)
    headings = ("setting", "value", "comes from", "meaning")
    yield row(widths, headings[: len(widths)], "bold")
    for section in sections:
        fields = section.kind.fields()
        names = [name for name in fields if name in shown]
        if names:
            yield Text(section.title, style="bold")
        for name in names:
            cells = [f"  {name}", values[name], resolved.origins[name]]
            meaning = fields[name].metadata["doc"]
            beside = len(widths) > len(cells)
            style = "" if resolved.origins[name] == DEFAULT else "bold"
            yield row(widths, [*cells, meaning] if beside else cells, style)
            if not beside:
                yield Padding(Text(meaning, style="dim"), (0, 0, 0, 4))


def row(widths: Sequence[int], cells: Sequence[str], style: str) -> Table:
    """A row of the table, whose cells take several lines where their columns are narrow."""
    table = Table.grid(padding=(0, SPACE, 0, 0))
    for width in widths:
        table.add_column(width=width, overflow="fold")
    table.add_row(*map(Text, cells), style=style)
    return table


def column_widths(
    names: Sequence[str], values: Mapping[str, str], origins: Mapping[str, str], width: int
) -> list[int]:
    """The widths of the table's columns; none for meanings where theirs would be narrow."""
    first = max([*map(len, names), 5]) + 2
    origin = min(max([len(origins[name]) for name in names] + [10]), width // 3)
    left = width - first - origin - 2 * SPACE
    value = max(5, min(max([*map(len, values.values()), 5]), left, LONGEST_VALUE))
    meaning = left - value - SPACE
    widths = [first, value, origin]
    return [*widths, meaning] if meaning >= LEAST_MEANING else widths
