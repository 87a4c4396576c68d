"""`dusdi envs`: lists worlds and tasks."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from dusdi.cli import COMMANDS
from dusdi.cli.options import DebugOptions
from dusdi.cli.parser import Parser, Section, wants_help
from dusdi.cli.tables import console
from dusdi.envs import WORLDS, World
from dusdi.tasks import TASKS, make_task
from dusdi.types import Factor

MOST_FACTORS = 4  # that are listed one by one


def run(words: list[str]) -> None:
    """Runs the command."""
    parser = Parser("envs", COMMANDS["envs"], [Section("", DebugOptions)])
    if wants_help(words):
        parser.print_help()
        return
    parser.parse(words)
    output = console()
    for name, world_class in WORLDS.items():
        print_world(output, name, world_class)
        for task in TASKS:
            if task.split("/")[0] == name:
                print_task(output, task)


def print_world(output: Console, name: str, world_class: type[World]) -> None:
    """Prints what a world is."""
    spec = world_class().spec
    others = [factor for factor in spec.factors if not factor.controlled]
    parameters = inspect.signature(world_class).parameters.values()
    options = [f"{parameter.name}={parameter.default}" for parameter in parameters]
    lines = {
        "sizes": f"{spec.observation_size} observations, {spec.action_size} actions",
        "options": ", ".join(options),
        "skill components": factor_list(spec.controlled),
        "other factors": factor_list(others),
    }
    output.print(Text(name, style="bold"))
    for heading, text in lines.items():
        if text:
            output.print(Padding(Text(f"{heading}: {text}"), (0, 0, 0, 2)))


def print_task(output: Console, name: str) -> None:
    """Prints what a task is about."""
    task = make_task(name)
    channels = len(task.spec.channels)
    plural = "s" if channels > 1 else ""
    output.print(Padding(Text(f"task {name}", style="bold"), (0, 0, 0, 2)))
    output.print(Padding(Text(f"{task.about} ({channels} reward channel{plural})"), (0, 0, 0, 4)))


def factor_list(factors: Sequence[Factor]) -> str:
    """The names and sizes of factors; the middle is left out if there are many."""
    shown = [f"{factor.name} ({len(factor.indices)})" for factor in factors]
    if len(shown) > MOST_FACTORS:
        shown = [*shown[:2], "…", f"{shown[-1]}: {len(factors)} in all"]
    return ", ".join(shown)
