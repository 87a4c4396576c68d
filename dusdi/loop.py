"""The loop of every training run: it knows neither what is learned nor from what.

It advances a train state in pieces of about a second, logs, checkpoints, and stops cleanly on Ctrl-C or when something becomes
non-finite. Where the pieces end does not change a single bit of the result.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from dusdi import checkpoint
from dusdi.checkpoint import Checkpoint
from dusdi.config import AnyConfig, BaseConfig
from dusdi.errors import CheckpointError, NonFiniteError, StorageError, explain_os
from dusdi.progress import Progress, Silent
from dusdi.run import Run, held, take_up
from dusdi.signals import stoppable
from dusdi.types import WorldSpec

PIECE_SECONDS = 1.0


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after everything was saved."""


class Trainer(Protocol):
    """What the loop drives. Its states have `iteration`, `normaliser`, and `metrics`, which are sums over `updates`.

    Attributes:
      spec: the world or task.
      steps_per_iteration: environment steps per seed in each iteration.
      random_iterations: how many to start with at random.
    """

    @property
    def spec(self) -> WorldSpec: ...
    @property
    def steps_per_iteration(self) -> int: ...
    @property
    def random_iterations(self) -> int: ...
    def init(self) -> Any:
        """The state before the first step."""

    def shapes(self) -> Any:
        """The shapes of such a state, for which no memory is needed."""

    def close(self) -> None:
        """Lets go of what the trainer holds."""

    def advance(self, state: Any, iterations: int, random: bool) -> Any:
        """The state after so many iterations."""

    def restart(self, state: Any) -> Any:
        """The state after a checkpoint, the same whether the run goes on or is taken up from there."""

    def learned(self, state: Any) -> Any:
        """The part of the state that must stay finite."""

    def summarise(self, sums: Mapping[str, float], updates: int) -> dict[str, float]:
        """A log row."""


def conduct(
    spec: WorldSpec,
    asked: Mapping[str, Any],
    kind: type[BaseConfig],
    new_config: Callable[[], Any],
    new_trainer: Callable[[Any], Trainer],
    *,
    title: Callable[[Any], str],
    folder: Path | None,
    resume: bool,
    progress: bool,
    origin: Mapping[str, Any] | None = None,
    begin: Callable[[Any, Any], Any] = lambda state, config: state,
) -> tuple[Any, Any, list[dict[str, float]]]:
    """A whole run, new or taken up from where the one in `folder` is: its config, its last state and each seed's last log row.

    Args:
      spec: the world or task.
      asked: the config fields the user named, which must not contradict a run that is taken up.
      kind: of config.
      new_config: makes that of a new run.
      new_trainer: makes the trainer for a config.
      title: of the progress bar.
      folder: of the run; None for a run that leaves nothing behind.
      resume: whether to take up a run that is there already.
      progress: whether to show it.
      origin: what the run came from, told in its description.
      begin: what makes of the first state of a new run, and its config, the one to start from.
    """
    with held(folder):
        taken = (
            take_up(folder, spec, asked, resume=resume, kind=kind, origin=origin)
            if folder
            else None
        )
        config, found = taken or (new_config(), None)
        trainer, run = new_trainer(config), None
        try:
            state = begin(trainer.init(), config) if found is None else _loaded(trainer, found)
            seconds = float(found.description.get("seconds", 0.0)) if found else 0.0
            done = int(state.iteration) * trainer.steps_per_iteration
            state = trainer.restart(state)  # before anything is written: a world may fail here
            if folder:
                run = Run(
                    folder,
                    spec,
                    config,
                    done,
                    name=found and found.description.get("id"),
                    origin=origin,
                )
            total = trainer.steps_per_iteration * math.ceil(
                config.steps / trainer.steps_per_iteration
            )
            order = [*(factor.name for factor in spec.factors), *spec.channels]
            display = Progress(title(config), total, done, order=order) if progress else Silent()
            with display:
                if total != config.steps:
                    display.message(
                        f"{config.steps:,} steps are rounded up to {total:,}: "
                        f"one iteration is {trainer.steps_per_iteration:,} steps"
                    )
                state, rows = train(trainer, config, state, seconds, run, display)
            return config, state, rows
        finally:
            trainer.close()
            if run is not None:
                run.close()


def _loaded(trainer: Trainer, found: Checkpoint) -> Any:
    """The state in a checkpoint. Its arrays are compared with what the run needs before any memory is asked for."""
    state = checkpoint.read(found, trainer.shapes())
    if int(state.iteration) * trainer.steps_per_iteration != found.description["step"]:
        raise CheckpointError(
            f"{found.path} says it is of step {found.description['step']}, but its arrays are of another"
        )
    return state


