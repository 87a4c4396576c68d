"""Downstream tasks, by name: `world/task`. Each world's tasks are one file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dusdi.envs import make
from dusdi.envs.base import World
from dusdi.errors import UsageError, unknown_name
from dusdi.tasks import susd
from dusdi.tasks.base import HostTask, JaxTask, Task
from dusdi.tasks.gunner import Shooting, ShootingAnywhere
from dusdi.tasks.household import Housekeep, Inspect, LookAround
from dusdi.tasks.particle import LENGTH, LISTED, FoodPoison, Sequential
from dusdi.tasks.walker import Goal, Run
from dusdi.types import WorldSpec

__all__ = [
    "CAUSAL_TASKS",
    "COMPARED_TASKS",
    "PICTURED_TASKS",
    "SUSD_TASKS",
    "TASKS",
    "HostTask",
    "JaxTask",
    "Task",
    "as_task",
    "default_options",
    "make_task",
]

MakeTask = Callable[[World], Task]


def _named(make: Callable[..., Task], name: str, levels: Mapping[str, Any]) -> dict[str, MakeTask]:
    """What makes the levels of a task, given what each is about."""
    return {
        f"multi-particle/{name}-{level}": partial(make, f"{name}-{level}", about)
        for level, about in levels.items()
    }


#: The paper's thirteen tasks.
_PAPERS: dict[str, MakeTask] = {
    **_named(FoodPoison, "food-poison", LISTED),
    **_named(Sequential, "sequential", LENGTH),
    "gunner-2d/unlimited": partial(Shooting, False),
    "gunner-2d/limited": partial(Shooting, True),
    "walker/run": Run,
    "walker/goal": Goal,
    "household/look-around": LookAround,
    "household/inspect": Inspect,
    "household/housekeep": Housekeep,
}
#: Variants that are nearer to the paper's text.
_VARIANTS: dict[str, MakeTask] = {
    "gunner-2d/unlimited-anywhere": partial(ShootingAnywhere, False),
    "gunner-2d/limited-anywhere": partial(ShootingAnywhere, True),
}
_SUSDS: dict[str, MakeTask] = {
    **{
        f"multi-particle/susd-food-poison-{level}": partial(susd.SusdFoodPoison, level)
        for level in susd.STATIONS
    },
    **{
        f"multi-particle/susd-sequential-{level}": partial(susd.SusdSequential, level)
        for level in susd.SEQUENCES
    },
}

#: What makes each task in a world.
TASKS: dict[str, MakeTask] = {**_PAPERS, **_VARIANTS, **_SUSDS}

#: Tasks that all methods are compared in.
COMPARED_TASKS = (*_PAPERS, *_VARIANTS)

#: Tasks that SUSD's authors compare methods in.
SUSD_TASKS = tuple(_SUSDS)

#: Tasks that the paper also solves from pictures.
PICTURED_TASKS = ("multi-particle/food-poison-medium", "multi-particle/food-poison-hard")

#: Tasks in which the paper tries the causal policy gradient.
CAUSAL_TASKS = ("multi-particle/food-poison-medium", "multi-particle/food-poison-hard")


def default_options(name: str) -> dict[str, Any]:
    """The options of its world that a registered task needs, unless a user says otherwise."""
    return dict(susd.WORLD_OPTIONS) if name in SUSD_TASKS else {}


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
    if world is None:
        world = make(name.split("/")[0], **{**default_options(name), **options})
    return TASKS[name](world)
