"""Disentangled unsupervised skill discovery: skills an agent can recombine.

env = dusdi.make("multi-particle")
skills = dusdi.pretrain(env, preset="fast", seed=0, out="runs/mp")
print(dusdi.evaluate(skills, env).disentanglement)
solution = dusdi.downstream(skills, "multi-particle/food-poison-easy")
"""

from __future__ import annotations

import importlib
from importlib import metadata
from typing import TYPE_CHECKING, Any

import gymnasium

if TYPE_CHECKING:
    from dusdi.controller import Controller, load_controller
    from dusdi.envs import HostWorld, JaxWorld, VectorWorld, World, from_gymnasium, make
    from dusdi.errors import (
        CheckpointError,
        DusdiError,
        NonFiniteError,
        StorageError,
        UsageError,
        WorldError,
    )
    from dusdi.evaluation import evaluate
    from dusdi.methods import Method
    from dusdi.pretraining import pretrain
    from dusdi.skill_env import SkillEnv, SkillVectorEnv
    from dusdi.skill_space import Component, SkillSpace
    from dusdi.skills import Skills, load
    from dusdi.spaces import Box, Categorical, Sphere
    from dusdi.task_evaluation import evaluate_task
    from dusdi.task_learning import downstream
    from dusdi.tasks import HostTask, JaxTask, Task, make_task
    from dusdi.types import Factor, WorldSpec
    from dusdi.video import render, render_task

#: Where each name lives; it is imported when it is first used, so that `import dusdi` is quick.
_HOMES = {
    "controller": ("Controller", "load_controller"),
    "envs": ("HostWorld", "JaxWorld", "VectorWorld", "World", "from_gymnasium", "make"),
    "errors": (
        "CheckpointError",
        "DusdiError",
        "NonFiniteError",
        "StorageError",
        "UsageError",
        "WorldError",
    ),
    "evaluation": ("evaluate",),
    "methods": ("Method",),
    "pretraining": ("pretrain",),
    "skill_env": ("SkillEnv", "SkillVectorEnv"),
    "skill_space": ("Component", "SkillSpace"),
    "skills": ("Skills", "load"),
    "spaces": ("Box", "Categorical", "Sphere"),
    "task_evaluation": ("evaluate_task",),
    "task_learning": ("downstream",),
    "tasks": ("HostTask", "JaxTask", "Task", "make_task"),
    "types": ("Factor", "WorldSpec"),
    "video": ("render", "render_task"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Box", "Categorical", "CheckpointError", "Component", "Controller", "DusdiError", "Factor",
    "HostTask", "HostWorld", "JaxTask", "JaxWorld", "Method", "NonFiniteError", "SkillEnv",
    "SkillSpace", "SkillVectorEnv", "Skills", "Sphere", "StorageError", "Task", "UsageError",
    "VectorWorld", "World", "WorldError", "WorldSpec", "downstream", "evaluate", "evaluate_task",
    "from_gymnasium", "load", "load_controller", "make", "make_task", "pretrain", "render",
    "render_task",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return metadata.version("dusdi")
    if name not in _HOME:
        raise AttributeError(f"module 'dusdi' has no attribute {name!r}")
    return getattr(importlib.import_module(f"dusdi.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]


#: dusdi's own worlds as Gymnasium environments, by the name of the world.
_GYMNASIUM_IDS = {
    "dusdi/MultiParticle-v0": "multi-particle",
    "dusdi/Gunner2D-v0": "gunner-2d",
    "dusdi/Walker-v0": "walker",
    "dusdi/Household-v0": "household",
}
for _id, _world in _GYMNASIUM_IDS.items():
    if _id not in gymnasium.registry:
        gymnasium.register(_id, entry_point="dusdi.envs:make_gymnasium", kwargs={"world": _world})
