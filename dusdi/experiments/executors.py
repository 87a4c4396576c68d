"""Executors run a graph of jobs: a job starts as soon as its own inputs are done.

`LocalExecutor` uses processes of this machine. Another one (on a cluster, say) needs the method
`run` only, and can take its order from `Schedule`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Protocol

from dusdi.errors import DusdiError
from dusdi.experiments.jobs import Job
from dusdi.parallel import Workers

Work = Callable[[Job], Any]
Outcomes = Generator["Outcome", None, None]


@dataclass(frozen=True)
class Outcome:
    """How a job ended: with a result, or with an error."""

    job: Job
    result: Any = None
    error: Exception | None = None


class Executor(Protocol):
    """Runs jobs in any order that their inputs allow."""

    def run(self, jobs: Sequence[Job], work: Work) -> Outcomes:
        """Yields how each job ended, as soon as it has.

        Inputs that are not among the jobs are taken to be there. If a job fails, those that need
        it are never started; all others are run.
        """


class Schedule:
    """The order of a graph of jobs: which may start now, which have to wait."""

    def __init__(self, jobs: Sequence[Job]):
        self._waiting = {job.key: job for job in jobs}
        self._unfinished = set(self._waiting)

    def start(self) -> Job | None:
        """Returns the first job whose inputs are done, once; None if there is none at present."""
        for job in self._waiting.values():
            if not any(needed.key in self._unfinished for needed in job.inputs):
                return self._waiting.pop(job.key)
        return None

    def finish(self, outcome: Outcome) -> None:
        """Takes note of how a job ended; those that need a failed one wait for ever."""
        if outcome.error is None:
            self._unfinished.discard(outcome.job.key)


class LocalExecutor:
    """Runs jobs one after the other in this process, or several at a time in others.

    With `count` above 1 each job runs in a process with its share of the cores. On Ctrl-C the
    jobs that run are interrupted, save what they have, and no more are started.
    """

    def __init__(self, count: int = 1):
        self.count = count

    def run(self, jobs: Sequence[Job], work: Work) -> Outcomes:
        schedule = Schedule(jobs)
        count = min(self.count, len(jobs))
        if count > 1:
            yield from _side_by_side(schedule, work, count)
        else:
            yield from _one_by_one(schedule, work)


def _one_by_one(schedule: Schedule, work: Work) -> Outcomes:
    while job := schedule.start():
        try:
            outcome = Outcome(job, work(job))
        except Exception as error:
            outcome = Outcome(job, error=error)
        schedule.finish(outcome)
        yield outcome


def _side_by_side(schedule: Schedule, work: Work, count: int) -> Outcomes:
    workers = Workers(count)
    running: dict[Future, Job] = {}
    try:
        while True:
            while len(running) < count and (job := schedule.start()):
                running[workers.submit(work, job)] = job
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                outcome = _outcome(running.pop(future), future)
                schedule.finish(outcome)
                yield outcome
    except BaseException as error:
        said = workers.interrupt(running)
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt("\n".join(filter(None, said))) from None
        raise
    finally:
        workers.close()


def _outcome(job: Job, future: Future) -> Outcome:
    """Returns how a job in a worker ended; interrupts and dead workers are raised."""
    try:
        return Outcome(job, future.result())
    except BrokenProcessPool as error:
        raise DusdiError(
            "a worker ended all of a sudden (was it killed, or short of memory?); "
            "start again to go on"
        ) from error
    except Exception as error:
        return Outcome(job, error=error)
