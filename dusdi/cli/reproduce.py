"""`dusdi reproduce`: makes a table or figure of the paper."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from dusdi.cli import COMMANDS
from dusdi.cli.options import QuietOptions, argument, filled, option
from dusdi.cli.parser import Parser, Section, wants_help
from dusdi.experiments import (
    EXPERIMENTS,
    SEEDS,
    TUNING_SEEDS,
    Settings,
    reproduce,
    usual_seeds,
)
from dusdi.experiments.checks import CHOICE_OF_METHODS
from dusdi.presets import PRESETS
from dusdi.settings import Group

PUBLISHED = "results"  # is committed
ELSEWHERE = "runs/results"
#: Options by which numbers are others than the published ones.
CHANGING = ("preset", "steps", "task_steps", "evaluation_steps")


@dataclasses.dataclass(frozen=True)
class ReproduceOptions(Group):
    """What to reproduce with."""

    experiment: str = argument(
        "WHAT", "; ".join(f"{name} ({about})" for name, about in EXPERIMENTS.items())
    )
    out: str = option(
        "",
        f"folder of tables and figures (default: {PUBLISHED}; {ELSEWHERE} with another preset, "
        "other numbers of steps or fewer seeds)",
        "DIR",
    )
    runs: str = option("runs/reproduce", "folder of the runs", "DIR")
    seeds: int = option(
        0, f"how many seeds (default: {SEEDS}; of tuning and ablation: {TUNING_SEEDS})"
    )
    preset: str = option("fast", f"settings of the runs: {', '.join(PRESETS)}", "PRESET")
    steps: int = option(0, "environment steps per run of skill discovery (default: the preset's)")
    task_steps: int = option(0, "environment steps per downstream run (default: the preset's)")
    worlds: tuple[str, ...] = option(
        (),
        "run the jobs of these only; others are shown if they have records (default: all)",
        "WORLD ...",
    )
    tasks: tuple[str, ...] = option(
        (),
        "of fig4, fig5, fig6 and susd, run the jobs of these only (default: all of the worlds)",
        "TASK ...",
    )
    methods: tuple[str, ...] = option(
        (),
        f"of {', '.join(CHOICE_OF_METHODS)}, run the jobs of these methods only (default: the "
        "paper's); the other experiments compare variants of one method and refuse this",
        "METHOD ...",
    )
    evaluation_steps: int = option(100_000, "steps to measure DCI on")
    jobs: int = option(1, "jobs at a time, each on its share of the cores")


def run(words: list[str]) -> None:
    """Runs the command."""
    sections = [Section("", ReproduceOptions), Section("", QuietOptions)]
    parser = Parser("reproduce", COMMANDS["reproduce"], sections)
    if wants_help(words):
        # No number stands for these.
        parser.print_help({"steps": "", "task_steps": "", "seeds": ""})
        return
    given = parser.parse(words)
    options = filled(ReproduceOptions, given)
    settings = Settings(
        out=Path(options.out or default_out(options)),
        runs=Path(options.runs),
        seeds=options.seeds if "seeds" in given else usual_seeds(options.experiment),
        preset=options.preset,
        fields={"steps": options.steps} if "steps" in given else {},
        evaluation_steps=options.evaluation_steps,
        worlds=options.worlds,
        tasks=options.tasks,
        methods=options.methods,
        task_fields={"steps": options.task_steps} if "task_steps" in given else {},
        jobs=options.jobs,
        progress="quiet" not in given,
    )
    for path in reproduce(options.experiment, settings):
        print(path)


def default_out(options: ReproduceOptions) -> str:
    """The folder of the published tables, if these are to be what comes out.

    A quick try must not write over them.
    """
    usual = ReproduceOptions()
    same = all(getattr(options, name) == getattr(usual, name) for name in CHANGING)
    enough = not options.seeds or options.seeds >= usual_seeds(options.experiment)
    return PUBLISHED if same and enough else ELSEWHERE