def train(
    trainer: Trainer,
    config: AnyConfig,
    state: Any,
    seconds: float,
    run: Run | None,
    display: Silent,
) -> tuple[Any, list[dict[str, float]]]:
    """Trains to the end of the run; `seconds` have gone into it before. Gives the state and the last log row of each seed."""
    size, random_until = trainer.steps_per_iteration, trainer.random_iterations
    total = math.ceil(config.steps / size)
    log_every = math.ceil(config.log_every / size)
    save_every = math.ceil(config.checkpoint_every / size)
    iteration, piece, was_random = int(state.iteration), 1, True
    kept = (
        f"the checkpoint of step {iteration * size} is kept"
        if iteration
        else "nothing was saved yet"
    )
    start = time.monotonic() - seconds
    rows: list[dict[str, float]] = []
    with stoppable(lambda: display.note("stopping")) as stopped:
        while iteration < total:
            random = iteration < random_until
            if (
                was_random and not random
            ):  # random steps are cheap, and tell nothing of what learning costs
                piece = 1
                display.note("compiling")
            marks = (_next(iteration, log_every), _next(iteration, save_every), total)
            stop = min(iteration + piece, *marks, *((random_until,) if random else ()))
            began = time.monotonic()
            state = jax.block_until_ready(trainer.advance(state, stop - iteration, random))
            rate = (stop - iteration) / max(time.monotonic() - began, 1e-9)
            piece, iteration, was_random = (
                max(1, min(2 * piece, int(rate * PIECE_SECONDS))),
                stop,
                random,
            )
            seconds, step = time.monotonic() - start, iteration * size
            if (iteration % log_every == 0 or iteration == total) and int(state.updates):
                state, rows = _take_metrics(trainer, state, config)
                _check_finite(trainer, state, rows, step, kept)
                if run is not None:
                    with _writing(run, step, kept):
                        run.log(step, seconds, rows)
                display.log(step, rows)
            display.advance(step)
            if run is not None and (iteration % save_every == 0 or iteration == total or stopped()):
                _check_finite(trainer, state, [], step, kept)
                with _writing(run, step, kept):
                    run.save(step, seconds, state)
                kept = f"the checkpoint of step {step} in {run.folder} is kept"
                state = trainer.restart(state)
            if stopped():
                raise Interrupted(
                    f"stopped at step {step:,}" + (f"; saved in {run.folder}" if run else "")
                )
    return state, rows


@contextmanager
def _writing(run: Run, step: int, kept: str) -> Iterator[None]:
    """Turns what the file system refuses into a `StorageError` that says what is kept and what to do."""
    try:
        yield
    except OSError as error:
        if not run.folder.is_dir():
            raise StorageError(
                f"at step {step}, {run.folder} was gone: removed or moved while the run went on"
            ) from error
        error.filename = error.filename or str(run.folder)
        raise StorageError(
            f"at step {step}: {explain_os(error)}; {kept}; once that is mended, go on with --resume"
        ) from error


def _next(iteration: int, every: int) -> int:
    """The first multiple of `every` after `iteration`."""
    return (iteration // every + 1) * every


def _take_metrics(
    trainer: Trainer, state: Any, config: AnyConfig
) -> tuple[Any, list[dict[str, float]]]:
    """The mean metrics of each seed since the last time, and the state with the sums cleared."""
    sums = {name: np.atleast_1d(np.asarray(value)) for name, value in state.metrics.items()}
    updates = int(state.updates)
    rows = [
        trainer.summarise({name: float(x[i]) for name, x in sums.items()}, updates)
        for i in range(config.seeds)
    ]
    cleared = jax.tree.map(jnp.zeros_like, state.metrics)
    return state.replace(metrics=cleared, updates=jnp.zeros_like(state.updates)), rows


def _check_finite(
    trainer: Trainer, state: Any, rows: Sequence[Mapping[str, float]], step: int, kept: str
) -> None:
    """Raises a `NonFiniteError` that names observation entries, metrics and parameters that are not finite."""
    moments = np.stack(
        [np.atleast_2d(state.normaliser.mean), np.atleast_2d(state.normaliser.variance)]
    )  # of all observations
    leaves = jax.tree_util.tree_flatten_with_path(trainer.learned(state))[0]
    broken = [path for path, leaf in leaves if not bool(jnp.isfinite(leaf).all())]
    bad = {
        "metrics": sorted(
            {name for row in rows for name, value in row.items() if _is_broken(row, name, value)}
        ),
        "observation entries": [
            trainer.spec.entry_name(int(i))
            for i in np.flatnonzero(~np.isfinite(moments).all((0, 1)))
        ],
        "parameters": [jax.tree_util.keystr(path, simple=True, separator="/") for path in broken],
    }
    if any(bad.values()):
        listed = "; ".join(
            f"{kind} {', '.join(names[:5])}{' …' * (len(names) > 5)}"
            for kind, names in bad.items()
            if names
        )
        raise NonFiniteError(f"not finite any more at step {step}: {listed}; {kept}")


def _is_broken(row: Mapping[str, float], name: str, value: float) -> bool:
    no_return_yet = name.split("/")[0] == "return" and not row.get("episodes")
    return not math.isfinite(value) and not no_return_yet
