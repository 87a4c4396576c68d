"""Skill discovery, from a world to skills: the composition root of pretraining and its loop.

The loop advances the train state in pieces of about a second, logs, checkpoints, and stops cleanly on Ctrl-C or when something
becomes non-finite. Where the pieces end does not change a single bit of the result.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dusdi import checkpoint, policy
from dusdi.config import Config, configure
from dusdi.envs import make
from dusdi.envs.base import World
from dusdi.errors import NonFiniteError
from dusdi.learner import GraphTrainer, HostTrainer, TrainState, make_trainer
from dusdi.policy import Skills
from dusdi.progress import Progress, Silent
from dusdi.run import Run, take_up
from dusdi.types import WorldSpec

PIECE_SECONDS = 1.0


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after everything was saved."""


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
    taken = take_up(folder, world.spec, asked, resume=resume) if folder else None
    config, found = taken or (configure(preset or "fast", world.presets, fields), None)
    trainer = make_trainer(world, config)
    state, seconds = trainer.init(), 0.0
    if found is not None:
        state = checkpoint.unflatten(state, found.arrays)
        seconds = found.description["seconds"]
    done = int(state.iteration) * config.num_envs
    run = Run(folder, world.spec, config, done) if folder else None
    try:
        with Progress(world.spec, config, done) if progress else Silent() as display:
            state = _loop(trainer, config, state, seconds, run, display)
    finally:
        trainer.close()
        if run is not None:
            run.close()
    return policy.from_state(world.spec, config, state, folder=folder)


def _loop(trainer: GraphTrainer | HostTrainer, config: Config, state: TrainState, seconds: float, run, display) -> TrainState:
    """Trains to the end of the run. Counts in iterations: one step of all environments."""
    total = math.ceil(config.steps / config.num_envs)
    random_until = math.ceil(max(config.random_steps, config.batch_size) / config.num_envs)
    log_every = math.ceil(config.log_every / config.num_envs)
    save_every = math.ceil(config.checkpoint_every / config.num_envs)
    iteration, piece = int(state.iteration), 1
    kept = f"the checkpoint of step {iteration * config.num_envs} is kept" if iteration else "nothing was saved yet"
    spec = trainer.learner.spec
    start = time.monotonic() - seconds
    state = trainer.restart(state)
    with _interruptible() as interrupted:
        while iteration < total:
            random = iteration < random_until
            marks = (_next(iteration, log_every), _next(iteration, save_every), total)
            stop = min(iteration + piece, *marks, *((random_until,) if random else ()))
            began = time.monotonic()
            state = jax.block_until_ready(trainer.advance(state, stop - iteration, random))
            rate = (stop - iteration) / max(time.monotonic() - began, 1e-9)
            piece, iteration = max(1, min(2 * piece, int(rate * PIECE_SECONDS))), stop
            seconds, step = time.monotonic() - start, iteration * config.num_envs
            if (iteration % log_every == 0 or iteration == total) and int(state.updates):
                state, rows = _take_metrics(state, config)
                _check_finite(state, rows, spec, step, kept)
                if run is not None:
                    run.log(step, seconds, rows)
                display.log(step, rows)
            display.advance(step)
            if run is not None and (iteration % save_every == 0 or iteration == total or interrupted()):
                _check_finite(state, [], spec, step, kept)
                run.save(step, seconds, state)
                kept = f"the checkpoint of step {step} in {run.folder} is kept"
                state = trainer.restart(state)
            if interrupted():
                raise Interrupted(f"stopped at step {step}" + (f"; saved in {run.folder}" if run else ""))
    return state


def _next(iteration: int, every: int) -> int:
    """The first multiple of `every` after `iteration`."""
    return (iteration // every + 1) * every


def _take_metrics(state: TrainState, config: Config) -> tuple[TrainState, list[dict[str, float]]]:
    """The mean metrics of each seed since the last time, and the state with the sums cleared."""
    updates = int(state.updates)
    sums = {name: np.atleast_1d(np.asarray(value)) for name, value in state.metrics.items()}
    rows = [_with_summary({name: float(x[i]) / updates for name, x in sums.items()}) for i in range(config.seeds)]
    cleared = jax.tree.map(jnp.zeros_like, state.metrics)
    return state.replace(metrics=cleared, updates=jnp.zeros_like(state.updates)), rows


def _with_summary(row: dict[str, float]) -> dict[str, float]:
    """The metrics of one seed, led by the mean accuracy (or error) of the discriminators on their own factors."""
    for kind in ("accuracy", "squared_error"):
        own = [x for name, x in row.items() if name.startswith(f"{kind}/") and not name.startswith(f"{kind}/not ")]
        if own:
            return {kind: sum(own) / len(own), **row}
    return row


def _check_finite(state: TrainState, rows: Sequence[Mapping[str, float]], spec: WorldSpec, step: int, kept: str) -> None:
    """Raises a `NonFiniteError` that names observation entries, metrics and parameters that are not finite."""
    seen = np.atleast_2d(np.asarray(state.normaliser.mean))  # of everything the world ever gave
    leaves = jax.tree_util.tree_flatten_with_path({"objective": state.objective, "agent": state.agent})[0]
    broken = [path for path, leaf in leaves if not bool(jnp.isfinite(leaf).all())]
    bad = {
        "metrics": sorted({name for row in rows for name, value in row.items() if not math.isfinite(value)}),
        "observation entries": [spec.entry_name(int(i)) for i in np.flatnonzero(~np.isfinite(seen).all(0))],
        "parameters": [jax.tree_util.keystr(path, simple=True, separator="/") for path in broken],
    }
    if any(bad.values()):
        listed = "; ".join(f"{kind} {', '.join(names[:5])}{' …' * (len(names) > 5)}" for kind, names in bad.items() if names)
        raise NonFiniteError(f"not finite any more at step {step}: {listed}; {kept}")


@contextmanager
def _interruptible() -> Iterator[Any]:
    """Turns Ctrl-C into a flag while the state is in the hands of the compiled program; a second one is not held back."""
    hit = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield hit.is_set
        return

    def handler(signum, frame):
        hit.set()
        signal.signal(signal.SIGINT, previous)

    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield hit.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
