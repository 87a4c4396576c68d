"""Tasks solved with skills chosen by PPO, or by soft actor-critic alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dusdi.controller import Controller, FlatController, SkillController
from dusdi.envs.base import World
from dusdi.errors import UsageError, unknown_name
from dusdi.hierarchy import check_fit, check_setting
from dusdi.learning import learn
from dusdi.resolve import AGENTS
from dusdi.skills import Skills, load
from dusdi.tasks import as_task


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
    options: dict[str, Any] = {"out": out, "resume": resume, "progress": progress}
    words = {} if preset is None else {"preset": preset}
    if chosen == "sac":
        _check_flat(skills, task)
        words["method"] = "sac"
        learned = learn(task, words, fields, agent="sac", start=skills, **options)
        return FlatController(Skills(learned.description, learned.policy, learned.folder))
    if skills is None:
        raise UsageError(f"agent {chosen} chooses skills: name the run that learned them")
    check_fit(skills, task)
    if agent is not None:
        words["agent"] = agent
    learned = learn(task, words, fields, agent=chosen, skills=skills, **options)
    return SkillController(learned.description, learned.policy, learned.folder)


def _check_flat(policy: Skills | None, task: World) -> None:
    """Raises a `UsageError` unless soft actor-critic can start from a policy, if there is one."""
    if policy is None:
        return
    if len(policy.space):
        raise UsageError(
            "agent sac fine-tunes flat policies, but this run holds skills; choose among them "
            "with ppo or cpg"
        )
    check_setting(policy, task)
