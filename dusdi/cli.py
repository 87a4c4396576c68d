"""The `dusdi` command: a thin layer of argument parsing over the package's functions."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import signal
import sys
import typing
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dusdi.config import AGENTS, PPO_PRESETS, PRESETS, BaseConfig, Config, PPOConfig
from dusdi.errors import DusdiError, UsageError, unknown_name
from dusdi.parallel import handling

USAGE_ERROR, FAILURE, INTERRUPTED = 2, 1, 130
SKIPPED_FIELDS = {"preset", "method", "agent"}  # have arguments of their own


class _Parser(argparse.ArgumentParser):
    """Names the nearest valid option when one is mistyped."""

    def error(self, message: str) -> typing.NoReturn:
        print(f"{self.prog}: {message}", file=sys.stderr)
        print(f"see `{self.prog} --help`", file=sys.stderr)
        sys.exit(USAGE_ERROR)

    def option_names(self) -> list[str]:
        return [name for action in self._actions for name in action.option_strings]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; errors meant for people are printed without a traceback."""
    parser, commands = _make_parser()
    namespace, unknown = parser.parse_known_args(arguments)
    try:
        if unknown:
            option = next((text for text in unknown if text.startswith("-")), None)
            if option is None:
                raise UsageError(f"unexpected argument {unknown[0]!r}")
            raise unknown_name("option", option.split("=")[0], commands[namespace.command].option_names())
        _use_compilation_cache()
        # What `kill` and cluster schedulers send is to save what Ctrl-C saves.
        with handling(signal.SIGTERM, signal.default_int_handler):
            namespace.run(namespace)
        return 0
    except UsageError as error:
        print(f"dusdi: {error}", file=sys.stderr)
        return USAGE_ERROR
    except DusdiError as error:
        print(f"dusdi: {error}", file=sys.stderr)
        return FAILURE
    except KeyboardInterrupt as error:
        print(f"dusdi: {str(error) or 'interrupted'}", file=sys.stderr)
        return INTERRUPTED


