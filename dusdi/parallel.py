"""Independent work side by side: every worker is a process with cores of its own.

Two runs on a core each take much less than one after the other on two, since small networks leave a second core idle.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any

import jax

from dusdi.errors import DusdiError
from dusdi.signals import STOPPING, handling

#: How programs are compiled and kept, the same in workers as in their parent.
COMPILATION = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


def cores() -> list[int]:
    """The cores that this process may use."""
    return (
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )


def side_by_side(
    function: Callable[..., Any], calls: Sequence[tuple], count: int, done: Callable[[int], None]
) -> list[Any]:
    """What a function gives for each list of arguments, `count` at a time; `done` is told the index of each that is finished.

    If one fails or Ctrl-C is pressed, the others that run are interrupted as if by Ctrl-C, and no more are begun.
    """
    spawn, ours = (
        multiprocessing.get_context("spawn"),
        cores(),
    )  # a fork would inherit JAX's threads without their state
    shares, workers, stop = spawn.SimpleQueue(), spawn.SimpleQueue(), spawn.Event()
    for worker in range(count):
        shares.put(ours[worker::count] or [ours[worker % len(ours)]])
    compilation = {name: getattr(jax.config, name) for name in COMPILATION}
    pool = ProcessPoolExecutor(
        count, spawn, initializer=_settle, initargs=(shares, workers, stop, compilation)
    )
    waiting, results = iter(enumerate(calls)), [None] * len(calls)
    running: dict[Future, int] = {}
    try:
        while True:
            for index, call in itertools.islice(waiting, count - len(running)):
                with handling(
                    [signal.SIGINT], signal.SIG_IGN
                ):  # so that new workers start deaf to Ctrl-C
                    running[pool.submit(_work, function, call)] = index
            if not running:
                return results
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                index = running.pop(future)
                results[index] = future.result()
                done(index)
    except BaseException as error:
        stop.set()
        with handling(STOPPING, signal.SIG_IGN):  # while the workers save
            while not workers.empty():
                with suppress(ProcessLookupError):
                    os.kill(workers.get(), signal.SIGINT)
            said = [str(future.exception()) for future in wait(running).done if future.exception()]
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt("\n".join(filter(None, said))) from None
        if isinstance(error, BrokenProcessPool):
            raise DusdiError(
                "a worker ended all of a sudden (was it killed, or short of memory?); start again to go on"
            ) from error
        raise
    finally:
        pool.shutdown()


# --- in a worker ---

_stop: Any = None  # an event: no more is to be begun
_at_work = False


def _settle(shares: Any, workers: Any, stop: Any, compilation: dict[str, Any]) -> None:
    """Takes cores of its own, before JAX and MuJoCo start threads on them, and makes sure not to outlive the parent."""
    global _stop
    _stop, share = stop, shares.get()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, share)
    for name, value in compilation.items():
        jax.config.update(name, value)
    if hasattr(os, "setpgrp"):
        os.setpgrp()  # Ctrl-C reaches the parent, which passes it on once
    for number in STOPPING:  # a cluster's scheduler may send it to every process
        signal.signal(number, _interrupt)
    workers.put(os.getpid())
    threading.Thread(target=_follow_parent, daemon=True).start()


def _work(function: Callable[..., Any], arguments: tuple) -> Any:
    global _at_work
    _at_work = True
    try:
        if _stop.is_set():
            raise KeyboardInterrupt
        return function(*arguments)
    finally:
        _at_work = False


def _interrupt(signum: int, frame: Any) -> None:
    """Interrupts what is being done, once: the parent passes on what a cluster may have sent to this process as well."""
    global _at_work
    if _at_work:
        _at_work = False
        raise KeyboardInterrupt


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)  # at once, as if killed itself: its files are whole at any time
