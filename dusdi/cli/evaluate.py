"""`dusdi evaluate`: measures the skills of a run, or what a run on a task earns."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from typing import Any

from dusdi.checks import check_numbers
from dusdi.cli import COMMANDS
from dusdi.cli.options import (
    OwnWorldOptions,
    QuietOptions,
    RunFolderOptions,
    filled,
    flag,
    option,
)
from dusdi.cli.parser import Parser, Section, wants_help
from dusdi.cli.tables import console, print_table
from dusdi.cli.worlds import own_world
from dusdi.controller import load_controller, solves_task
from dusdi.errors import UsageError
from dusdi.evaluation import check_expert, evaluate_expert, measure, world_for
from dusdi.messages import say
from dusdi.metrics.dci import NAMES, component_scores, remarks
from dusdi.skills import load
from dusdi.task_evaluation import measure_task

#: Of the table of components; what is predicted is followed by the best constant guess of it.
COMPONENT_HEADINGS = (
    "component",
    "factor",
    "predicted from states",
    "chance",
    "D",
    "factor predicted from skills",
    "chance",
)


@dataclasses.dataclass(frozen=True)
class EvaluateOptions(RunFolderOptions):
    """What to measure on."""

    steps: int = option(100_000, "environment steps to measure DCI on")
    episodes: int = option(100, "episodes to measure returns on")
    seed: int = option(0, "seed of the evaluation")
    expert: bool = flag("also measure the world's scripted expert, as a reference")
    json: bool = flag("print one JSON object instead of a table")
    out: str = option("", "folder of the results (default: the run's)", "DIR")


def run(words: list[str]) -> None:
    """Runs the command."""
    sections = [
        Section("", EvaluateOptions),
        Section("world", OwnWorldOptions),
        Section("", QuietOptions),
    ]
    parser = Parser("evaluate", COMMANDS["evaluate"], sections)
    if wants_help(words):
        parser.print_help()
        return
    given = parser.parse(words)
    options = filled(EvaluateOptions, given)
    check_numbers(steps=options.steps, episodes=options.episodes, seed=options.seed)
    if solves_task(options.run_folder):
        evaluate_task(options, given)
    else:
        evaluate_skills(options, given)


def evaluate_task(options: EvaluateOptions, given: Mapping[str, Any]) -> None:
    """Measures returns and prints them."""
    if options.expert:
        raise UsageError(
            "--expert is for runs of skill discovery; the scripted reference of a task is always "
            "measured"
        )
    world_options = filled(OwnWorldOptions, given)
    spec = load_controller(options.run_folder).spec
    report = measure_task(
        options.run_folder,
        own_world(world_options.env, world_options, spec),
        episodes=options.episodes,
        seed=options.seed,
        out=options.out or None,
        progress="quiet" not in given,
    )
    if options.json:
        print(json.dumps(report))
        return
    title = f"{spec.name}, {options.run_folder}, {options.episodes} episodes"
    headings = ["", "return per episode"]
    if "discounted" in report:
        headings.append(f"discounted by {report['discounted']['factor']}")
    print_table(console(), headings, return_rows(report), title=title)
    say(f"channels: {options.out or options.run_folder}/return.json", sys.stdout)


def return_rows(report: Mapping[str, Any]) -> list[list[str]]:
    """The return of each seed, beside random skills and the scripted reference.

    Discounted returns follow in a column of their own, if the task has some.
    """
    tables = [report, *([report["discounted"]] if "discounted" in report else [])]
    references = {"random skills": "random_skills", "scripted reference": "scripted_reference"}
    rows = [
        [name, *(f"{table[key]:,.2f}" for table in tables)]
        for name, key in references.items()
        if key in report
    ]
    for seeds in zip(*(table["seeds"] for table in tables), strict=True):
        earned = [f"{found['return']:,.2f} ± {found['return_std']:,.2f}" for found in seeds]
        rows.append([f"this run, seed {seeds[0]['seed']}", *earned])
    return rows


def evaluate_skills(options: EvaluateOptions, given: Mapping[str, Any]) -> None:
    """Measures DCI and prints it."""
    skills = load(options.run_folder)
    world_options = filled(OwnWorldOptions, given)
    world = world_for(skills, own_world(world_options.env, world_options, skills.spec))
    if options.expert:
        check_expert(skills, world)
    how: dict[str, Any] = {"steps": options.steps, "seed": options.seed}
    how["progress"] = "quiet" not in given
    report = measure(options.run_folder, world, out=options.out or None, **how)
    expert = None
    if options.expert:
        expert = evaluate_expert(world, skill_length=skills.skill_length, **how).to_json()
    if options.json:
        print(json.dumps(report | {"expert": expert} if expert else report))
        return
    title = f"DCI of {options.run_folder}, {options.steps:,} steps"
    output = console()
    print_table(output, ("", *NAMES), score_rows(report, expert), title=title)
    title = "Each component, and the factor it is about"
    print_table(output, COMPONENT_HEADINGS, component_rows(report), title=title, numbers_from=2)
    for remark in [*remarks(report), *remarks_on_one_component(report)]:
        say(remark, sys.stdout)
    folder = options.out or skills.folder or options.run_folder
    suffix = "-seed*" if len(report["seeds"]) > 1 else ""
    say(f"importances: {folder}/dci{suffix}.png and {folder}/dci.json", sys.stdout)
    say(f"where each value of each component leads: {folder}/values{suffix}.png", sys.stdout)


def remarks_on_one_component(report: Mapping[str, Any]) -> list[str]:
    """A sentence on what scores don't mean for skills of a single component."""
    if len(report["components"]) > 1:
        return []
    return [
        "with a single component there is nothing to disentangle: completeness is 1 by definition, "
        "and disentanglement says only whether it matters to one factor; compare informativeness"
    ]


def score_rows(report: Mapping[str, Any], expert: Mapping[str, Any] | None) -> list[list[str]]:
    """The scores of skills in both directions, and those of the scripted expert if measured."""
    rows = []
    true = report.get("true_factors")
    for name, source in (("", report), ("true factors, ", true), ("scripted expert, ", expert)):
        if source:
            rows.append([f"{name}skills to states (the paper's)", *_scores(source)])
            rows.append([f"{name}states to skills", *_scores(source["states_to_skills"])])
    return rows


def component_rows(report: Mapping[str, Any]) -> list[list[str]]:
    """How well each skill component is predicted from states, and its factor from skills."""
    rows = []
    for component, factor, *scores in component_scores(report):
        numbers = ["-" if score is None else f"{score:.3f}" for score in scores]
        rows.append([component, factor, *numbers])
    return rows


def _scores(scores: Mapping[str, Any]) -> list[str]:
    return [_score(scores, name) for name in NAMES]


def _score(scores: Mapping[str, Any], name: str) -> str:
    if scores[name] is None:
        return "not measured"
    spread = scores.get(f"{name}_std")
    return f"{scores[name]:.3f}" + (f" ± {spread:.3f}" if spread is not None else "")
