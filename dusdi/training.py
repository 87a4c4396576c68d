"""The loop of every training run: it knows neither what is learned nor from what.

It advances a train state in pieces of about a second, logs, writes checkpoints, and stops cleanly
on Ctrl-C or when something becomes non-finite. Where the pieces end does not change a single bit of
the result.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dusdi import checkpoint
from dusdi.checkpoint import Checkpoint
from dusdi.errors import CheckpointError, NonFiniteError, StorageError, explain_os
from dusdi.progress import Progress, Silent
from dusdi.resume import Previous
from dusdi.run import Run, run_title
from dusdi.signals import stoppable
from dusdi.trainers import Trainer

PIECE_SECONDS = 1.0


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after everything was saved."""


def run_training(
    trainer: Trainer,
    state: Any,
    description: Mapping[str, Any],
    folder: Path | None,
    *,
    progress: bool,
) -> tuple[Any, list[dict[str, float]]]:
    """Trains to the end of a run: its last state and each seed's last log row.

    Args:
      trainer: what learns.
      state: where to go on.
      description: what the run is, see `dusdi.run.describe_run`; of a run that goes on, it says
        how many seconds went into it.
      folder: of the run; None for a run that leaves nothing behind.
      progress: whether to show it.
    """
    size = trainer.steps_per_iteration
    done = int(state.iteration) * size
    state = trainer.restart(state)  # before anything is written: a world may fail here
    run = _begun(trainer, state, description, folder, done) if folder else None
    total = size * math.ceil(trainer.settings.run.steps / size)
    seconds = float(description.get("seconds", 0.0))
    order = [*(factor.name for factor in trainer.spec.factors), *trainer.spec.channels]
    display = Silent()
    if progress:
        display = Progress(run_title(description), total, done, order=order)
    try:
        with display:
            steps = trainer.settings.run.steps
            if total != steps:
                display.message(
                    f"{steps:,} steps are rounded up to {total:,}: one iteration is {size:,} steps"
                )
            return TrainingLoop(trainer, state, seconds, run, display).run()
    finally:
        if run is not None:
            run.close()


def _begun(
    trainer: Trainer, state: Any, description: Mapping[str, Any], folder: Path, done: int
) -> Run:
    """The folder of a run, whose files are now those of step `done`."""
    with writing(folder, done, _kept_at(done)):
        run = Run(folder, description, trainer.seeds, done)
        try:
            if done:  # the files may be older than the checkpoint, or damaged
                run.write_policies(trainer.policies(state))
        except BaseException:
            run.close()
            raise
    return run


def _kept_at(step: int) -> str:
    """What is safe when a run goes on at a step."""
    return f"the checkpoint of step {step} is kept" if step else "nothing was saved yet"


@contextmanager
def writing(folder: Path, step: int, kept: str) -> Iterator[None]:
    """Turns what the file system refuses into a `StorageError` that says what to do.

    Args:
      folder: of the run.
      step: that the run is at.
      kept: what is safe whatever happens.
    """
    try:
        yield
    except OSError as error:
        at = f"at step {step}"
        if not folder.is_dir():
            raise StorageError(
                f"{at}, {folder} was gone: removed or moved while the run went on"
            ) from error
        error.filename = error.filename or str(folder)
        raise StorageError(
            f"{at}: {explain_os(error)}; {kept}; once that is mended, go on with --resume"
        ) from error


def first_or_saved_state(trainer: Trainer, previous: Previous | None) -> Any:
    """The state to go on from: the first one, or that of a checkpoint.

    Its arrays are compared with what the run needs before any memory is asked for.
    """
    if previous is None or previous.found is None:
        return trainer.init()
    return _loaded(trainer, previous.found)


def _loaded(trainer: Trainer, found: Checkpoint) -> Any:
    state = checkpoint.read(found, trainer.shapes())
    step = found.description["step"]
    if int(state.iteration) * trainer.steps_per_iteration != step:
        raise CheckpointError(
            f"{found.path} says it is of step {step}, but its arrays are of another"
        )
    return state


