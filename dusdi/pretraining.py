"""Skill discovery: from a world to skills."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from dusdi.envs import as_world
from dusdi.envs.base import World
from dusdi.learning import learn
from dusdi.methods import method_name
from dusdi.methods.base import Method
from dusdi.skill_space import idle_components
from dusdi.skills import Skills


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
    learned = learn(world, words, fields, out=out, resume=resume, progress=progress)
    skills = Skills(learned.description, learned.policy, learned.folder)
    _warn_of_idle(skills, learned.rows)
    return skills


def _warn_of_idle(skills: Skills, rows: Any) -> None:
    idle = idle_components(skills.space, rows)
    if idle:
        listed = ", ".join(f"{name!r} ({why})" for name, why in idle.items())
        warnings.warn(
            f"what these skill components do can't be seen in the state: {listed}; docs/chance.md "
            "helps, and so may more steps, since the first ones are random",
            stacklevel=3,
        )
