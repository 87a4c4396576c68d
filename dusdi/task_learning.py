"""Tasks solved with skills chosen by PPO, or by soft actor-critic alone: the composition root."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dusdi.controller import Controller, FlatController, SkillController
from dusdi.envs.base import World
from dusdi.errors import UsageError, unknown_name
from dusdi.fine_tuning import actor_settings, start_from
from dusdi.hierarchy import check_fit, check_setting
from dusdi.high_level import make_high_level_trainer
from dusdi.pretraining import run_sac
from dusdi.resolve import AGENTS, DownstreamSettings, Resolved, resolve_downstream
from dusdi.resume import find_previous, settings_of
from dusdi.run import describe_run, locked
from dusdi.skills import Skills, load
from dusdi.tasks import as_task
from dusdi.training import first_or_saved_state, run_training


def downstream(
    skills: Skills | str | Path | None,
    task: World | str,
    *,
    agent: str | None = None,
    preset: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    **fields: Any,
) -> Controller:
    """Learns a task with frozen skills, or (agent "sac") without.

    Args:
      skills: the skills or their run's folder; None for soft actor-critic from scratch.
      task: a task, or the name of one (`dusdi envs` lists them).
      agent: "ppo" (default with skills), "cpg" (the causal policy gradient) or "sac" (flat;
        default without skills).
      preset: "fast" (default), "paper" or "debug".
      out: folder for policy, checkpoints, CSV and TensorBoard events; else nothing is written.
      resume: go on with the run in `out`, if there is one.
      progress: show a progress bar (or log lines, if the output is not a terminal).
      **fields: any setting by its name; `dusdi config downstream TASK` lists them.

    Returns:
      What was learned, of the first seed; `dusdi.load_controller` gives the others.
    """
    if agent is not None and agent not in AGENTS:
        raise unknown_name("agent", agent, AGENTS)
    skills = load(skills) if isinstance(skills, str | Path) else skills
    chosen = agent or ("ppo" if skills is not None and len(skills.space) else "sac")
    task = as_task(task, None if skills is None else skills.spec)
    folder = Path(out) if out is not None else None
    options: dict[str, Any] = {"out": folder, "resume": resume, "progress": progress}
    if chosen == "sac":
        return _learn_flat(skills, task, preset, fields, **options)
    if skills is None:
        raise UsageError(f"agent {chosen} chooses skills: name the run that learned them")
    words = {"agent": agent, "preset": preset}
    named = {name: word for name, word in words.items() if word is not None}
    return _learn_to_choose(skills, task, chosen, named, fields, **options)


def _learn_to_choose(
    skills: Skills,
    task: World,
    agent: str,
    words: Mapping[str, str],
    fields: Mapping[str, Any],
    *,
    out: Path | None,
    resume: bool,
    progress: bool,
) -> SkillController:
    """PPO over skills: a new run, or from where the one in `out` is."""
    check_fit(skills, task)
    origin = {"skills": describe_skills(skills)}
    with locked(out):
        options: dict[str, Any] = {"resume": resume, "origin": origin}
        previous = find_previous(out, task.spec, DownstreamSettings, fields, words, **options)
        preset = words.get("preset", "fast")
        settings, origins = settings_of(
            previous, lambda: resolve_downstream(task, agent, preset, fields)
        )
        trainer = make_high_level_trainer(task, skills, settings)
        try:
            before = previous.description if previous else None
            description = describe_run("hierarchy", task.spec, settings, origins, before, origin)
            state = first_or_saved_state(trainer, previous)
            title = f"{settings.agent} on {task.spec.name}"
            state, _ = run_training(
                trainer, state, description, out, title=title, progress=progress
            )
            step = int(state.iteration) * trainer.steps_per_iteration
            policy = trainer.policies(state)[0]
        finally:
            trainer.close()
    description |= {"seed": settings.run.seed, "step": step}
    return SkillController(description, policy, out)


def describe_skills(skills: Skills) -> dict[str, Any]:
    """What a run over skills says of them; their layers are in its policy file, too."""
    names = ("id", "kind", "settings", "world", "skill_space", "seed", "step", "made_with")
    return {name: skills.description[name] for name in names if name in skills.description}


def _learn_flat(
    policy: Skills | None,
    task: World,
    preset: str | None,
    fields: Mapping[str, Any],
    *,
    out: Path | None,
    resume: bool,
    progress: bool,
) -> FlatController:
    """Soft actor-critic on the task's reward, from scratch or from a flat policy."""
    words = {"method": "sac"} if preset is None else {"method": "sac", "preset": preset}
    start = None
    origin = None
    layers = []
    if policy is not None:
        if len(policy.space):
            raise UsageError(
                "agent sac fine-tunes flat policies, but this run holds skills; choose among them "
                "with ppo or cpg"
            )
        check_setting(policy, task)
        start = start_from(policy)
        origin = {"start": describe_skills(policy)}
        layers = [actor_settings(policy.settings)]

    def resolve() -> Resolved:
        return resolve_downstream(task, "sac", preset or "fast", fields, more=layers)

    learned = run_sac(
        task,
        resolve,
        fields,
        words,
        out=out,
        resume=resume,
        progress=progress,
        start=start,
        origin=origin,
    )
    return FlatController(learned)