def _make_parser() -> tuple[_Parser, dict[str, _Parser]]:
    parser = _Parser(prog="dusdi", description="Discover disentangled skills without reward, and put them to work.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    made = {}

    def command(name: str, run: Any, text: str) -> _Parser:
        made[name] = commands.add_parser(name, help=text, description=text, formatter_class=_formatter, allow_abbrev=False)
        made[name].set_defaults(run=run)
        return made[name]

    command("envs", _envs, "list the worlds, their factors and sizes, and their tasks")

    pretrain = command("pretrain", _pretrain, "discover skills in a world, without reward")
    pretrain.add_argument("env", metavar="ENV", help="a world (see `dusdi envs`), or package.module:function of your own")
    pretrain.add_argument("--method", help="skill-discovery objective: dusdi, diayn, diayn-mc (default: dusdi)")
    pretrain.add_argument("--preset", help=f"settings to start from: {', '.join(PRESETS)} (default: fast)")
    pretrain.add_argument("--out", metavar="DIR", help="the run's folder (default: runs/ENV-METHOD-seedS)")
    pretrain.add_argument("--resume", action="store_true", help="go on with the run in that folder, if there is one")
    pretrain.add_argument("--quiet", action="store_true", help="show no progress")
    pretrain.add_argument(
        "--env-option", action="append", default=[], metavar="NAME=VALUE", help="an option of the world, e.g. agents=5"
    )
    _add_fields(pretrain.add_argument_group("config fields (default: the preset's value)"), Config)

    downstream = command("downstream", _downstream, "learn a task with a run's skills, or without any (agent sac)")
    downstream.add_argument("skills", metavar="RUN", help="the folder of the run that learned the skills, or `scratch` for none")
    downstream.add_argument("task", metavar="TASK", help="a task (see `dusdi envs`), or package.module:function of your own")
    downstream.add_argument("--agent", help=f"{', '.join(AGENTS)} (default: ppo; sac from scratch)")
    downstream.add_argument("--preset", help=f"settings to start from: {', '.join(PPO_PRESETS)} (default: fast)")
    downstream.add_argument("--run-seed", type=int, default=0, help="which seed of a run of several, counted from 0")
    downstream.add_argument("--out", metavar="DIR", help="the run's folder (default: runs/TASK-METHOD-AGENT-seedS)")
    downstream.add_argument("--resume", action="store_true", help="go on with the run in that folder, if there is one")
    downstream.add_argument("--quiet", action="store_true", help="show no progress")
    _add_fields(downstream.add_argument_group("config fields of ppo and cpg (default: the preset's value)"), PPOConfig)
    own = set(PPOConfig.fields())
    _add_fields(downstream.add_argument_group("further config fields of sac"), Config, skip=own)

    evaluate = command("evaluate", _evaluate, "measure how disentangled a run's skills are (DCI), or what a task's run earns")
    evaluate.add_argument("run_folder", metavar="RUN", help="a run's folder")
    evaluate.add_argument("--steps", type=int, default=100_000, help="environment steps to measure DCI on (default: 100,000)")
    evaluate.add_argument("--episodes", type=int, default=100, help="episodes to measure returns on (default: 100)")
    evaluate.add_argument("--seed", type=int, default=0, help="seed of the evaluation")
    evaluate.add_argument("--env", help="package.module:function of the run's world, if it is not one of dusdi's")
    evaluate.add_argument("--oracle", action="store_true", help="also measure the world's hand-written oracle, a ceiling")
    evaluate.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    evaluate.add_argument("--out", metavar="DIR", help="folder of the results (default: the run's)")
    evaluate.add_argument("--quiet", action="store_true", help="show no progress")

    render = command("render", _render, "make a video of a run's skills, or of a task's solution")
    render.add_argument("run_folder", metavar="RUN", help="a run's folder")
    render.add_argument("--out", required=True, metavar="FILE", help="the video, .mp4 or .gif")
    render.add_argument("--skill", action="append", default=[], help="a skill to show, e.g. 0,3,1; may be repeated")
    render.add_argument("--count", type=int, default=6, help="how many skills to show if none is given (default: 6)")
    render.add_argument("--seed", type=int, default=0, help="seed of the world and the random skills")
    render.add_argument("--run-seed", type=int, default=0, help="which seed of a run of several, counted from 0")
    render.add_argument("--view", help="which kind of picture to draw, of worlds that have several")
    render.add_argument("--env", help="package.module:function of the run's world, if it is not one of dusdi's")
    render.add_argument("--quiet", action="store_true", help="show no progress")

    info = command("info", _info, "say what a run is, how far it is and what it reached")
    info.add_argument("run_folder", metavar="RUN", help="a run's folder")
    info.add_argument("--json", action="store_true", help="print one JSON object instead")

    compare = command("compare", _compare, "put runs side by side: a table and learning curves")
    compare.add_argument("run_folders", metavar="RUN", nargs="+", help="the runs' folders")
    text = "the picture (default: compare.png)"
    compare.add_argument("--out", default="compare.png", metavar="FILE", help=text)
    compare.add_argument("--json", action="store_true", help="print a JSON list instead of a table")

    reproduce = command("reproduce", _reproduce, "make a table or figure of the paper; go on where it was stopped")
    reproduce.add_argument(
        "experiment",
        metavar="WHAT",
        help="table1 (DCI), fig3 (Q decomposition), fig4 (tasks), fig6 (causal policy gradient), more-factors (beyond the paper)",
    )
    reproduce.add_argument("--out", default="results", metavar="DIR", help="folder of tables and figures (default: results)")
    reproduce.add_argument("--runs", default="runs/reproduce", metavar="DIR", help="folder of the runs (default: runs/reproduce)")
    reproduce.add_argument("--seeds", type=int, default=3, help="how many seeds, from 0 (default: 3)")
    reproduce.add_argument("--preset", default="fast", help=f"settings of the runs: {', '.join(PRESETS)} (default: fast)")
    reproduce.add_argument("--steps", type=int, help="environment steps per run of skill discovery (default: the preset's)")
    reproduce.add_argument("--task-steps", type=int, help="environment steps per downstream run (default: the preset's)")
    reproduce.add_argument(
        "--worlds", nargs="+", default=[], metavar="WORLD", help="make only these anew, the files keep the others (default: all)"
    )
    reproduce.add_argument(
        "--tasks", nargs="+", default=[], metavar="TASK", help="of fig4, make only these anew (default: all of the worlds)"
    )
    reproduce.add_argument("--evaluation-steps", type=int, default=100_000, help="steps to measure DCI on (default: 100,000)")
    reproduce.add_argument("--jobs", type=int, default=1, help="runs at a time, each on its share of the cores (default: 1)")
    reproduce.add_argument("--quiet", action="store_true", help="show no progress")
    return parser, made


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, max_help_position=40, width=120)


def _add_fields(group: argparse._ArgumentGroup, kind: type[BaseConfig], skip: Collection[str] = ()) -> None:
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
            group.add_argument(option, type=annotation, metavar=annotation.__name__.upper(), **common)


