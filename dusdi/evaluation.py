"""Measures how disentangled frozen skills are: DCI, heat maps, and where each value leads."""

from __future__ import annotations

import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from dusdi.checks import check_numbers, check_writable
from dusdi.envs import WORLDS, as_world, make
from dusdi.envs.base import EXPERT_VALUES, World
from dusdi.errors import UsageError
from dusdi.files import write_atomically
from dusdi.metrics.dci import DCI, ComponentColumns, dci, summary
from dusdi.progress import Progress, Silent
from dusdi.provenance import provenance
from dusdi.report import heat_map, value_histograms
from dusdi.rollouts import ActFunction, Rollout, collect, expert_actor, skill_actor
from dusdi.run import BUILT_ON
from dusdi.skill_space import Component, SkillSpace
from dusdi.skills import Skills, load
from dusdi.spaces import Categorical
from dusdi.types import WorldSpec, difference

LEAST_PER_VALUE = 20  # skills for each value of a component, below which scores mean little
BINS = 5  # classes that factors and continuous components are divided into


class Measured(NamedTuple):
    """What evaluating one policy gives.

    Attributes:
      scores: on the factors that the policy sees.
      true_scores: on the true ones, of a world that is seen through an encoder.
      rollout: the steps that both were measured on.
    """

    scores: DCI
    true_scores: DCI | None
    rollout: Rollout


def evaluate(
    skills: Skills | str | Path,
    env: World | str | None = None,
    *,
    steps: int = 100_000,
    seed: int = 0,
    true_factors: bool = False,
    progress: bool = False,
) -> DCI:
    """How disentangled skills are, measured on `steps` steps with skills redrawn every L steps.

    Args:
      skills: the skills, or their run's folder.
      env: needed only for worlds that dusdi can't make by name.
      steps: to measure on; a warning says if they are too few to mean something.
      seed: of the rollout and the metric.
      true_factors: measure on the true state of a world that is seen through an encoder.
      progress: show a progress bar (or log lines, if the output is not a terminal).
    """
    check_numbers(steps=steps, seed=seed)
    skills = as_skills(skills)
    world = world_for(skills, env)
    if true_factors and world.shows_truth:
        raise UsageError(
            "true_factors is for worlds that are seen through an encoder which dusdi trained; the "
            f"true state of {world.spec.name!r} is what it shows, or is not known"
        )
    found = _evaluate(skills, world, steps, seed, progress)
    wanted = found.true_scores if true_factors else None
    return found.scores if wanted is None else wanted


def as_skills(skills: Skills | str | Path) -> Skills:
    """The skills, loaded if they are named by their run's folder."""
    if isinstance(skills, str | Path):
        return load(skills)
    if not isinstance(skills, Skills):
        raise UsageError(
            f"{skills!r} are no skills; dusdi.evaluate_task says what a solution earns"
        )
    return skills


def _evaluate(skills: Skills, world: World, steps: int, seed: int, progress: bool) -> Measured:
    """What `_score` gives for skills."""
    if not len(skills.space):
        raise UsageError(
            "a flat policy has no skills whose disentanglement could be measured; it is there for "
            "tasks to start from: dusdi downstream RUN TASK --agent sac"
        )
    title = f"seed {skills.seed}" if progress else None
    return _score(
        world,
        skill_actor(skills),
        skills.space,
        title,
        skill_length=skills.skill_length,
        steps=steps,
        seed=seed,
    )


def evaluate_expert(
    world: World,
    *,
    skill_length: int,
    steps: int = 100_000,
    seed: int = 0,
    progress: bool = False,
) -> DCI:
    """The scores of the world's scripted expert, a reference for what skills can reach."""
    actor = expert_actor(world)
    space = SkillSpace(
        tuple(Component(f.name, Categorical(EXPERT_VALUES)) for f in world.spec.controlled)
    )
    title = "scripted expert" if progress else None
    options: dict[str, Any] = {"skill_length": skill_length, "steps": steps, "seed": seed}
    return _score(world, actor, space, title, **options).scores


def check_expert(skills: Skills, world: World) -> None:
    """Raises a `UsageError` unless the world has an expert that can be compared with skills."""
    if world.expert is None:
        raise UsageError(f"there is no scripted expert for {world.spec.name!r}")
    if any(space.categories != EXPERT_VALUES for space in skills.space.spaces):
        raise UsageError(
            f"scripted experts know categorical components of {EXPERT_VALUES} values; these "
            f"skills are {skills.space}"
        )


def _score(
    world: World,
    actor: ActFunction,
    space: SkillSpace,
    title: str | None,
    *,
    skill_length: int,
    steps: int,
    seed: int,
) -> Measured:
    """The scores of an actor."""
    with show(title, "collecting", steps) as display:
        rollout = collect(
            world,
            actor,
            space,
            steps=steps,
            skill_length=skill_length,
            seed=seed,
            advance=display.advance,
        )
    _warn_of_too_little(rollout, space, skill_length)
    scores = score_rollout(rollout, world.spec, space, seed, title)
    if rollout.truth is None:
        return Measured(scores, None, rollout)
    true = rollout._replace(observation=rollout.truth)
    return Measured(scores, score_rollout(true, world.spec, space, seed, title), rollout)


