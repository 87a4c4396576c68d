"""Processes with cores of their own, for work that can be done side by side.

Two runs on a core each take much less time than one after the other on two cores, since small
networks leave a second core idle.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Collection
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import suppress
from typing import Any

import jax

from dusdi.messages import PlainWarnings
from dusdi.signals import STOPPING, begin_work, handling, interrupt

#: How programs are compiled and kept, the same in workers as in their parent.
COMPILATION = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


def cores() -> list[int]:
    """Returns the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


class Workers:
    """A pool of processes that share the cores of this one, and show warnings as it does.

    Only this process receives Ctrl-C; `interrupt` passes it on, once. No worker outlives it.
    """

    def __init__(self, count: int):
        spawn = multiprocessing.get_context("spawn")  # a fork would inherit JAX's threads broken
        shares = spawn.SimpleQueue()
        ours = cores()
        for worker in range(count):
            shares.put(ours[worker::count] or [ours[worker % len(ours)]])
        self.count = count
        self._process_ids = spawn.SimpleQueue()
        self._stop = spawn.Event()
        compilation = {name: getattr(jax.config, name) for name in COMPILATION}
        plain = isinstance(warnings.showwarning, PlainWarnings)
        arguments = (shares, self._process_ids, self._stop, compilation, plain)
        self._pool = ProcessPoolExecutor(count, spawn, initializer=_settle, initargs=arguments)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        """Has a worker call a function of a module with arguments that can be pickled."""
        with handling([signal.SIGINT], signal.SIG_IGN):  # a new worker starts deaf to Ctrl-C
            return self._pool.submit(_work, function, arguments)

    def interrupt(self, running: Collection[Future]) -> list[str]:
        """Interrupts the work that runs, as if by Ctrl-C, and waits until all of it has ended.

        Nothing more is started. Returns the messages of the errors that the work ended with.
        """
        self._stop.set()
        with handling(STOPPING, signal.SIG_IGN):  # while the workers save
            while not self._process_ids.empty():
                with suppress(ProcessLookupError):
                    os.kill(self._process_ids.get(), signal.SIGINT)
            ended = wait(running).done
        return [str(future.exception()) for future in ended if future.exception()]

    def close(self) -> None:
        self._pool.shutdown()


# --- in a worker ---

_stop: Any = None  # an event: no more work is to be started
_at_work = False


def _settle(
    shares: Any, process_ids: Any, stop: Any, compilation: dict[str, Any], plain: bool
) -> None:
    """Prepares a worker before JAX and MuJoCo start threads: its cores, signals and parent."""
    global _stop
    _stop = stop
    if plain:
        warnings.showwarning = PlainWarnings()
    share = shares.get()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, share)
    for name, value in compilation.items():
        jax.config.update(name, value)
    if hasattr(os, "setpgrp"):
        os.setpgrp()  # Ctrl-C reaches the parent, which passes it on once
    for number in STOPPING:  # a cluster's scheduler may send it to every process
        signal.signal(number, _interrupt)
    process_ids.put(os.getpid())
    threading.Thread(target=_follow_parent, daemon=True).start()


def _work(function: Callable[..., Any], arguments: tuple) -> Any:
    global _at_work
    _at_work = True
    begin_work()
    try:
        if _stop.is_set():
            raise KeyboardInterrupt
        return function(*arguments)
    finally:
        _at_work = False


def _interrupt(signum: int, frame: Any) -> None:
    """Interrupts the work, once, although both a cluster and the parent may send a signal."""
    global _at_work
    if _at_work:
        _at_work = False
        interrupt(signum, frame)


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)  # at once, as if killed itself: its files are whole at any time
