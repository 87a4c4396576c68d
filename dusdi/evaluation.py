"""Measures what was learned: DCI of frozen skills, and the return of what solves a task, beside its floor and ceiling."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dusdi.controller import SkillController, load_controller
from dusdi.envs import WORLDS, as_world, make
from dusdi.envs.base import ORACLE_VALUES, World
from dusdi.errors import UsageError
from dusdi.files import write_atomically
from dusdi.metrics.dci import DCI, ComponentColumns, dci, summary
from dusdi.objectives import make_objective
from dusdi.policy import Skills, load
from dusdi.progress import Progress, Silent
from dusdi.report import heat_map, value_histograms
from dusdi.rollout import MAX_COPIES, HostStepper, Policy, Rollout, collect
from dusdi.run import origin, provenance
from dusdi.skills import Discrete, SkillSpace
from dusdi.tasks import TASKS, Task, as_task, make_task
from dusdi.types import WorldSpec, difference

_CEILINGS: dict[tuple[str, int, int], float] = {}  # what hand-written solutions earned
MOST = 100_000_000  # steps, episodes or skills to measure
LEAST_WINDOWS = 20  # skills for each value of a component, below which scores mean little


def evaluate(
    skills: Skills | str | Path,
    env: World | str | None = None,
    *,
    steps: int = 100_000,
    seed: int = 0,
    progress: bool = False,
) -> DCI:
    """How disentangled skills are, measured on `steps` steps with skills redrawn every L steps.

    Args:
      skills: the skills, or their run's folder.
      env: needed only for worlds that dusdi can't make by name.
      steps: to measure on; a warning says if they are too few to mean something.
      seed: of the rollout and the metric.
      progress: show a progress bar (or log lines, if the output is not a terminal).
    """
    check_numbers(steps=steps, seed=seed)
    skills = as_skills(skills)
    return _evaluate(skills, world_for(skills, env), steps, seed, progress)[0]


def _evaluate(
    skills: Skills,
    world: World,
    steps: int,
    seed: int,
    progress: bool,
) -> tuple[DCI, Rollout]:
    """The scores of skills, and the steps they were measured on."""
    if not skills.space.components:
        raise UsageError("a flat policy has no skills whose disentanglement could be measured")
    discrete = isinstance(skills.space, Discrete) and skills.space.components > 1
    cells = skills.space.component_size if discrete else skills.config.skill_values
    names = tuple(factor.name for factor in skills.spec.controlled)
    channels = make_objective(skills.spec, skills.config).channels
    own_factors = names if channels == names else None
    length = skills.config.skill_length
    options: dict[str, Any] = {"skill_length": length, "steps": steps, "seed": seed}
    title = f"seed {skills.seed}" if progress else None
    return _score(world, skills.act, skills.space, cells, own_factors, title, **options)


def _score(
    world: World,
    policy: Policy,
    space: SkillSpace,
    cells: int,
    own_factors: tuple[str, ...] | None,
    title: str | None,
    *,
    skill_length: int,
    steps: int,
    seed: int,
) -> tuple[DCI, Rollout]:
    """The scores of a policy of observations and skills, and the steps they were measured on.

    Progress is shown under the title, if there is one.
    """
    options: dict[str, Any] = {"skill_length": skill_length, "steps": steps, "seed": seed}
    with show(title, "collecting", steps) as display:
        rollout = collect(world, policy, space, advance=display.advance, **options)
    values = space.component_size if isinstance(space, Discrete) else cells
    _warn_of_too_little(rollout, values, skill_length)
    targets = len(world.spec.controlled) + space.components
    options = {"seed": seed, "own_factors": own_factors}
    with show(title, "fitting trees", targets, unit="targets", note="") as display:
        skill = rollout.skill.reshape(len(rollout.skill), -1)
        data = (skill, rollout.observation, world.spec, rollout.episode)
        options["components"] = _component_columns(space)
        return dci(*data, cells, advance=display.advance, **options), rollout


def _component_columns(space: SkillSpace) -> list[ComponentColumns]:
    """The columns of each component in skills [n, W]."""
    discrete = isinstance(space, Discrete)
    size = 1 if discrete else space.component_size
    categories = space.component_size if discrete else None
    columns = [slice(i * size, (i + 1) * size) for i in range(space.components)]
    return [ComponentColumns(f"z{i + 1}", own, categories) for i, own in enumerate(columns)]


def show(title: str | None, what: str, total: int, **options: Any) -> Silent:
    """A display of how far something is, or one that shows nothing if there is no title."""
    return Silent() if title is None else Progress(f"{title}: {what}", total, **options)


def _warn_of_too_little(rollout: Rollout, values: int, skill_length: int) -> None:
    windows = max(len(rollout.skill) // skill_length, int(rollout.episode.max()) + 1)
    wanted = LEAST_WINDOWS * values
    if windows < wanted:
        warnings.warn(
            f"measured on {windows} skills only, {windows / values:.2g} for each of the {values} "
            f"values of a component; scores mean little with fewer than {LEAST_WINDOWS}: "
            f"use at least {wanted * skill_length:,} steps",
            stacklevel=5,
        )


def check_numbers(*, seed: int, **counts: int) -> None:
    """Raises a `UsageError` for a seed that random generators don't take, or a count of nothing."""
    if not 0 <= seed < 2**31:
        raise UsageError(f"seed must be from 0 to {2**31 - 1}, not {seed}")
    for name, count in counts.items():
        if not 1 <= count <= MOST:
            raise UsageError(f"{name} must be from 1 to {MOST:,}, not {count:,}")


