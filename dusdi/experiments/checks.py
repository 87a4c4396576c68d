"""Whether the jobs of an experiment can be done: said before any compute is spent."""

from __future__ import annotations

from collections.abc import Iterable

from dusdi.errors import UsageError
from dusdi.experiments.jobs import Job, make_environment
from dusdi.experiments.settings import Settings
from dusdi.methods import METHODS, find_method
from dusdi.resolve import PretrainSettings
from dusdi.skill_space import SkillSpace

#: Experiments whose methods can be chosen; the others compare variants of one method.
CHOICE_OF_METHODS = ("table1", "fig4", "fig5", "susd", "more-factors", "tuning")


def check_methods(experiment: str, settings: Settings) -> None:
    """Raises a `UsageError` if an experiment can't be made with the methods that were chosen."""
    if settings.methods and experiment not in CHOICE_OF_METHODS:
        raise UsageError(
            f"{experiment} compares variants of DUSDi, so that its methods can't be chosen; "
            f"--methods (methods=...) is for {', '.join(CHOICE_OF_METHODS)}"
        )
    for method in settings.methods:
        find_method(method)
        if settings.methods.count(method) > 1:
            raise UsageError(f"methods names {method!r} twice; name it once")


def check_jobs(experiment: str, jobs: Iterable[Job]) -> None:
    """Raises a `UsageError` if a job would fail for what its method is, or for what is missing."""
    checked = set()
    for job in jobs:
        make_environment(job).check_installed()
        skills = _skills_of(job)
        if skills is not None and (job.kind, skills.request["method"]) not in checked:
            _check_use(experiment, job, skills)
            checked.add((job.kind, skills.request["method"]))


def _skills_of(job: Job) -> Job | None:
    """The run of a method that a job trains, measures or builds on; None if there is none."""
    if job.kind == "skills":
        return job
    return job.inputs[0] if job.kind in ("dci", "task") and job.inputs else None


def _check_use(experiment: str, job: Job, skills: Job) -> None:
    """Raises a `UsageError` unless a method learns what a job needs."""
    name = skills.request["method"]
    method = find_method(name)
    if method.learns_task:
        raise _unfit(experiment, name, "learns from a task's reward and discovers no skills")
    space = _skill_space(skills)
    if job.kind == "dci" and not len(space):
        raise _unfit(experiment, name, "has no skills whose disentanglement could be measured")
    if job.kind == "task" and job.request["agent"] != "sac" and not len(space):
        raise _unfit(experiment, name, "has no skills that a task could choose among")
    if job.kind == "task" and job.request["agent"] == "sac" and len(space):
        raise _unfit(experiment, name, "has skills, but only a policy without any is fine-tuned")


def _skill_space(skills: Job) -> SkillSpace:
    """The skills that a job discovers; its method is made, but nothing is learned."""
    settings = PretrainSettings.from_json(skills.settings)
    world = make_environment(skills)
    return find_method(settings.method)(world.spec, settings.objective).skill_space


def _unfit(experiment: str, name: str, why: str) -> UsageError:
    fit = [other for other, kind in METHODS.items() if kind.used_by == "hierarchy"]
    return UsageError(
        f"method {name!r} can't be in {experiment}: it {why}; choose among {', '.join(fit)}"
    )
