"""Soft actor-critic from a world to a policy: the composition root of skill discovery."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dusdi.envs import as_world
from dusdi.envs.base import World
from dusdi.methods import method_name
from dusdi.methods.base import Method
from dusdi.resolve import PretrainSettings, Resolved, resolve_pretrain
from dusdi.resume import find_previous, settings_of
from dusdi.run import describe_run, locked
from dusdi.skill_space import idle_components
from dusdi.skills import Skills
from dusdi.trainers import make_trainer
from dusdi.training import first_or_saved_state, run_training


def pretrain(
    env: World | str,
    *,
    method: str | type[Method] | None = None,
    preset: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    **fields: Any,
) -> Skills:
    """Discovers skills in a world, without reward.

    Args:
      env: a world, or the name of one.
      method: "dusdi" (default), another method's name, `package.module:Class`, or a class.
      preset: "fast" (default), "paper" or "debug"; see `dusdi.presets`.
      out: folder for policy, checkpoints, CSV and TensorBoard events; else nothing is written.
      resume: go on with the run in `out`, if there is one.
      progress: show a progress bar (or log lines, if the output is not a terminal).
      **fields: any setting by its name, for instance `seed=1`, `steps=500_000`,
        `components={"ball": "box:2"}`; `dusdi config pretrain WORLD` lists them.

    Returns:
      The skills (of the first seed, if there are several; `dusdi.load` gives the others).
    """
    world = as_world(env)
    words = {"preset": preset} if preset is not None else {}
    if method is not None:
        words["method"] = method_name(method)

    def resolve() -> Resolved:
        chosen = words.get("method", "dusdi")
        return resolve_pretrain(world, chosen, words.get("preset", "fast"), fields)

    return run_sac(world, resolve, fields, words, out=out, resume=resume, progress=progress)


def run_sac(
    world: World,
    resolve: Callable[[], Resolved],
    fields: Mapping[str, Any],
    words: Mapping[str, str],
    *,
    out: str | Path | None,
    resume: bool,
    progress: bool,
    start: Callable[[Any, PretrainSettings], Any] | None = None,
    origin: Mapping[str, Any] | None = None,
) -> Skills:
    """Trains a policy by soft actor-critic: a new run, or from where the one in `out` is.

    Args:
      world: to learn in.
      resolve: gives the settings of a new run.
      fields: settings that the user named, which must not contradict a run that is resumed.
      words: the method and preset that the user named.
      out: the run's folder.
      resume: whether to go on with a run that is there.
      progress: whether to show it.
      start: changes the first state of a new run, for one that starts from another's policy.
      origin: the policy that it starts from.
    """
    folder = Path(out) if out is not None else None
    with locked(folder):
        options: dict[str, Any] = {"resume": resume, "origin": origin}
        previous = find_previous(folder, world.spec, PretrainSettings, fields, words, **options)
        settings, origins = settings_of(previous, resolve)
        trainer = make_trainer(world, settings)
        try:
            method = trainer.learner.method
            kind = "flat" if method.learns_task else "skills"
            before = previous.description if previous else None
            space = {"skill_space": method.skill_space.to_json()}
            description = describe_run(kind, world.spec, settings, origins, before, origin) | space
            state = first_or_saved_state(trainer, previous)
            if start is not None and not (previous and previous.found):
                state = start(state, settings)
            title = f"{method.name} in {world.spec.name}"
            state, rows = run_training(
                trainer, state, description, folder, title=title, progress=progress
            )
            step = int(state.iteration) * trainer.steps_per_iteration
            policy = trainer.policies(state)[0]
        finally:
            trainer.close()
    _warn_of_idle(method, rows)
    description |= {"seed": settings.run.seed, "step": step}
    return Skills(description, policy, folder)


def _warn_of_idle(method: Method, rows: Any) -> None:
    idle = idle_components(method.skill_space, rows)
    if idle:
        listed = ", ".join(f"{name!r} ({why})" for name, why in idle.items())
        warnings.warn(
            f"what these skill components do can't be seen in the state: {listed}; docs/chance.md "
            "helps",
            stacklevel=4,
        )
