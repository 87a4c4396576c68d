"""The settings of runs on the command line: which there are, and what each would be.

Which settings there are depends on the method or agent that is named among the words, so these are
looked for first; then all words are parsed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dusdi.cli.options import OWN, WorldOptions, filled
from dusdi.cli.parser import Parser, Section, last_value
from dusdi.cli.values import value_text
from dusdi.cli.worlds import named_world, own_world
from dusdi.envs import World
from dusdi.errors import DusdiError, unknown_name
from dusdi.methods import METHODS, find_method
from dusdi.methods.base import Method
from dusdi.policy import read_description
from dusdi.resolve import (
    AGENTS,
    DEFAULT,
    DOWNSTREAM_GROUPS,
    Resolved,
    pretrain_groups,
    resolve_downstream,
    resolve_pretrain,
)
from dusdi.settings import Group
from dusdi.skills import find_policy
from dusdi.tasks import as_task
from dusdi.types import WorldSpec

SCRATCH = "scratch"  # stands for no run
ENV_HELP = f"a world (see `dusdi envs`), or one of your own: {OWN}"
TASK_HELP = f"a task (see `dusdi envs`), or one of your own: {OWN}"
#: Groups of settings that are called otherwise in help than in Python.
TITLES = {"sac": "soft actor-critic", "ppo": "proximal policy optimisation"}
#: Stands for a world or task that is not named: it changes no preset.
UNNAMED: Any = SimpleNamespace(
    spec=SimpleNamespace(name=""), presets={}, method_presets={}, task_presets={}
)


def chosen_method(words: Sequence[str]) -> type[Method]:
    return find_method(last_value(words, "--method") or "dusdi")


def chosen_agent(words: Sequence[str]) -> str:
    agent = last_value(words, "--agent") or ("ppo" if _names_skills(words) else "sac")
    if agent not in AGENTS:
        raise unknown_name("agent", agent, AGENTS)
    return agent


def _names_skills(words: Sequence[str]) -> bool:
    """Whether the run that a command builds on has skills, as far as its words tell."""
    out = last_value(words, "--out")
    if words.count(SCRATCH) > (out == SCRATCH):
        return False
    for word in words:
        if word != out and Path(word).is_dir():
            try:
                return bool(read_description(find_policy(word))["skill_space"])
            except (DusdiError, KeyError):
                return True  # what is wrong is said when it is loaded
    return True


def pretrain_parser(
    words: Sequence[str], command: str, about: str, own: type[Group], last: type[Group]
) -> Parser:
    """The options of a run of skill discovery, between those of the command."""
    method = chosen_method(words)
    groups = pretrain_groups(method)
    owners: dict[str, list[str]] = {}
    for other in METHODS.values():
        for name in other.Settings.fields():
            owners.setdefault(name, []).append(other.name)
    others = {
        name: f"method {' or '.join(names)}, not {method.name}" for name, names in owners.items()
    }
    return _parser(command, about, own, last, groups, method.name, others)


def downstream_parser(
    words: Sequence[str], command: str, about: str, own: type[Group], last: type[Group]
) -> Parser:
    """The options of a run on a task, between those of the command."""
    agent = chosen_agent(words)
    flat = pretrain_groups(METHODS["sac"])
    groups = flat if agent == "sac" else DOWNSTREAM_GROUPS
    owner = "agents ppo and cpg" if agent == "sac" else "agent sac"
    rest = DOWNSTREAM_GROUPS if agent == "sac" else flat
    others = {name: f"{owner}, not {agent}" for kind in rest.values() for name in kind.fields()}
    return _parser(command, about, own, last, groups, "sac", others)


def _parser(
    command: str,
    about: str,
    own: type[Group],
    last: type[Group],
    groups: Mapping[str, type[Group]],
    method: str,
    others: Mapping[str, str],
) -> Parser:
    titles = {**TITLES, "objective": method}
    settings = [Section(titles.get(name, name), kind) for name, kind in groups.items()]
    filled_in = [section for section in settings if section.kind.fields()]
    sections = [Section("", own), *filled_in, Section("world", WorldOptions), Section("", last)]
    return Parser(command, about, sections, others)


def settings_given(parser: Parser, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the given values that are settings of the run."""
    kinds = [section.kind for section in parser.sections[1:-2]]
    names = {name for kind in kinds for name in kind.fields()}
    return {name: value for name, value in given.items() if name in names}


def pretrain_world(given: Mapping[str, Any]) -> World:
    """The world that is named; one without presets if none is."""
    if "env" not in given:
        return UNNAMED
    return named_world(given["env"], filled(WorldOptions, given))


def task_world(given: Mapping[str, Any], like: WorldSpec | None = None) -> World:
    """The task that is named, in the world of a run (`like`); one without presets if none is."""
    if "task" not in given:
        return UNNAMED
    task = given["task"]
    is_own = ":" in task or task.endswith(".py")
    own = own_world(task if is_own else "", filled(WorldOptions, given), like)
    return as_task(task if own is None else own, like)


def resolve_given_pretrain(
    world: World, given: Mapping[str, Any], fields: Mapping[str, Any]
) -> Resolved:
    """What a run of skill discovery would use."""
    method = given.get("method", "dusdi")
    return resolve_pretrain(world, method, given.get("preset", "fast"), fields)


def resolve_given_downstream(
    task: World, agent: str, given: Mapping[str, Any], fields: Mapping[str, Any]
) -> Resolved:
    """What a run on a task would use."""
    return resolve_downstream(task, agent, given.get("preset", "fast"), fields)


def hints(resolved: Resolved) -> dict[str, str]:
    """For each setting what it is by default, and where that comes from, for help."""
    found = {}
    for name, value in resolved.settings.flat().items():
        origin = resolved.origins[name]
        source = "" if origin == DEFAULT else f", by {origin}"
        found[name] = f"(default: {value_text(value)}{source})"
    return found
