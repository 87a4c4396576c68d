"""Measures what was learned: DCI of frozen skills, and the return of what solves a task, beside its floor and ceiling."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dusdi.controller import SkillController, load_controller
from dusdi.envs import WORLDS, make
from dusdi.envs.base import ORACLE_VALUES, World
from dusdi.errors import UsageError
from dusdi.files import write_atomically
from dusdi.metrics.dci import DCI, dci, summary
from dusdi.policy import Skills, load
from dusdi.report import heat_map
from dusdi.rollout import HostStepper, Rollout, collect
from dusdi.run import describe, origin, provenance
from dusdi.skills import Discrete
from dusdi.tasks import TASKS, Task, make_task
from dusdi.types import WorldSpec


def evaluate(skills: Skills, env: World | str | None = None, *, steps: int = 100_000, seed: int = 0) -> DCI:
    """How disentangled skills are, measured on `steps` steps with skills redrawn every L steps.

    `env` is needed only for worlds that dusdi can't make by name.
    """
    if not skills.space.components:
        raise UsageError("a flat policy has no skills whose disentanglement could be measured")
    world = world_for(skills, env)
    rollout = roll_out(skills, world, steps=steps, seed=seed)
    discrete = isinstance(skills.space, Discrete) and skills.space.components > 1
    cells = skills.space.component_size if discrete else skills.config.skill_values
    return dci(rollout.skill, rollout.observation, world.spec, rollout.episode, cells, seed=seed)


def check_oracle(skills: Skills, world: World) -> None:
    """Raises a `UsageError` if the world has no oracle, or one whose scores can't be compared with those of these skills."""
    if world.oracle is None:
        raise UsageError(f"nobody wrote an oracle for {world.spec.name!r}")
    if not isinstance(skills.space, Discrete) or skills.space.component_size != ORACLE_VALUES:
        raise UsageError(f"oracles know discrete components of {ORACLE_VALUES} values; these skills are {skills.space}")


def evaluate_oracle(world: World, *, skill_length: int, steps: int = 100_000, seed: int = 0) -> DCI:
    """The scores of the world's hand-written oracle, a ceiling for what skills can reach."""
    if world.oracle is None:
        raise UsageError(f"nobody wrote an oracle for {world.spec.name!r}")
    space = Discrete(len(world.spec.controlled), ORACLE_VALUES)
    rollout = collect(world, world.oracle, space, steps=steps, skill_length=skill_length, seed=seed)
    return dci(rollout.skill, rollout.observation, world.spec, rollout.episode, ORACLE_VALUES, seed=seed)


def measure(path: str | Path, env: World | str | None = None, *, steps: int = 100_000, seed: int = 0) -> dict[str, Any]:
    """Evaluates every seed of a run, and writes the scores (`dci.json`) and a heat map of each seed into its folder.

    Args:
      path: a run's folder, or one of its checkpoints.
      env: needed only for worlds that dusdi can't make by name.
      steps: to measure each seed on.
      seed: of the rollouts and the metric.

    Returns:
      What is in the JSON file: mean and spread of the scores, those of each seed, and where run and scores come from.
    """
    skills, results = load(path), []
    folder, count = skills.folder or Path(path), skills.config.seeds
    for index in range(count):
        skills = load(path, index) if index else skills
        result = evaluate(skills, env, steps=steps, seed=seed)
        suffix = f"-seed{skills.seed}" if count > 1 else ""
        heat_map(result, folder / f"dci{suffix}.png", title=f"{skills.config.method} in {skills.spec.name}, seed {skills.seed}")
        results.append({"seed": skills.seed, **result.to_json()})
    measured = {"evaluation_steps": steps, "evaluation_seed": seed, "measured_with": provenance()}
    report = summary(results) | measured | {"run": {**origin(folder), "step": skills.step}}
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
) -> np.ndarray:
    """What each of so many episodes earns in each channel, [episodes, K], with a decision every `interval` steps."""
    if episodes < 1:
        raise UsageError(f"at least one episode must be measured, not {episodes}")
    stepper = HostStepper(task, episodes, task.spec.episode_length)
    observation = stepper.restart(seed, stagger=False)
    earned = np.zeros((episodes, len(task.spec.channels)))
    going, decision = np.ones(episodes, bool), decide(observation)
    try:
        for t in range(task.spec.episode_length):
            if t and t % interval == 0:
                decision = decide(observation)
            step = stepper.step(act(observation, decision))
            earned[going] += step.reward[going]
            going &= ~step.over
            observation = step.observation
    finally:
        stepper.close()
    return earned