def check_writable(folder: Path) -> None:
    """Raises a `UsageError` if files can't be made in a folder that may yet have to be made."""
    try:
        absolute = folder.absolute()
        place = next(path for path in (absolute, *absolute.parents) if path.exists())
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        advice = "choose another place with --out (out=...)"
        raise UsageError(f"can't write into {folder} ({error.strerror}); {advice}") from error


def check_file(out: str | Path, suffixes: Sequence[str]) -> Path:
    """The file to write, or a `UsageError` if it is of no such kind or can't be written."""
    out = Path(out)
    if out.suffix.lower() not in suffixes:
        raise UsageError(f"this is written as {' or '.join(suffixes)}, not as {out.name!r}")
    if out.is_dir():
        raise UsageError(f"{out} is a folder; name a file in it")
    check_writable(out.parent)
    return out


def as_skills(skills: Skills | str | Path) -> Skills:
    """The skills, loaded if they are named by their run's folder."""
    return load(skills) if isinstance(skills, str | Path) else skills


def check_oracle(skills: Skills, world: World) -> None:
    """Raises a `UsageError` if the world has no oracle, or one whose scores can't be compared with those of these skills."""
    if world.oracle is None:
        raise UsageError(f"nobody wrote an oracle for {world.spec.name!r}")
    if not isinstance(skills.space, Discrete) or skills.space.component_size != ORACLE_VALUES:
        raise UsageError(
            f"oracles know discrete components of {ORACLE_VALUES} values; these skills are {skills.space}"
        )


def evaluate_oracle(
    world: World,
    *,
    skill_length: int,
    steps: int = 100_000,
    seed: int = 0,
    progress: bool = False,
) -> DCI:
    """The scores of the world's hand-written oracle, a ceiling for what skills can reach."""
    if world.oracle is None:
        raise UsageError(f"nobody wrote an oracle for {world.spec.name!r}")
    names = tuple(factor.name for factor in world.spec.controlled)
    space, title = Discrete(len(names), ORACLE_VALUES), "oracle" if progress else None
    options: dict[str, Any] = {"skill_length": skill_length, "steps": steps, "seed": seed}
    return _score(world, world.oracle, space, ORACLE_VALUES, names, title, **options)[0]


