"""From a world to a policy: the composition root of every run, in the order in which it happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dusdi.envs.base import World
from dusdi.fine_tuning import actor_settings, started, trained_actor
from dusdi.high_level import make_high_level_trainer
from dusdi.policy import Policy
from dusdi.resolve import (
    DownstreamSettings,
    PretrainSettings,
    Resolved,
    resolve_downstream,
    resolve_pretrain,
)
from dusdi.resume import find_previous, resumed_settings
from dusdi.run import describe_run, locked
from dusdi.skills import Skills
from dusdi.trainers import Trainer, make_trainer
from dusdi.training import first_or_saved_state, run_training


class Learned(NamedTuple):
    """What a run has learned.

    Attributes:
      description: what the run is, of its first seed.
      policy: of its first seed.
      folder: the run's, if it has one.
      rows: the last log row of each seed.
    """

    description: dict[str, Any]
    policy: Policy
    folder: Path | None
    rows: Sequence[Mapping[str, float]]


def learn(
    env: World,
    words: Mapping[str, str],
    fields: Mapping[str, Any],
    *,
    agent: str | None = None,
    skills: Skills | None = None,
    start: Skills | None = None,
    out: str | Path | None,
    resume: bool,
    progress: bool,
) -> Learned:
    """A whole run, new or from where the one in `out` is.

    Args:
      env: the world or task to learn in.
      words: the method or agent and the preset that the user named.
      fields: settings that the user named; must not contradict those of a run that is resumed.
      agent: what learns a task, see `dusdi.resolve.AGENTS`; None to discover skills.
      skills: the frozen skills that agents ppo and cpg choose among.
      start: the flat policy that agent sac starts from, if there is one.
      out: the run's folder; None for a run that leaves nothing behind.
      resume: whether to go on with a run that is there.
      progress: whether to show it.
    """
    folder = Path(out) if out is not None else None
    built_on = {"skills": skills, "start": start}
    origin = {name: describe_skills(own) for name, own in built_on.items() if own is not None}
    kind = PretrainSettings if skills is None else DownstreamSettings
    with locked(folder):
        previous = find_previous(
            folder, env.spec, kind, fields, words, resume=resume, origin=origin
        )
        if previous is not None:
            settings, origins = resumed_settings(previous)
        else:
            settings, origins = _new_settings(env, words, fields, agent, start)
        is_new = previous is None or previous.found is None
        actor = trained_actor(start) if start is not None and is_new else None
        trainer: Trainer
        if skills is None:
            trainer = make_trainer(env, settings)
        else:
            trainer = make_high_level_trainer(env, skills, settings)
        try:
            before = previous.description if previous else None
            described = describe_run(trainer.kind, env.spec, settings, origins, before, origin)
            description = {**described, **trainer.about}
            state = first_or_saved_state(trainer, previous)
            if actor is not None:
                state = started(state, settings, *actor)
            if folder is not None:
                env.save_parts(folder)
            state, rows = run_training(trainer, state, description, folder, progress=progress)
            step = int(state.iteration) * trainer.steps_per_iteration
            policy = trainer.policies(state)[0]
        finally:
            trainer.close()
    return Learned(description | {"seed": settings.run.seed, "step": step}, policy, folder, rows)


def _new_settings(
    env: World,
    words: Mapping[str, str],
    fields: Mapping[str, Any],
    agent: str | None,
    start: Skills | None,
) -> Resolved:
    """The settings of a new run, and where those that are not defaults come from."""
    preset = words.get("preset", "fast")
    if agent is None:
        resolved = resolve_pretrain(env, words.get("method", "dusdi"), preset, fields)
    else:
        layers = [actor_settings(start.settings)] if start is not None else []
        resolved = resolve_downstream(env, agent, preset, fields, more=layers)
    return resolved.without_defaults()


def describe_skills(skills: Skills) -> dict[str, Any]:
    """What a run that builds on skills or a policy says of them."""
    names = ("id", "kind", "settings", "world", "skill_space", "seed", "step", "made_with")
    return {name: skills.description[name] for name in names if name in skills.description}
