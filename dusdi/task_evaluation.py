"""Measures what a task's solution earns, beside random skills and a scripted reference."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dusdi.checks import check_numbers, check_writable
from dusdi.controller import Controller, SkillController, load_controller
from dusdi.envs.base import JaxWorld, World
from dusdi.errors import UsageError
from dusdi.evaluation import origin_of, show
from dusdi.files import write_atomically
from dusdi.provenance import provenance
from dusdi.rollouts import play_episodes, skill_actor
from dusdi.skills import Skills
from dusdi.stepping import derived_seed
from dusdi.tasks import TASKS, Task, as_task, make_task
from dusdi.types import WorldSpec, difference

_REFERENCES: dict[tuple[str, int, int], float] = {}  # returns of scripted solutions


def controller_returns(task: World, controller: Controller, **options: Any) -> np.ndarray:
    """The return of a solution in each episode and channel; options as in `play_episodes`."""
    return play_episodes(
        task,
        controller.decide,
        lambda observation, decision, state: controller.act(observation, decision),
        interval=controller.interval,
        **options,
    )


def random_skill_returns(task: World, skills: Skills, *, seed: int = 0, **options: Any) -> Any:
    """The return of random skills, [episodes, K]: where learning to choose them starts."""
    seeds = (derived_seed(seed, number, 1) for number in itertools.count())
    return play_episodes(
        task,
        lambda observation: skills.sample_skills(len(observation), next(seeds)),
        skill_actor(skills),
        interval=skills.skill_length,
        seed=seed,
        **options,
    )


def reference_returns(task: Task, **options: Any) -> np.ndarray:
    """The return of the task's scripted solution, [episodes, K]."""
    act: Any = task.expert_action
    if isinstance(task, JaxWorld):
        act = jax.jit(jax.vmap(act))
    return play_episodes(
        task,
        lambda observation: observation,
        lambda observation, decision, state: np.asarray(act(state()), np.float32),
        interval=1,
        **options,
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
    """The return of every seed of a run on a task, written into its folder (`return.json`).

    Args:
      path: the folder of a run on a task.
      env: needed only for tasks that dusdi can't make by name.
      episodes: to measure each seed on, with the most probable decisions.
      seed: of the episodes.
      out: folder to write into; the run's own by default.
      progress: show a progress bar (or log lines, if the output is not a terminal).
    """
    check_numbers(episodes=episodes, seed=seed)
    first = load_controller(path)
    folder = Path(out) if out is not None else first.folder or Path(path)
    check_writable(folder)
    task = task_for(first.spec, env)

    def play(title: str, function: Callable[..., np.ndarray]) -> np.ndarray:
        total = episodes * task.spec.episode_length
        with show(title if progress else None, "playing", total) as display:
            return function(episodes=episodes, seed=seed, advance=display.advance)

    seeds = []
    for index in range(1 if Path(path).is_file() else first.settings["run"]["seeds"]):
        controller = load_controller(path, index) if index else first
        solve = functools.partial(controller_returns, task, controller)
        earned = play(f"seed {controller.seed}", solve)
        channels = dict(zip(task.spec.channels, earned.mean(0).tolist(), strict=True))
        seeds.append({"seed": controller.seed, **_spread(earned.sum(1)), "channels": channels})
    report: dict[str, Any] = {**_spread([one["return"] for one in seeds]), "seeds": seeds}
    if isinstance(first, SkillController):
        floor = play("random skills", functools.partial(random_skill_returns, task, first.skills))
        report["random_skills"] = float(floor.sum(1).mean())
    if isinstance(task, Task) and task.has_expert:
        report["scripted_reference"] = _reference(task, episodes, seed, play)
    report |= {
        "episodes": episodes,
        "evaluation_seed": seed,
        "measured_with": provenance(),
        "run": origin_of(first),
    }
    write_atomically(folder / "return.json", json.dumps(report, indent=2) + "\n")
    return report


def _reference(task: Task, episodes: int, seed: int, play: Callable[..., np.ndarray]) -> float:
    """The mean return of a scripted solution; it is the same for all runs on a task."""
    key = (json.dumps(task.spec.to_json()), episodes, seed)
    if key not in _REFERENCES:
        earned = play("scripted reference", functools.partial(reference_returns, task))
        _REFERENCES[key] = float(earned.sum(1).mean())
    return _REFERENCES[key]


def _spread(values: Any) -> dict[str, float]:
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"return": float(np.mean(values)), "return_std": spread}


def task_for(spec: WorldSpec, env: World | str | None = None) -> World:
    """The task of a run: `env` if it fits, else the registered one."""
    if env is None:
        if spec.name not in TASKS:
            raise UsageError(
                f"this run solves {spec.name!r}, which is not one of dusdi's own tasks; name it: "
                "--env gym:ID, package.module:function or ./file.py:function (env=... in Python)"
            )
        env = make_task(spec.name, **spec.options)
    env = as_task(env)
    if changed := difference(spec, env.spec):
        raise UsageError(
            f"{env.spec.name!r} is not the task of the run, which has {changed}; name that "
            "(--env, env=...)"
        )
    return env