def floor_returns(task: World, skills: Skills, *, episodes: int = 100, seed: int = 0) -> np.ndarray:
    """What random skills earn, [episodes, K]: where learning to choose them starts."""
    key = itertools.count(seed)
    size = skills.spec.observation_size

    def act(observation, skill):
        return skills.act(observation[:, :size], skill)

    def decide(observation):
        return skills.sample_skills(len(observation), next(key))

    return returns(task, decide, act, interval=skills.config.skill_length, episodes=episodes, seed=seed)


def ceiling_returns(task: Task, *, episodes: int = 100, seed: int = 0) -> np.ndarray:
    """What the task's hand-written solution earns, [episodes, K]."""
    return returns(task, lambda o: o, lambda o, _: task.solve(o), interval=1, episodes=episodes, seed=seed)


def measure_task(path: str | Path, env: World | str | None = None, *, episodes: int = 100, seed: int = 0) -> dict[str, Any]:
    """The return of every seed of a downstream run, written into its folder (`return.json`), beside floor and ceiling.

    Args:
      path: a downstream run's folder.
      env: needed only for tasks that dusdi can't make by name.
      episodes: to measure each seed on, with the most probable decisions.
      seed: of the episodes.
    """
    first = load_controller(path)
    folder = first.folder or Path(path)
    task = task_for(first.spec, env)
    seeds = []
    for index in range(first.config.seeds):
        controller = load_controller(path, index) if index else first
        options: dict[str, Any] = {"interval": controller.interval, "episodes": episodes, "seed": seed}
        earned = returns(task, controller.decide, controller.act, **options)
        channels = dict(zip(task.spec.channels, earned.mean(0).tolist(), strict=True))
        seeds.append({"seed": controller.seed, **_spread(earned.sum(1)), "channels": channels})
    report: dict[str, Any] = {**_spread([found["return"] for found in seeds]), "seeds": seeds}
    if isinstance(first, SkillController):
        report["random_skills"] = float(floor_returns(task, first.skills, episodes=episodes, seed=seed).sum(1).mean())
    if isinstance(task, Task) and task.world.oracle is not None:
        name = None if env else json.dumps([task.spec.name, dict(task.spec.options)])
        report["hand_written"] = _mean_ceiling(name or task, episodes, seed)
    report |= {"episodes": episodes, "evaluation_seed": seed, "measured_with": provenance(), "run": origin(folder)}
    write_atomically(folder / "return.json", json.dumps(report, indent=2) + "\n")
    return report


@functools.cache
def _mean_ceiling(task: Task | str, episodes: int, seed: int) -> float:
    """What the hand-written solution earns of a task, or of one of dusdi's own by name and options, for all of whose runs it is
    the same."""
    if isinstance(task, str):
        name, options = json.loads(task)
        task = make_task(name, **options)
    return float(ceiling_returns(task, episodes=episodes, seed=seed).sum(1).mean())


def _spread(values: Any) -> dict[str, float]:
    return {"return": float(np.mean(values)), "return_std": float(np.std(values, ddof=1)) if len(values) > 1 else 0.0}


def task_for(spec: WorldSpec, env: World | str | None = None) -> World:
    """The task of a downstream run: `env` if it fits, else the registered one."""
    if env is None:
        if spec.name not in TASKS:
            raise UsageError(
                f"this run solves {spec.name!r}, which is not one of dusdi's own tasks; pass it (--env package.module:function)"
            )
        return make_task(spec.name, **spec.options)
    env = make_task(env) if isinstance(env, str) else env
    if json.dumps(spec.to_json()) != json.dumps(env.spec.to_json()):
        raise UsageError(f"the run solves {describe(spec)}, not {describe(env.spec)}")
    return env


def roll_out(skills: Skills, world: World, *, steps: int, seed: int) -> Rollout:
    """Steps of the skills' mean actions under random skills."""
    length = skills.config.skill_length
    return collect(world, skills.act, skills.space, steps=steps, skill_length=length, seed=seed)


def world_for(skills: Skills, env: World | str | None = None) -> World:
    """The world to evaluate in: `env` if it fits the skills, else the registered world they were learned in."""
    if env is None:
        if skills.spec.name not in WORLDS:
            raise UsageError(
                f"these skills were learned in {skills.spec.name!r}, which is not one of dusdi's own worlds "
                f"({', '.join(WORLDS)}); pass the world (env=..., or --env package.module:function)"
            )
        return make(skills.spec.name, **skills.spec.options)
    env = make(env) if isinstance(env, str) else env
    if not _fits(skills.spec, env.spec):
        raise UsageError(f"the skills are for {describe(skills.spec)}, not for {describe(env.spec)}")
    return env


def _fits(ours: WorldSpec, theirs: WorldSpec) -> bool:
    sizes = (ours.observation_size, ours.action_size) == (theirs.observation_size, theirs.action_size)
    return sizes and ours.factors == theirs.factors
