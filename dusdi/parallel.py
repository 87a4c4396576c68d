"""Independent work side by side: every worker is a process with cores of its own.

Two runs on a core each take much less than one after the other on two, since small networks leave a second core idle.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

import jax


def cores() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def side_by_side(function: Callable[..., Any], calls: Sequence[tuple], count: int, done: Callable[[int], None]) -> list[Any]:
    """What a function gives for each list of arguments, `count` at a time; `done` is told the index of each that is finished.

    If one fails or Ctrl-C is pressed, those that have not begun don't.
    """
    spawn, ours = multiprocessing.get_context("spawn"), cores()  # a fork would inherit JAX's threads without their state
    shares = spawn.SimpleQueue()
    for worker in range(count):
        shares.put(ours[worker::count] or [ours[worker % len(ours)]])
    cache = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    pool = ProcessPoolExecutor(count, spawn, initializer=_settle, initargs=(shares, cache))
    try:
        futures = [pool.submit(function, *call) for call in calls]
        index = {future: number for number, future in enumerate(futures)}
        for future in as_completed(futures):
            future.result()
            done(index[future])
        return [future.result() for future in futures]
    finally:
        pool.shutdown(cancel_futures=True)


def _settle(shares: Any, compilation_cache: str | None) -> None:
    """In a new worker: takes its cores, before anything counts them, and makes sure that it does not outlive its parent."""
    share = shares.get()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, share)
    jax.config.update("jax_compilation_cache_dir", compilation_cache)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)  # at once, as if killed itself: its files are whole at any time