def score_rollout(
    rollout: Rollout, spec: WorldSpec, space: SkillSpace, seed: int, title: str | None = None
) -> DCI:
    """The DCI of a rollout; factors are those of `spec`."""
    factors = tuple(factor.name for factor in spec.controlled)
    columns = [
        ComponentColumns(component.name, place, component.space.categories)
        for component, place in zip(space.components, space.columns, strict=True)
    ]
    targets = len(factors) + len(space)
    with show(title, "fitting trees", targets, unit="targets", note="") as display:
        return dci(
            rollout.skill,
            rollout.observation,
            spec,
            rollout.episode,
            _bins(space),
            seed,
            components=columns,
            own_factors=factors if space.names == factors else None,
            advance=display.advance,
        )


def _bins(space: SkillSpace) -> int:
    """Classes of a factor: as many as components have values, if there are several of these."""
    values = {component.categories for component in space.spaces}
    only = values.pop() if len(values) == 1 and len(space) > 1 else None
    return only or BINS


def show(title: str | None, what: str, total: int, **options: Any) -> Silent:
    """A display of how far something is, or one that shows nothing if there is no title."""
    return Silent() if title is None else Progress(f"{title}: {what}", total, **options)


def _warn_of_too_little(rollout: Rollout, space: SkillSpace, skill_length: int) -> None:
    drawn = max(len(rollout.skill) // skill_length, int(rollout.episode.max()) + 1)
    values = max(component.categories or BINS for component in space.spaces)
    wanted = LEAST_PER_VALUE * values
    if drawn < wanted:
        warnings.warn(
            f"measured on {drawn} skills only, {drawn / values:.2g} for each of the {values} "
            f"values of a component; scores mean little with fewer than {LEAST_PER_VALUE}: "
            f"use at least {wanted * skill_length:,} steps",
            stacklevel=5,
        )


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
    (`dci.png`), and where each value of each component leads (`values.png`). In a world that is
    seen through an encoder, scores on the true state are under `true_factors` and in
    `dci-true.png`.

    Args:
      path: a run's folder, or one policy file.
      env: needed only for worlds that dusdi can't make by name.
      steps: to measure each seed on.
      seed: of the rollouts and the metric.
      out: folder to write into; the run's own by default.
      progress: show a progress bar (or log lines, if the output is not a terminal).

    Returns:
      What is in the JSON file: mean and spread of the scores, those of each seed, and where run
      and scores come from.
    """
    check_numbers(steps=steps, seed=seed)
    skills = load(path)
    folder = Path(out) if out is not None else skills.folder or Path(path)
    check_writable(folder)
    world = world_for(skills, env)
    seeds = seed_count(path, skills)
    results, true_results = [], []
    for index in range(seeds):
        skills = load(path, index) if index else skills
        result, true, rollout = _evaluate(skills, world, steps, seed, progress)
        suffix = f"-seed{skills.seed}" if seeds > 1 else ""
        title = f"{skills.method} in {skills.spec.name}, seed {skills.seed}"
        heat_map(result, folder / f"dci{suffix}.png", title=title)
        picture = folder / f"values{suffix}.png"
        value_histograms(rollout, world.spec, skills.space, picture, title=title)
        results.append({"seed": skills.seed, **result.to_json()})
        if true is not None:
            heat_map(true, folder / f"dci-true{suffix}.png", title=f"{title}, true factors")
            true_results.append({"seed": skills.seed, **true.to_json()})
    report = summary(results)
    report |= {"true_factors": summary(true_results)} if true_results else {}
    report |= {
        "evaluation_steps": steps,
        "evaluation_seed": seed,
        "measured_with": provenance(),
        "run": origin_of(skills),
    }
    write_atomically(folder / "dci.json", json.dumps(report, indent=2) + "\n")
    return report


def seed_count(path: str | Path, first: Any) -> int:
    """How many policies there are: every seed of a run's folder, or one file."""
    return 1 if Path(path).is_file() else first.settings["run"]["seeds"]


def origin_of(policy: Any) -> dict[str, Any]:
    """Where a policy comes from: its run's id, settings, world, provenance and how far it is."""
    names = ("id", "kind", "settings", "world", *BUILT_ON, "made_with", "step", "seconds")
    return {name: policy.description[name] for name in names if name in policy.description}


def world_for(skills: Skills, env: World | str | None = None) -> World:
    """The world to evaluate in: `env` if it fits the skills, else the registered one of theirs."""
    ours = skills.spec
    if env is None:
        if ours.name not in WORLDS:
            raise UsageError(
                f"these skills were learned in {ours.name!r}, which is not one of dusdi's own "
                f"worlds ({', '.join(WORLDS)}); name the world: --env gym:ID, "
                "package.module:function or ./file.py:function (env=...)"
            )
        env = make(ours.name, **ours.options)
    env = as_world(env)
    theirs = env.spec
    sizes = (ours.observation_size, ours.action_size)
    if sizes != (theirs.observation_size, theirs.action_size) or ours.factors != theirs.factors:
        raise UsageError(
            f"{theirs.name!r} is not the world of the skills, which has "
            f"{difference(ours, theirs)}; name theirs (--env, env=...)"
        )
    if changed := difference(ours, dataclasses.replace(theirs, channels=ours.channels)):
        warnings.warn(f"the skills were learned in another world, one with {changed}", stacklevel=3)
    return env
