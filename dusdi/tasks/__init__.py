"""Downstream tasks, by name: `world/task`. Each world's tasks are one file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dusdi.envs import make
from dusdi.envs.base import World
from dusdi.errors import UsageError, unknown_name
from dusdi.tasks.base import HostTask, JaxTask, Task
from dusdi.tasks.gunner import Shooting
from dusdi.tasks.household import Housekeep, Inspect, LookAround
from dusdi.tasks.particle import LEVELS, FoodPoison, Sequential
from dusdi.tasks.walker import Goal, Run
from dusdi.types import WorldSpec

__all__ = ["CAUSAL_TASKS", "TASKS", "HostTask", "JaxTask", "Task", "as_task", "make_task"]

#: What makes each task in a world.
TASKS: dict[str, Callable[[World], Task]] = {
    **{f"multi-particle/food-poison-{level}": partial(FoodPoison, level) for level in LEVELS},
    **{f"multi-particle/sequential-{level}": partial(Sequential, level) for level in LEVELS},
    "gunner-2d/unlimited": partial(Shooting, False),
    "gunner-2d/limited": partial(Shooting, True),
    "walker/run": Run,
    "walker/goal": Goal,
    "household/look-around": LookAround,
    "household/inspect": Inspect,
    "household/housekeep": Housekeep,
}


#: Tasks in which the paper tries the causal policy gradient.
CAUSAL_TASKS = ("multi-particle/food-poison-medium", "multi-particle/food-poison-hard")


def as_task(task: World | str, spec: WorldSpec | None = None) -> World:
    """A task, or the registered one of that name; a `UsageError` for anything else.

    If it is set in the world that `spec` describes, its world gets the same options.
    """
    if isinstance(task, str):
        same_world = spec is not None and spec.name == task.split("/")[0]
        return make_task(task, **(spec.options if spec is not None and same_world else {}))
    if not isinstance(task, World):
        advice = "dusdi.from_gymnasium(env, factors={...}) makes one of a Gymnasium environment"
        raise UsageError(f"{task!r} is not a task; {advice}")
    return task


def make_task(name: str, /, world: World | None = None, **options: Any) -> Task:
    """The registered task of that name.

    Args:
      name: `world/task`.
      world: the world to set it in, a wrapped one for instance; default: the registered world.
      **options: those of the registered world.
    """
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    if world is not None and options:
        raise UsageError(
            f"options of task {name!r} are for its default world; give them to the world instead"
        )
    return TASKS[name](make(name.split("/")[0], **options) if world is None else world)
