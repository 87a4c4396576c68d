"""Measures what a task's solution earns, beside random skills and a scripted reference."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from dusdi.checks import check_numbers, check_writable
from dusdi.controller import Controller, SkillController, load_controller
from dusdi.envs.base import JaxWorld, World
from dusdi.errors import UsageError
from dusdi.evaluation import origin_of, seed_count, show
from dusdi.files import write_atomically
from dusdi.provenance import provenance
from dusdi.rollouts import play_episodes, skill_actor
from dusdi.skills import Skills
from dusdi.stepping import derived_seed
from dusdi.tasks import TASKS, Task, as_task, make_task
from dusdi.types import WorldSpec, difference

_REFERENCES: dict[tuple[str, int, int], Played] = {}  # returns of scripted solutions


class Played(NamedTuple):
    """What was earned in some episodes.

    Attributes:
      plain: the return of each episode in each channel, [episodes, K].
      discounted: the same discounted, if the task says how (`World.discounting`).
    """

    plain: np.ndarray
    discounted: np.ndarray | None = None

    def means(self) -> dict[str, float]:
        """The mean return, and the discounted one if there is one."""
        found = {name: part for name, part in self._asdict().items() if part is not None}
        return {name: float(part.sum(1).mean()) for name, part in found.items()}


def controller_returns(task: World, controller: Controller, **options: Any) -> np.ndarray:
    """The return of a solution in each episode and channel; options as in `play_episodes`."""
    return play_episodes(
        task,
        controller.decide,
        lambda observation, decision, state: controller.act(observation, decision),
        interval=controller.interval,
        **options,
    )


def random_skill_returns(
    task: World, skills: Skills, *, interval: int = 0, seed: int = 0, **options: Any
) -> np.ndarray:
    """The return of random skills, [episodes, K]: where learning to choose them starts.

    They are drawn every `interval` steps; 0: as often as they were when they were learned.
    """
    seeds = (derived_seed(seed, number, 1) for number in itertools.count())
    return play_episodes(
        task,
        lambda observation: skills.sample_skills(len(observation), next(seeds)),
        skill_actor(skills),
        interval=interval or skills.skill_length,
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


def evaluate_task(
    solution: Controller | str | Path,
    env: World | str | None = None,
    *,
    episodes: int = 100,
    seed: int = 0,
) -> float:
    """The mean return of a solution per episode, with the most probable decisions.

    Args:
      solution: what `dusdi.downstream` gave, or the folder of its run.
      env: needed only for tasks that dusdi can't make by name.
      episodes: to measure on.
      seed: of the episodes.
    """
    check_numbers(episodes=episodes, seed=seed)
    solution = load_controller(solution) if isinstance(solution, str | Path) else solution
    task = task_for(solution.spec, env)
    return float(controller_returns(task, solution, episodes=episodes, seed=seed).sum(1).mean())


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

    def play(title: str, function: Callable[..., np.ndarray]) -> Played:
        length = task.spec.episode_length
        weights = [np.ones(length)]
        if task.discounting is not None:
            weights.append(task.discounting.weights(length))
        options = {"episodes": episodes, "seed": seed, "weights": np.stack(weights)}
        with show(title if progress else None, "playing", episodes * length) as display:
            return Played(*function(advance=display.advance, **options))

    seeds = []
    discounted = []
    for index in range(seed_count(path, first)):
        controller = load_controller(path, index) if index else first
        solve = functools.partial(controller_returns, task, controller)
        earned = play(f"seed {controller.seed}", solve)
        about = {"seed": controller.seed}
        channels = dict(zip(task.spec.channels, earned.plain.mean(0).tolist(), strict=True))
        seeds.append({**about, **_spread(earned.plain.sum(1)), "channels": channels})
        if earned.discounted is not None:
            discounted.append({**about, **_spread(earned.discounted.sum(1))})
    references = {}
    if isinstance(first, SkillController):
        choose = functools.partial(
            random_skill_returns, task, first.skills, interval=first.interval
        )
        references["random_skills"] = play("random skills", choose).means()
    if isinstance(task, Task) and task.has_expert:
        references["scripted_reference"] = _reference(task, episodes, seed, play).means()
    report = _table(seeds, {name: means["plain"] for name, means in references.items()})
    if task.discounting is not None:
        others = {name: means["discounted"] for name, means in references.items()}
        report["discounted"] = {**task.discounting._asdict(), **_table(discounted, others)}
    report |= {
        "episodes": episodes,
        "evaluation_seed": seed,
        "measured_with": provenance(),
        "run": origin_of(first),
    }
    write_atomically(folder / "return.json", json.dumps(report, indent=2) + "\n")
    return report


def _table(seeds: list[dict[str, Any]], references: Mapping[str, float]) -> dict[str, Any]:
    """The returns of all seeds, their mean, and what there is to compare it with."""
    return {**_spread([one["return"] for one in seeds]), "seeds": seeds, **references}


def _reference(task: Task, episodes: int, seed: int, play: Callable[..., Played]) -> Played:
    """What a scripted solution earns; it is the same for all runs on a task."""
    key = (json.dumps([task.spec.to_json(), task.discounting]), episodes, seed)
    if key not in _REFERENCES:
        played = play("scripted reference", functools.partial(reference_returns, task))
        _REFERENCES[key] = played
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
