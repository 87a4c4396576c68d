"""Skill discovery, from a world to skills: the composition root of pretraining."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dusdi import checkpoint, policy
from dusdi.config import Config, configure
from dusdi.envs import make
from dusdi.envs.base import World
from dusdi.learner import make_trainer
from dusdi.loop import train
from dusdi.policy import Skills
from dusdi.progress import Progress, Silent
from dusdi.run import Run, take_up


def pretrain(
    env: World | str,
    *,
    preset: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    **fields: Any,
) -> Skills:
    """Discovers skills in a world, without reward.

    Args:
      env: a world, or the name of one.
      preset: "fast" (default), "paper" or "debug"; see `dusdi.config`.
      out: folder for checkpoints, CSV and TensorBoard events; nothing is written without one.
      resume: go on with the run in `out`, if there is one.
      progress: show a progress bar (or log lines, if the output is not a terminal).
      **fields: any field of `dusdi.Config`, for instance `method="diayn-mc"`, `seed=1`, `steps=500_000`.

    Returns:
      The skills (of the first seed, if there are several; `dusdi.load` gives the others).
    """
    world = make(env) if isinstance(env, str) else env
    asked = fields if preset is None else {"preset": preset, **fields}
    folder = Path(out) if out is not None else None
    taken = take_up(folder, world.spec, asked, resume=resume, kind=Config) if folder else None
    config, found = taken or (configure(preset or "fast", world.presets, fields), None)
    trainer = make_trainer(world, config)
    state, seconds = trainer.init(), 0.0
    if found is not None:
        state = checkpoint.unflatten(state, found.arrays)
        seconds = found.description["seconds"]
    done = int(state.iteration) * config.num_envs
    run = Run(folder, world.spec, config, done) if folder else None
    try:
        title = f"{config.method} in {world.spec.name}"
        with Progress(title, config.steps, done) if progress else Silent() as display:
            state = train(trainer, config, state, seconds, run, display)
    finally:
        trainer.close()
        if run is not None:
            run.close()
    return policy.from_state(world.spec, config, state, folder=folder)