def measure(
    path: str | Path,
    env: World | str | None = None,
    *,
    steps: int = 100_000,
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Evaluates every seed of a run and writes its results.

    They are the scores (`dci.json`) and two pictures of each seed: a heat map of the importances
    (`dci.png`), and where each value of each component leads (`values.png`).

    Args:
      path: a run's folder, or one of its checkpoints.
      env: needed only for worlds that dusdi can't make by name.
      steps: to measure each seed on.
      seed: of the rollouts and the metric.
      out: folder to write into; the run's own by default.
      progress: show a progress bar (or log lines, if the output is not a terminal).

    Returns:
      What is in the JSON file: mean and spread of the scores, those of each seed, and where run and scores come from.
    """
    check_numbers(steps=steps, seed=seed)
    skills, results = load(path), []
    home, count = skills.folder or Path(path), skills.config.seeds
    folder = Path(out) if out is not None else home
    check_writable(folder)
    world = world_for(skills, env)
    for index in range(count):
        skills = load(path, index) if index else skills
        result, rollout = _evaluate(skills, world, steps, seed, progress)
        suffix = f"-seed{skills.seed}" if count > 1 else ""
        title = f"{skills.config.method} in {skills.spec.name}, seed {skills.seed}"
        heat_map(result, folder / f"dci{suffix}.png", title=title)
        picture = folder / f"values{suffix}.png"
        value_histograms(rollout, world.spec, result.own_factors, picture, title=title)
        results.append({"seed": skills.seed, **result.to_json()})
    measured = {"evaluation_steps": steps, "evaluation_seed": seed, "measured_with": provenance()}
    report = summary(results) | measured | {"run": {**origin(home), "step": skills.step}}
    write_atomically(folder / "dci.json", json.dumps(report, indent=2) + "\n")
    return report


def returns(
    task: World,
    decide: Callable[[np.ndarray], np.ndarray],
    act: Callable[[np.ndarray, np.ndarray], np.ndarray],
    *,
    interval: int,
    episodes: int,
    seed: int,
    advance: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """What each of so many episodes earns in each channel, [episodes, K].

    There is a decision every `interval` steps. At most `MAX_COPIES` episodes run at a time.
    `advance` is told how many steps are done.
    """
    check_numbers(episodes=episodes, seed=seed)
    length = task.spec.episode_length
    earned = np.zeros((episodes, len(task.spec.channels)))
    for start in range(0, episodes, MAX_COPIES):
        ours = earned[start : start + MAX_COPIES]
        going = np.ones(len(ours), bool)
        stepper = HostStepper(task, len(ours), length, rewarded=True)
        try:
            observation = stepper.restart((seed + start) % 2**31, stagger=False)
            for t in range(length):
                if t % interval == 0:
                    decision = decide(observation)
                step = stepper.step(act(observation, decision))
                ours[going] += step.reward[going]
                going &= ~step.over
                observation = step.observation
                advance(start * length + (t + 1) * len(ours))
                if not going.any():
                    break
        finally:
            stepper.close()
    return earned


def floor_returns(
    task: World,
    skills: Skills,
    *,
    episodes: int = 100,
    seed: int = 0,
    advance: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """What random skills earn, [episodes, K]: where learning to choose them starts."""
    key = itertools.count(seed)
    size = skills.spec.observation_size

    def act(observation, skill):
        return skills.act(observation[:, :size], skill)

    def decide(observation):
        return skills.sample_skills(len(observation), next(key))

    options: dict[str, Any] = {"episodes": episodes, "seed": seed, "advance": advance}
    return returns(task, decide, act, interval=skills.config.skill_length, **options)


def ceiling_returns(task: Task, **options: Any) -> np.ndarray:
    """What the task's hand-written solution earns, [episodes, K]; the options are those of `returns`."""
    return returns(
        task,
        lambda o: o,
        lambda o, _: task.solve(o),
        interval=1,
        **{"episodes": 100, "seed": 0, **options},
    )


def measure_task(
    path: str | Path,
    env: World | str | None = None,
    *,
    episodes: int = 100,
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """The return of every seed of a downstream run, written into its folder (`return.json`), beside floor and ceiling.

    Args:
      path: a downstream run's folder.
      env: needed only for tasks that dusdi can't make by name.
      episodes: to measure each seed on, with the most probable decisions.
      seed: of the episodes.
      out: folder to write into; the run's own by default.
      progress: show a progress bar (or log lines, if the output is not a terminal).
    """
    check_numbers(episodes=episodes, seed=seed)
    first = load_controller(path)
    home = first.folder or Path(path)
    folder = Path(out) if out is not None else home
    check_writable(folder)
    task = task_for(first.spec, env)

    def play(title: str, function: Callable[..., np.ndarray]) -> np.ndarray:
        total = episodes * task.spec.episode_length
        with show(title if progress else None, "playing", total) as display:
            return function(episodes=episodes, seed=seed, advance=display.advance)

    seeds = []
    for index in range(first.config.seeds):
        controller = load_controller(path, index) if index else first
        policy = (controller.decide, controller.act)
        solve = functools.partial(returns, task, *policy, interval=controller.interval)
        earned = play(f"seed {controller.seed}", solve)
        channels = dict(zip(task.spec.channels, earned.mean(0).tolist(), strict=True))
        seeds.append({"seed": controller.seed, **_spread(earned.sum(1)), "channels": channels})
    report: dict[str, Any] = {**_spread([found["return"] for found in seeds]), "seeds": seeds}
    if isinstance(first, SkillController):
        floor = play("random skills", functools.partial(floor_returns, task, first.skills))
        report["random_skills"] = float(floor.sum(1).mean())
    if isinstance(task, Task) and task.world.oracle is not None:
        solution = (json.dumps(task.spec.to_json()), episodes, seed)
        if (
            env is not None or solution not in _CEILINGS
        ):  # of dusdi's own tasks it is the same for all runs
            earned = play("hand-written solution", functools.partial(ceiling_returns, task))
            _CEILINGS[solution] = float(earned.sum(1).mean())
        report["hand_written"] = _CEILINGS[solution]
    report |= {"episodes": episodes, "evaluation_seed": seed}
    report |= {"measured_with": provenance(), "run": origin(home)}
    write_atomically(folder / "return.json", json.dumps(report, indent=2) + "\n")
    return report


def _spread(values: Any) -> dict[str, float]:
    return {
        "return": float(np.mean(values)),
        "return_std": float(np.std(values, ddof=1)) if len(values) > 1 else 0.0,
    }


def task_for(spec: WorldSpec, env: World | str | None = None) -> World:
    """The task of a downstream run: `env` if it fits, else the registered one."""
    if env is None:
        if spec.name not in TASKS:
            raise UsageError(
                f"this run solves {spec.name!r}, which is not one of dusdi's own tasks; name it: "
                "--env gym:ID, package.module:function or ./file.py:function (env=... in Python)"
            )
        return make_task(spec.name, **spec.options)
    env = as_task(env)
    if json.dumps(spec.to_json()) != json.dumps(env.spec.to_json()):
        raise UsageError(f"that is not the task of the run, which has {difference(spec, env.spec)}")
    return env


def world_for(skills: Skills, env: World | str | None = None) -> World:
    """The world to evaluate in: `env` if it fits the skills, else the registered world they were learned in."""
    if env is None:
        if skills.spec.name not in WORLDS:
            raise UsageError(
                f"these skills were learned in {skills.spec.name!r}, which is not one of dusdi's own worlds "
                f"({', '.join(WORLDS)}); name the world: --env gym:ID, package.module:function or ./file.py:function (env=...)"
            )
        return make(skills.spec.name, **skills.spec.options)
    env = as_world(env)
    ours, theirs = skills.spec, env.spec
    sizes = (ours.observation_size, ours.action_size) == (
        theirs.observation_size,
        theirs.action_size,
    )
    if not sizes or ours.factors != theirs.factors:
        raise UsageError(
            f"that is not the world of the skills, which has {difference(ours, theirs)}"
        )
    if changed := difference(ours, dataclasses.replace(theirs, channels=ours.channels)):
        warnings.warn(f"the skills were learned in another world, one with {changed}", stacklevel=3)
    return env
