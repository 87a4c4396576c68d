"""The `dusdi` command: a thin layer of argument parsing over the package's functions."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import shlex
import shutil
import signal
import sys
import traceback
import typing
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dusdi.config import AGENTS, PPO_PRESETS, PRESETS, BaseConfig, Config, PPOConfig
from dusdi.errors import UsageError, explain, unknown_name
from dusdi.progress import say
from dusdi.signals import STOPPING, handling, leave

if typing.TYPE_CHECKING:
    from dusdi.envs import World
    from dusdi.types import WorldSpec

USAGE_ERROR, FAILURE, INTERRUPTED = 2, 1, 130
SKIPPED_FIELDS = {"preset", "method", "agent"}  # have arguments of their own


class _Parser(argparse.ArgumentParser):
    """Names the nearest valid option when one is mistyped."""

    def error(self, message: str) -> typing.NoReturn:
        near = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if near:
            message = str(unknown_name("command", near[1], re.findall(r"[\w-]+", near[2])))
        print(f"{self.prog}: {message}", file=sys.stderr)
        print(f"see `{self.prog} --help`", file=sys.stderr)
        sys.exit(USAGE_ERROR)

    def option_names(self) -> list[str]:
        return [name for action in self._actions for name in action.option_strings]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command. Whatever goes wrong is said in a sentence; `--debug` shows the traceback too."""
    debug = False
    try:
        with handling([signal.SIGINT], leave):
            parser, commands = _make_parser()
            namespace, unknown = parser.parse_known_args(arguments)
            debug = namespace.debug
            if unknown:
                option = next((text for text in unknown if text.startswith("-")), None)
                if option is None:
                    raise UsageError(f"unexpected argument {unknown[0]!r}")
                raise unknown_name(
                    "option", option.split("=")[0], commands[namespace.command].option_names()
                )
            _load_libraries()
        # What `kill`, cluster schedulers and a closed terminal send is to save what Ctrl-C saves.
        with handling(STOPPING, signal.default_int_handler), _plain_warnings():
            namespace.run(namespace)
            sys.stdout.flush()
        return 0
    except KeyboardInterrupt as error:
        with handling(STOPPING, signal.SIG_IGN):
            _say(str(error) or "interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except Exception as error:
        if debug:
            traceback.print_exc()
        _say(explain(error))
        return USAGE_ERROR if isinstance(error, UsageError) else FAILURE


def _say(text: str) -> None:
    with suppress(OSError):  # the terminal may be gone
        say(f"dusdi: {text}")


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings of ours as sentences, without the line of code they come from."""
    usual = warnings.showwarning

    said = set()

    def show(message, category, filename, lineno, file=None, line=None):
        if str(message) in said:
            return
        said.add(str(message))
        if issubclass(category, UserWarning) and "dusdi" in Path(filename).parts:
            _say(f"warning: {message}")
        else:
            usual(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _make_parser() -> tuple[_Parser, dict[str, _Parser]]:
    parser = _Parser(
        prog="dusdi",
        description="Discover disentangled skills without reward, and put them to work.",
    )
    parser.add_argument("--version", action="version", version=f"dusdi {metadata.version('dusdi')}")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=_Parser
    )
    made = {}

    def command(name: str, run: Any, text: str) -> _Parser:
        made[name] = commands.add_parser(
            name, help=text, description=text, formatter_class=_formatter, allow_abbrev=False
        )
        made[name].set_defaults(run=run)
        made[name].add_argument(
            "--debug", action="store_true", help="show the traceback of an error"
        )
        return made[name]

    command("envs", _envs, "list the worlds, their factors and sizes, and their tasks")

    pretrain = command("pretrain", _pretrain, "discover skills in a world, without reward")
    own = "gym:ID, package.module:function or path/to/file.py:function"
    env_help = f"a world (see `dusdi envs`), or one of your own: {own}"
    pretrain.add_argument("env", metavar="ENV", help=env_help)
    pretrain.add_argument(
        "--method", help="skill-discovery objective: dusdi, diayn, diayn-mc (default: dusdi)"
    )
    pretrain.add_argument(
        "--preset", help=f"settings to start from: {', '.join(PRESETS)} (default: fast)"
    )
    pretrain.add_argument(
        "--out", metavar="DIR", help="the run's folder (default: runs/ENV-METHOD-seedS)"
    )
    pretrain.add_argument(
        "--resume", action="store_true", help="go on with the run in that folder, if there is one"
    )
    pretrain.add_argument("--quiet", action="store_true", help="show no progress")
    _add_world_options(pretrain)
    _add_fields(pretrain.add_argument_group("config fields (default: the preset's value)"), Config)

    downstream = command(
        "downstream", _downstream, "learn a task with a run's skills, or without any (agent sac)"
    )
    downstream.add_argument(
        "skills",
        metavar="RUN",
        help="the folder of the run that learned the skills, or `scratch` for none",
    )
    task_help = f"a task (see `dusdi envs`), or one of your own: {own}"
    downstream.add_argument("task", metavar="TASK", help=task_help)
    downstream.add_argument("--agent", help=f"{', '.join(AGENTS)} (default: ppo; sac from scratch)")
    downstream.add_argument(
        "--preset", help=f"settings to start from: {', '.join(PPO_PRESETS)} (default: fast)"
    )
    downstream.add_argument(
        "--run-seed", type=whole, default=0, help="which seed of a run of several, counted from 0"
    )
    downstream.add_argument(
        "--out", metavar="DIR", help="the run's folder (default: runs/TASK-METHOD-AGENT-seedS)"
    )
    downstream.add_argument(
        "--resume", action="store_true", help="go on with the run in that folder, if there is one"
    )
    downstream.add_argument("--quiet", action="store_true", help="show no progress")
    _add_world_options(downstream)
    _add_fields(
        downstream.add_argument_group("config fields of ppo and cpg (default: the preset's value)"),
        PPOConfig,
    )
    further = downstream.add_argument_group("further config fields of sac")
    _add_fields(further, Config, skip=set(PPOConfig.fields()))

    evaluate = command(
        "evaluate",
        _evaluate,
        "measure how disentangled a run's skills are (DCI), or what a task's run earns",
    )
    evaluate.add_argument("run_folder", metavar="RUN", help="a run's folder")
    evaluate.add_argument(
        "--steps",
        type=whole,
        default=100_000,
        help="environment steps to measure DCI on (default: 100,000)",
    )
    evaluate.add_argument(
        "--episodes", type=whole, default=100, help="episodes to measure returns on (default: 100)"
    )
    evaluate.add_argument("--seed", type=whole, default=0, help="seed of the evaluation")
    evaluate.add_argument("--env", help=f"the run's world, if it is not one of dusdi's: {own}")
    _add_world_options(evaluate)
    evaluate.add_argument(
        "--oracle",
        action="store_true",
        help="also measure the world's hand-written oracle, a ceiling",
    )
    evaluate.add_argument(
        "--json", action="store_true", help="print one JSON object instead of a table"
    )
    evaluate.add_argument("--out", metavar="DIR", help="folder of the results (default: the run's)")
    evaluate.add_argument("--quiet", action="store_true", help="show no progress")

    render = command("render", _render, "make a video of a run's skills, or of a task's solution")
    render.add_argument("run_folder", metavar="RUN", help="a run's folder")
    render.add_argument("--out", required=True, metavar="FILE", help="the video, .mp4 or .gif")
    render.add_argument(
        "--skill", action="append", default=[], help="a skill to show, e.g. 0,3,1; may be repeated"
    )
    render.add_argument(
        "--count",
        type=whole,
        default=6,
        help="how many skills to show if none is given (default: 6)",
    )
    render.add_argument(
        "--seed", type=whole, default=0, help="seed of the world and the random skills"
    )
    render.add_argument(
        "--run-seed", type=whole, default=0, help="which seed of a run of several, counted from 0"
    )
    render.add_argument("--view", help="which kind of picture to draw, of worlds that have several")
    render.add_argument("--env", help=f"the run's world, if it is not one of dusdi's: {own}")
    _add_world_options(render)
    render.add_argument("--quiet", action="store_true", help="show no progress")

    info = command("info", _info, "say what a run is, how far it is and what it reached")
    info.add_argument("run_folder", metavar="RUN", help="a run's folder")
    info.add_argument("--json", action="store_true", help="print one JSON object instead")

    compare = command("compare", _compare, "put runs side by side: a table and learning curves")
    compare.add_argument("run_folders", metavar="RUN", nargs="+", help="the runs' folders")
    text = "the picture (default: compare.png)"
    compare.add_argument("--out", default="compare.png", metavar="FILE", help=text)
    compare.add_argument("--json", action="store_true", help="print a JSON list instead of a table")

    reproduce = command(
        "reproduce", _reproduce, "make a table or figure of the paper; go on where it was stopped"
    )
    reproduce.add_argument(
        "experiment",
        metavar="WHAT",
        help="table1 (DCI), fig3 (Q decomposition), fig4 (tasks), fig6 (causal policy gradient), "
        "more-factors (beyond the paper) or ablation (decisions of the preset, on tuning seeds)",
    )
    reproduce.add_argument(
        "--out",
        default="results",
        metavar="DIR",
        help="folder of tables and figures (default: results)",
    )
    reproduce.add_argument(
        "--runs",
        default="runs/reproduce",
        metavar="DIR",
        help="folder of the runs (default: runs/reproduce)",
    )
    reproduce.add_argument("--seeds", type=whole, default=3, help="how many seeds (default: 3)")
    reproduce.add_argument(
        "--preset",
        default="fast",
        help=f"settings of the runs: {', '.join(PRESETS)} (default: fast)",
    )
    reproduce.add_argument(
        "--steps",
        type=whole,
        help="environment steps per run of skill discovery (default: the preset's)",
    )
    reproduce.add_argument(
        "--task-steps",
        type=whole,
        help="environment steps per downstream run (default: the preset's)",
    )
    reproduce.add_argument(
        "--worlds",
        nargs="+",
        default=[],
        metavar="WORLD",
        help="run the jobs of these only; others are shown if they have records (default: all)",
    )
    reproduce.add_argument(
        "--tasks",
        nargs="+",
        default=[],
        metavar="TASK",
        help="of fig4 and fig6, run the jobs of these only (default: all of the worlds)",
    )
    reproduce.add_argument(
        "--methods",
        nargs="+",
        default=[],
        metavar="METHOD",
        help="of table1, fig4 and more-factors, the methods to show (default: the paper's)",
    )
    reproduce.add_argument(
        "--evaluation-steps",
        type=whole,
        default=100_000,
        help="steps to measure DCI on (default: 100,000)",
    )
    reproduce.add_argument(
        "--jobs",
        type=whole,
        default=1,
        help="jobs at a time, each on its share of the cores (default: 1)",
    )
    reproduce.add_argument("--quiet", action="store_true", help="show no progress")
    return parser, made


def _formatter(prog: str) -> argparse.HelpFormatter:
    width = min(120, shutil.get_terminal_size((120, 24)).columns)
    return argparse.HelpFormatter(prog, max_help_position=width // 3, width=width)


def _add_fields(
    group: argparse._ArgumentGroup, kind: type[BaseConfig], skip: Collection[str] = ()
) -> None:
    """An option for each config field, with its documentation as help."""
    for name, field in kind.fields().items():
        if name in SKIPPED_FIELDS or name in skip:
            continue
        option, annotation = f"--{name.replace('_', '-')}", kind.types()[name]
        common: dict[str, Any] = dict(dest=name, default=None, help=field.metadata["doc"])
        if annotation is bool:
            group.add_argument(option, action=argparse.BooleanOptionalAction, **common)
        elif typing.get_origin(annotation) is typing.Literal:
            group.add_argument(option, metavar="|".join(typing.get_args(annotation)), **common)
        elif typing.get_origin(annotation) is tuple:
            group.add_argument(option, type=_integers, metavar="N,N", **common)
        else:
            parse = whole if annotation is int else annotation
            group.add_argument(option, type=parse, metavar=annotation.__name__.upper(), **common)


def whole(text: str) -> int:
    """A whole number, which may be written as 1000000, 1_000_000 or 1e6."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise ValueError(f"{text} is not a whole number") from None
        return int(number)


whole.__name__ = "whole number"  # what argparse calls it in messages


def _integers(text: str) -> tuple[int, ...]:
    return () if text == "none" else tuple(int(part) for part in text.split(","))


_integers.__name__ = "list of layers (N,N or none)"  # what argparse calls it in messages


def _load_libraries() -> None:
    """Imports what the commands need, and keeps compiled programs, so that the second start is quick.

    JAX's own variable chooses another place for them.
    """
    import jax

    import dusdi.experiments
    import dusdi.video  # noqa: F401

    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dusdi" / "xla"
        jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def _world(text: str, arguments: argparse.Namespace, like: WorldSpec | None = None) -> World:
    """The world that a user names, with the factors of a run's world (`like`) if it says none."""
    from dusdi.envs import WORLDS, import_world, make

    factors, options = _named(arguments.factor, "factor"), _named(arguments.env_option, "option")
    if ":" in text:
        values = {name: _parse_value(value) for name, value in options.items()}
        return import_world(text, factors, arguments.proprioception, values, like)
    if text.endswith(".py"):
        raise UsageError(f"name the function in it that makes the world: {text}:FUNCTION")
    if (factors or arguments.proprioception) and text in WORLDS:
        told = "--factor and --proprioception are for worlds of your own"
        raise UsageError(f"{told}; {text!r} has its factors")
    return make(text, **{name: _parse_value(value) for name, value in options.items()})


def _own_world(
    text: str | None,
    arguments: argparse.Namespace,
    like: WorldSpec | None,
) -> World | None:
    """The world of the user's own that is named for a run, if one is."""
    if text:
        return _world(text, arguments, like)
    if arguments.factor or arguments.proprioception or arguments.env_option:
        options = "--factor, --proprioception and --env-option"
        raise UsageError(f"{options} are for worlds of your own, and none is named")
    return None


def _add_world_options(parser: argparse.ArgumentParser) -> None:
    several: Any = {"action": "append", "default": []}
    entries = "entries like 8 or 0,1 or 2:5, or a key like block or hand[0:3]"
    parser.add_argument(
        "--factor",
        metavar="NAME=ENTRIES",
        help=f"a factor of a Gymnasium environment: {entries}; may be repeated",
        **several,
    )
    parser.add_argument(
        "--proprioception",
        metavar="ENTRIES",
        help="entries or factors that no skill component is to control",
    )
    parser.add_argument(
        "--env-option",
        metavar="NAME=VALUE",
        help="an option of the world, e.g. agents=5; may be repeated",
        **several,
    )


def _named(texts: Sequence[str], kind: str) -> dict[str, str]:
    """NAME=VALUE texts by name."""
    pairs = [text.partition("=") for text in texts]
    for text, (name, separator, _) in zip(texts, pairs, strict=True):
        if not name or not separator:
            raise UsageError(f"a {kind} of a world is NAME=VALUE, not {text!r}")
        if [other for other, _, _ in pairs].count(name) > 1:
            raise UsageError(f"the {kind} {name!r} is given twice")
    return {name: value for name, _, value in pairs}


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except json.JSONDecodeError:
        return text


def _next_options(env: str, arguments: argparse.Namespace) -> str:
    """The options with which later commands find a run's world, if it is not one of dusdi's."""
    if ":" not in env:
        return ""
    words = ["--env", env]
    for option in arguments.env_option:
        words += ["--env-option", option]
    return " " + shlex.join(words)


def _place(text: str) -> str:
    """A world or task as part of a folder's name."""
    return text.removeprefix("./").replace("/", "-").replace(":", ".")


def _envs(arguments: argparse.Namespace) -> None:
    from dusdi.envs import WORLDS
    from dusdi.tasks import TASKS, make_task

    console = _console()
    for name, world_class in WORLDS.items():
        spec = world_class().spec
        others = [factor for factor in spec.factors if not factor.controlled]
        options = [
            f"{p.name}={p.default}" for p in inspect.signature(world_class).parameters.values()
        ]
        console.print(Text(name, style="bold"))
        for heading, text in (
            ("sizes", f"{spec.observation_size} observations, {spec.action_size} actions"),
            ("options", ", ".join(options)),
            ("skill components", _factor_list(spec.controlled)),
            ("other factors", _factor_list(others)),
        ):
            if text:
                console.print(Padding(Text(f"{heading}: {text}"), (0, 0, 0, 2)))
        for task_name in (task for task in TASKS if task.split("/")[0] == name):
            task = make_task(task_name)
            channels = len(task.spec.channels)
            about = (inspect.getdoc(type(task)) or "").splitlines()[0]
            paid = f"{channels} reward channel{'s' if channels > 1 else ''}"
            console.print(Padding(Text(f"task {task_name}", style="bold"), (0, 0, 0, 2)))
            console.print(Padding(Text(f"{about} ({paid})"), (0, 0, 0, 4)))


def _console() -> Console:
    """Tables keep their width where the output is not a terminal."""
    return Console() if sys.stdout.isatty() else Console(width=140)


def _factor_list(factors: Sequence[Any]) -> str:
    shown = [f"{factor.name} ({len(factor.indices)})" for factor in factors]
    if len(shown) > 4:
        shown = [*shown[:2], "…", f"{shown[-1]}: {len(factors)} in all"]
    return ", ".join(shown)


def _pretrain(arguments: argparse.Namespace) -> None:
    from dusdi.info import saved_world
    from dusdi.pretraining import pretrain

    fields = {
        name: getattr(arguments, name)
        for name in Config.fields()
        if getattr(arguments, name, None) is not None
    }
    fields.pop("preset", None)
    name = _place(arguments.env)
    default = f"runs/{name}-{fields.get('method', 'dusdi')}-seed{fields.get('seed', 0)}"
    out = Path(arguments.out or default)
    world = _world(arguments.env, arguments, saved_world(out) if arguments.resume else None)
    skills = pretrain(
        world,
        preset=arguments.preset,
        out=out,
        resume=arguments.resume,
        progress=not arguments.quiet,
        **fields,
    )
    print(f"{skills.step:,} steps done; skills in {out}")
    run, env = shlex.quote(str(out)), _next_options(arguments.env, arguments)
    print(f"next: dusdi evaluate {run}{env}\n      dusdi render {run} --out {run}/skills.mp4{env}")


def _downstream(arguments: argparse.Namespace) -> None:
    from dusdi.policy import load
    from dusdi.task_learning import downstream

    usual = "sac" if arguments.skills == "scratch" else "ppo"
    agent = usual if arguments.agent is None else arguments.agent
    if agent not in AGENTS:
        raise unknown_name("agent", agent, AGENTS)
    kind: type[BaseConfig] = Config if agent == "sac" else PPOConfig
    given = {**PPOConfig.fields(), **Config.fields()}
    fields = {
        name: getattr(arguments, name)
        for name in given
        if getattr(arguments, name, None) is not None
    }
    for name in ("preset", "method", "agent"):
        fields.pop(name, None)
    for name in fields:
        if name not in kind.fields():
            raise UsageError(f"--{name.replace('_', '-')} is not a setting of agent {agent}")
    if agent != "sac" and arguments.skills == "scratch":
        raise UsageError(
            f"agent {agent} chooses skills: name the run that learned them instead of scratch"
        )
    skills = None if arguments.skills == "scratch" else load(arguments.skills, arguments.run_seed)
    like = skills.spec if skills else None
    own = arguments.task if ":" in arguments.task else None
    task = _own_world(own, arguments, like) or arguments.task
    name = "-".join(part for part in (skills.config.method if skills else "", agent) if part)
    out = Path(arguments.out or f"runs/{_place(arguments.task)}-{name}-seed{fields.get('seed', 0)}")
    options: dict[str, Any] = {
        "preset": arguments.preset,
        "resume": arguments.resume,
        "progress": not arguments.quiet,
    }
    solution = downstream(skills, task, agent=arguments.agent, out=out, **options, **fields)
    print(f"{solution.step:,} steps done; solution in {out}")
    run, env = shlex.quote(str(out)), _next_options(arguments.task, arguments)
    print(f"next: dusdi evaluate {run}{env}\n      dusdi render {run} --out {run}/task.mp4{env}")


def _evaluate_task(arguments: argparse.Namespace) -> None:
    from dusdi.controller import load_controller
    from dusdi.evaluation import measure_task

    if arguments.oracle:
        raise UsageError(
            "--oracle is for runs of skill discovery; a task's hand-written solution is always measured"
        )
    world = _own_world(arguments.env, arguments, load_controller(arguments.run_folder).spec)
    options = {"episodes": arguments.episodes, "seed": arguments.seed, "out": arguments.out}
    report = measure_task(arguments.run_folder, world, progress=not arguments.quiet, **options)
    if arguments.json:
        print(json.dumps(report))
        return
    task, folder = report["run"]["world"]["name"], arguments.out or arguments.run_folder
    title = Text(f"{task}, {arguments.run_folder}, {arguments.episodes} episodes")
    table = Table("", "return per episode", title=title)
    for name, key in (
        ("random skills", "random_skills"),
        ("hand-written solution", "hand_written"),
    ):
        if key in report:
            table.add_row(name, f"{report[key]:,.2f}")
    for found in report["seeds"]:
        table.add_row(
            f"this run, seed {found['seed']}",
            f"{found['return']:,.2f} ± {found['return_std']:,.2f}",
        )
    _console().print(table)
    print(f"channels: {folder}/return.json")


def _evaluate(arguments: argparse.Namespace) -> None:
    from dusdi.controller import is_downstream
    from dusdi.evaluation import check_numbers, check_oracle, evaluate_oracle, measure, world_for
    from dusdi.metrics.dci import remarks
    from dusdi.policy import load

    check_numbers(steps=arguments.steps, episodes=arguments.episodes, seed=arguments.seed)
    if is_downstream(arguments.run_folder):
        _evaluate_task(arguments)
        return
    skills = load(arguments.run_folder)
    folder = arguments.out or skills.folder or arguments.run_folder
    world = world_for(skills, _own_world(arguments.env, arguments, skills.spec))
    if arguments.oracle:
        check_oracle(skills, world)
    options = {"steps": arguments.steps, "seed": arguments.seed, "progress": not arguments.quiet}
    report = measure(arguments.run_folder, world, out=arguments.out, **options)
    oracle = None
    if arguments.oracle:
        oracle = evaluate_oracle(
            world, skill_length=skills.config.skill_length, **options
        ).to_json()
    if arguments.json:
        print(json.dumps(report | {"oracle": oracle} if oracle else report))
        return
    title = Text(f"DCI of {arguments.run_folder}, {arguments.steps:,} steps")
    table = Table("", "disentanglement", "completeness", "informativeness", title=title)
    for name, source in (("", report), ("oracle, ", oracle)):
        if source:
            table.add_row(f"{name}skills to states (the paper's)", *_scores(source))
            table.add_row(f"{name}states to skills", *_scores(source["states_to_skills"]))
    _console().print(table)
    _console().print(_component_table(report))
    for remark in remarks(report):
        say(remark, sys.stdout)
    suffix = "-seed*" if len(report["seeds"]) > 1 else ""
    print(f"importances: {folder}/dci{suffix}.png and {folder}/dci.json")
    print(f"where each value of each component leads: {folder}/values{suffix}.png")


def _component_table(report: dict[str, Any]) -> Table:
    """How well each skill component is told from the states, and its factor from the skills."""
    from dusdi.metrics.dci import component_scores

    table = Table("component", "factor", title="Each component, and the factor it is about")
    headings = ("told from states", "chance", "D", "factor told from skills", "chance")
    for heading in headings:
        table.add_column(heading, justify="right")
    for component, factor, *scores in component_scores(report):
        numbers = ["-" if score is None else f"{score:.3f}" for score in scores]
        table.add_row(component, Text(factor), *numbers)
    return table


def _scores(scores: dict[str, Any]) -> list[str]:
    from dusdi.metrics.dci import NAMES

    return [_score(scores, name) for name in NAMES]


def _score(scores: dict[str, Any], name: str) -> str:
    if scores[name] is None:
        return "not measured"
    spread = scores.get(f"{name}_std")
    return f"{scores[name]:.3f}" + (f" ± {spread:.3f}" if spread is not None else "")


def _render(arguments: argparse.Namespace) -> None:
    from dusdi.controller import is_downstream, load_controller
    from dusdi.evaluation import task_for, world_for
    from dusdi.policy import load
    from dusdi.video import render, render_task

    options = {"count": arguments.count, "seed": arguments.seed, "progress": not arguments.quiet}
    if is_downstream(arguments.run_folder):
        if arguments.skill:
            raise UsageError(
                "--skill is for runs of skill discovery; a task's solution chooses its skills itself"
            )
        solution = load_controller(arguments.run_folder, arguments.run_seed)
        task = task_for(solution.spec, _own_world(arguments.env, arguments, solution.spec))
        if arguments.view:
            task.choose_view(arguments.view)
        print(render_task(solution, task, arguments.out, **options))
        return
    skills = load(arguments.run_folder, arguments.run_seed)
    world = world_for(skills, _own_world(arguments.env, arguments, skills.spec))
    if arguments.view:
        world.choose_view(arguments.view)
    chosen = [_parse_skill(text) for text in arguments.skill]
    print(render(skills, world, arguments.out, chosen=chosen, **options))


def _info(arguments: argparse.Namespace) -> None:
    from dusdi.info import read_run
    from dusdi.progress import metrics_view

    found = read_run(arguments.run_folder)
    if arguments.json:
        print(json.dumps(found.to_json()))
        return
    grid = Table.grid(padding=(0, 2))
    for heading, text in found.lines():
        grid.add_row(Text(heading, style="bold"), Text(text))
    _console().print(grid)
    if found.rows:
        print(f"\nlogged at step {found.rows[-1]['step']:,}:")
        _console().print(metrics_view(found.last_metrics, found.component_order))


def _compare(arguments: argparse.Namespace) -> None:
    from dusdi.compare import compare

    rows = compare(arguments.run_folders, arguments.out)
    if arguments.json:
        print(json.dumps(rows))
        return
    console = _console()
    rows = [
        {name: value for name, value in row.items() if any(other[name] for other in rows)}
        for row in rows
    ]
    if console.width < 100:  # runs below each other
        for row in rows:
            console.print(Text(row["run"], style="bold"))
            for name, value in row.items():
                if name != "run" and value:
                    console.print(Padding(Text(f"{name}: {value}"), (0, 0, 0, 2)))
    else:
        table = Table(*rows[0])
        for row in rows:
            table.add_row(*(Text(str(value)) for value in row.values()))
        console.print(table)
    print(f"learning curves: {arguments.out}")


def _reproduce(arguments: argparse.Namespace) -> None:
    from dusdi.experiments import Settings, reproduce

    settings = Settings(
        out=Path(arguments.out),
        runs=Path(arguments.runs),
        seeds=arguments.seeds,
        preset=arguments.preset,
        fields={} if arguments.steps is None else {"steps": arguments.steps},
        evaluation_steps=arguments.evaluation_steps,
        worlds=arguments.worlds,
        tasks=arguments.tasks,
        methods=arguments.methods,
        task_fields={} if arguments.task_steps is None else {"steps": arguments.task_steps},
        jobs=arguments.jobs,
        progress=not arguments.quiet,
    )
    for path in reproduce(arguments.experiment, settings):
        print(path)


def _parse_skill(text: str) -> np.ndarray:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"a skill is a list of numbers like 0,3,1, not {text!r}") from error
    return np.array(values)


if __name__ == "__main__":
    sys.exit(main())