def _integers(text: str) -> tuple[int, ...]:
    return () if text == "none" else tuple(int(part) for part in text.split(","))


_integers.__name__ = "list of layers (N,N or none)"  # what argparse calls it in messages


def _use_compilation_cache() -> None:
    """Keeps compiled programs, so that the second start is quick; JAX's own variable chooses another place."""
    import jax

    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dusdi" / "xla"
        jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def _world(text: str, options: Sequence[str] = ()):
    from dusdi.envs import import_world, make

    if ":" in text:
        if options:
            raise UsageError("--env-option is for dusdi's own worlds; set the options in the function you name")
        sys.path.insert(0, os.getcwd())
        return import_world(text)
    return make(text, **dict(_parse_option(option) for option in options))


def _parse_option(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator:
        raise UsageError(f"an option of a world is NAME=VALUE, not {text!r}")
    try:
        return name, json.loads(value.lower() if value in ("True", "False") else value)
    except json.JSONDecodeError:
        return name, value


def _envs(arguments: argparse.Namespace) -> None:
    from dusdi.envs import WORLDS
    from dusdi.tasks import TASKS, make_task

    table = Table("world", "options", "observations", "actions", "skill components", "other factors")
    for name, world_class in WORLDS.items():
        spec = world_class().spec
        options = [f"{p.name}={p.default}" for p in inspect.signature(world_class).parameters.values()]
        others = [factor for factor in spec.factors if not factor.controlled]
        table.add_row(
            name,
            "\n".join(options),
            str(spec.observation_size),
            str(spec.action_size),
            _factor_list(spec.controlled),
            _factor_list(others),
        )
    _console().print(table)
    tasks = Table("task", "observations", "reward channels", "what it is about")
    for name in TASKS:
        task = make_task(name)
        about = inspect.getdoc(type(task)) or ""
        tasks.add_row(name, str(task.spec.observation_size), str(len(task.spec.channels)), about.splitlines()[0])
    _console().print(tasks)


def _console() -> Console:
    """Tables keep their width where the output is not a terminal."""
    return Console() if sys.stdout.isatty() else Console(width=140)


def _factor_list(factors: Sequence[Any]) -> str:
    shown = [f"{factor.name} ({len(factor.indices)})" for factor in factors]
    if len(shown) > 4:
        shown = [*shown[:2], "…", shown[-1], f"[{len(factors)} in all]"]
    return "\n".join(shown).replace("[", r"\[")


def _pretrain(arguments: argparse.Namespace) -> None:
    from dusdi.pretrain import pretrain

    world = _world(arguments.env, arguments.env_option)
    fields = {name: getattr(arguments, name) for name in Config.fields() if getattr(arguments, name, None) is not None}
    fields.pop("preset", None)
    name = arguments.env.replace(":", ".")
    default = f"runs/{name}-{fields.get('method', 'dusdi')}-seed{fields.get('seed', 0)}"
    out = Path(arguments.out or default)
    skills = pretrain(world, preset=arguments.preset, out=out, resume=arguments.resume, progress=not arguments.quiet, **fields)
    print(f"{skills.step:,} steps done; skills in {out}")
    print(f"next: dusdi evaluate {out}; dusdi render {out} --out skills.mp4")


def _downstream(arguments: argparse.Namespace) -> None:
    from dusdi.downstream import downstream
    from dusdi.policy import load

    agent = arguments.agent or ("sac" if arguments.skills == "scratch" else "ppo")
    if agent not in AGENTS:
        raise unknown_name("agent", agent, AGENTS)
    kind: type[BaseConfig] = Config if agent == "sac" else PPOConfig
    given = {**PPOConfig.fields(), **Config.fields()}
    fields = {name: getattr(arguments, name) for name in given if getattr(arguments, name, None) is not None}
    for name in ("preset", "method", "agent"):
        fields.pop(name, None)
    for name in fields:
        if name not in kind.fields():
            raise UsageError(f"--{name.replace('_', '-')} is not a setting of agent {agent}")
    if agent != "sac" and arguments.skills == "scratch":
        raise UsageError(f"agent {agent} chooses skills: name the run that learned them instead of scratch")
    skills = None if arguments.skills == "scratch" else load(arguments.skills, arguments.run_seed)
    task = _world(arguments.task) if ":" in arguments.task else arguments.task
    name = "-".join(part for part in (skills.config.method if skills else "", agent) if part)
    place = arguments.task.replace("/", "-").replace(":", ".")
    out = Path(arguments.out or f"runs/{place}-{name}-seed{fields.get('seed', 0)}")
    options: dict[str, Any] = {"preset": arguments.preset, "resume": arguments.resume, "progress": not arguments.quiet}
    solution = downstream(skills, task, agent=arguments.agent, out=out, **options, **fields)
    print(f"{solution.step:,} steps done; solution in {out}")
    env = f" --env {arguments.task}" if ":" in arguments.task else ""
    print(f"next: dusdi evaluate {out}{env}; dusdi render {out} --out task.mp4{env}")


def _evaluate_task(arguments: argparse.Namespace) -> None:
    from dusdi.evaluate import measure_task

    if arguments.oracle:
        raise UsageError("--oracle is for runs of skill discovery; a task's hand-written solution is always measured")
    world = _world(arguments.env) if arguments.env else None
    options = {"episodes": arguments.episodes, "seed": arguments.seed, "out": arguments.out}
    report = measure_task(arguments.run_folder, world, progress=not arguments.quiet, **options)
    if arguments.json:
        print(json.dumps(report))
        return
    task, folder = report["run"]["world"]["name"], arguments.out or arguments.run_folder
    title = Text(f"{task}, {arguments.run_folder}, {arguments.episodes} episodes")
    table = Table("", "return per episode", title=title)
    for name, key in (("random skills", "random_skills"), ("hand-written solution", "hand_written")):
        if key in report:
            table.add_row(name, f"{report[key]:,.2f}")
    for found in report["seeds"]:
        table.add_row(f"this run, seed {found['seed']}", f"{found['return']:,.2f} ± {found['return_std']:,.2f}")
    _console().print(table)
    print(f"channels: {folder}/return.json")


def _evaluate(arguments: argparse.Namespace) -> None:
    from dusdi.controller import is_downstream
    from dusdi.evaluate import check_numbers, check_oracle, evaluate_oracle, measure, world_for
    from dusdi.metrics.dci import remarks
    from dusdi.policy import load

    check_numbers(steps=arguments.steps, episodes=arguments.episodes, seed=arguments.seed)
    if is_downstream(arguments.run_folder):
        _evaluate_task(arguments)
        return
    skills = load(arguments.run_folder)
    folder = arguments.out or skills.folder or arguments.run_folder
    world = world_for(skills, _world(arguments.env) if arguments.env else None)
    if arguments.oracle:
        check_oracle(skills, world)
    options = {"steps": arguments.steps, "seed": arguments.seed, "progress": not arguments.quiet}
    report = measure(arguments.run_folder, world, out=arguments.out, **options)
    oracle = None
    if arguments.oracle:
        oracle = evaluate_oracle(world, skill_length=skills.config.skill_length, **options).to_json()
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
        print(remark)
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
    from dusdi.evaluate import task_for, world_for
    from dusdi.policy import load
    from dusdi.video import render, render_task

    options = {"count": arguments.count, "seed": arguments.seed, "progress": not arguments.quiet}
    if is_downstream(arguments.run_folder):
        if arguments.skill:
            raise UsageError("--skill is for runs of skill discovery; a task's solution chooses its skills itself")
        solution = load_controller(arguments.run_folder, arguments.run_seed)
        task = task_for(solution.spec, _world(arguments.env) if arguments.env else None)
        if arguments.view:
            task.choose_view(arguments.view)
        print(render_task(solution, task, arguments.out, **options))
        return
    skills = load(arguments.run_folder, arguments.run_seed)
    world = world_for(skills, _world(arguments.env) if arguments.env else None)
    if arguments.view:
        world.choose_view(arguments.view)
    chosen = [_parse_skill(text) for text in arguments.skill]
    print(render(skills, world, arguments.out, chosen=chosen, **options))


def _info(arguments: argparse.Namespace) -> None:
    from dusdi.info import read_run
    from dusdi.progress import _metrics

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
        _console().print(_metrics(found.last_metrics))


def _compare(arguments: argparse.Namespace) -> None:
    from dusdi.compare import compare

    rows = compare(arguments.run_folders, arguments.out)
    if arguments.json:
        print(json.dumps(rows))
        return
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(Text(str(value)) for value in row.values()))
    _console().print(table)
    print(f"learning curves: {arguments.out}")


def _reproduce(arguments: argparse.Namespace) -> None:
    from dusdi.reproduce import Settings, reproduce

    settings = Settings(
        out=Path(arguments.out),
        runs=Path(arguments.runs),
        seeds=arguments.seeds,
        preset=arguments.preset,
        fields={} if arguments.steps is None else {"steps": arguments.steps},
        evaluation_steps=arguments.evaluation_steps,
        worlds=arguments.worlds,
        tasks=arguments.tasks,
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