class TrainingLoop:
    """Advances a state to the end of its run; `seconds` have gone into it before."""

    def __init__(
        self, trainer: Trainer, state: Any, seconds: float, run: Run | None, display: Silent
    ):
        settings = trainer.settings.run
        size = trainer.steps_per_iteration
        self._trainer = trainer
        self._state = state
        self._run = run
        self._display = display
        self._iteration = int(state.iteration)
        self._total = math.ceil(settings.steps / size)
        self._log_every = math.ceil(settings.log_every / size)
        self._save_every = math.ceil(settings.checkpoint_every / size)
        self._start = time.monotonic() - seconds
        self._rows: list[dict[str, float]] = []
        self._kept = _kept_at(self._step)

    @property
    def _step(self) -> int:
        return self._iteration * self._trainer.steps_per_iteration

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._start

    def run(self) -> tuple[Any, list[dict[str, float]]]:
        """The last state and each seed's last log row."""
        piece = 1  # iterations until the next look at the clock
        was_random = True
        with stoppable(lambda: self._display.note("stopping")) as stopped:
            while self._iteration < self._total:
                random = self._iteration < self._trainer.random_iterations
                if was_random and not random:
                    piece = 1  # random steps tell nothing of what learning costs
                    self._display.note("compiling")
                rate = self._advance(piece, random)
                piece = max(1, min(2 * piece, int(rate * PIECE_SECONDS)))
                was_random = random
                if self._is_due(self._log_every) and int(self._state.updates):
                    self._log()
                self._display.advance(self._step)
                if self._is_due(self._save_every) or stopped():
                    self._save()
                if stopped():
                    place = f"; saved in {self._run.folder}" if self._run else ""
                    raise Interrupted(f"stopped at step {self._step:,}{place}")
        return self._state, self._rows

    def _is_due(self, every: int) -> bool:
        return self._iteration % every == 0 or self._iteration == self._total

    def _advance(self, piece: int, random: bool) -> float:
        """At most so many iterations, not past a log row or checkpoint; their rate per second."""
        marks = [_next(self._iteration, every) for every in (self._log_every, self._save_every)]
        if random:
            marks.append(self._trainer.random_iterations)
        stop = min(self._iteration + piece, self._total, *marks)
        began = time.monotonic()
        count = stop - self._iteration
        self._state = jax.block_until_ready(self._trainer.advance(self._state, count, random))
        self._iteration = stop
        return count / max(time.monotonic() - began, 1e-9)

    def _log(self) -> None:
        self._state, self._rows = take_metrics(self._trainer, self._state)
        check_finite(self._trainer, self._state, self._rows, self._step, self._kept)
        if self._run:
            with writing(self._run.folder, self._step, self._kept):
                self._run.log(self._step, self._seconds, self._rows)
        self._display.log(self._step, self._rows)

    def _save(self) -> None:
        """Writes a checkpoint; a run without a folder learns the same, so it restarts here, too."""
        check_finite(self._trainer, self._state, [], self._step, self._kept)
        if self._run:
            with writing(self._run.folder, self._step, self._kept):
                policies = self._trainer.policies(self._state)
                self._run.save(self._step, self._seconds, self._state, policies)
            self._kept = f"the checkpoint of step {self._step} in {self._run.folder} is kept"
        self._state = self._trainer.restart(self._state)


def _next(iteration: int, every: int) -> int:
    """The first multiple of `every` after `iteration`."""
    return (iteration // every + 1) * every


def take_metrics(trainer: Trainer, state: Any) -> tuple[Any, list[dict[str, float]]]:
    """The mean metrics of each seed since the last time, and the state with sums cleared."""
    sums = {name: np.atleast_1d(np.asarray(value)) for name, value in state.metrics.items()}
    updates = int(state.updates)
    rows = [
        trainer.mean_row({name: float(value[i]) for name, value in sums.items()}, updates)
        for i in range(len(trainer.seeds))
    ]
    cleared = jax.tree.map(jnp.zeros_like, state.metrics)
    return state.replace(metrics=cleared, updates=jnp.zeros_like(state.updates)), rows


def check_finite(
    trainer: Trainer, state: Any, rows: Sequence[Mapping[str, float]], step: int, kept: str
) -> None:
    """Raises a `NonFiniteError` that names what is not finite any more."""
    moments = [state.normaliser.mean, state.normaliser.variance]  # of all observations
    sound = np.isfinite(np.stack([np.atleast_2d(x) for x in moments])).all((0, 1))
    leaves = jax.tree_util.tree_flatten_with_path(trainer.learned(state))[0]
    broken = [path for path, leaf in leaves if not np.isfinite(leaf).all()]
    metrics = {name for row in rows for name in row if _is_broken(row, name)}
    bad = {
        # Rewards come first: if one is not finite, all that is learned from it is not, either.
        "metrics": sorted(metrics, key=lambda name: (not name.startswith("reward/"), name)),
        "observation entries": [trainer.spec.entry_name(int(i)) for i in np.flatnonzero(~sound)],
        "parameters": [jax.tree_util.keystr(path, simple=True, separator="/") for path in broken],
    }
    listed = [f"{kind} {_shortened(names)}" for kind, names in bad.items() if names]
    if listed:
        raise NonFiniteError(f"not finite any more at step {step}: {'; '.join(listed)}; {kept}")


def _shortened(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown} …" if len(names) > 5 else shown


def _is_broken(row: Mapping[str, float], name: str) -> bool:
    no_return_yet = name.split("/")[0] == "return" and not row.get("episodes")
    return not math.isfinite(row[name]) and not no_return_yet
