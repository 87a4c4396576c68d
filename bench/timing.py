"""Timing functions in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax


class Result(NamedTuple):
    """What a benchmark measured (units are in the names), and the settings it ran with."""

    numbers: dict[str, float]
    settings: dict[str, Any]


class Times:
    """The seconds of each side in each round, by the wall clock and of the processor."""

    def __init__(self, sides: Sequence[str]):
        self.wall: dict[str, list[float]] = {side: [] for side in sides}
        self.cpu: dict[str, list[float]] = {side: [] for side in sides}

    def seconds(self, side: str) -> float:
        """The median over the rounds."""
        return statistics.median(self.wall[side])

    def ratio(self, side: str, other: str, clock: str = "wall") -> float:
        """The time of a side over that of another in the same round; the median over the rounds."""
        rounds = getattr(self, clock)
        return statistics.median(a / b for a, b in zip(rounds[side], rounds[other], strict=True))


def time_in_turns(sides: dict[str, Callable[[], Any]], rounds: int) -> Times:
    """Times functions in turns, after one round that compiles and warms up."""
    times = Times(list(sides))
    for index in range(rounds + 1):
        for side, run in sides.items():
            wall = time.perf_counter()
            cpu = time.process_time()
            jax.block_until_ready(run())
            if index > 0:
                times.wall[side].append(time.perf_counter() - wall)
                times.cpu[side].append(time.process_time() - cpu)
    return times


class Chained:
    """A function of a state that donates it, as one without arguments.

    Each call goes on from the state that the last call returned, in the attribute `state`.
    """

    def __init__(self, function: Callable[[Any], Any], state: Any):
        self._function = function
        self.state = state

    def __call__(self) -> None:
        self.state = jax.block_until_ready(self._function(self.state))


def repeated(function: Callable[..., Any], count: int, *arguments: Any) -> Callable[[], None]:
    """The function as one without arguments that calls it so many times."""

    def run() -> None:
        for _ in range(count):
            function(*arguments)

    return run
