"""Disentangled unsupervised skill discovery: skills an agent can recombine.

env = dusdi.make("multi-particle")
skills = dusdi.pretrain(env, preset="fast", seed=0, out="runs/mp")
print(dusdi.evaluate(skills, env).disentanglement)
solution = dusdi.downstream(skills, "multi-particle/food-poison-easy")
"""

from dusdi.config import Config, PPOConfig
from dusdi.controller import Controller, load_controller
from dusdi.downstream import downstream
from dusdi.envs import HostWorld, JaxWorld, VectorWorld, World, from_gymnasium, make
from dusdi.errors import CheckpointError, DusdiError, NonFiniteError, UsageError, WorldError
from dusdi.evaluate import evaluate
from dusdi.policy import Skills, load
from dusdi.pretrain import pretrain
from dusdi.skill_env import SkillEnv, SkillVectorEnv
from dusdi.tasks import HostTask, JaxTask, Task, make_task
from dusdi.types import Factor, WorldSpec
from dusdi.video import render, render_task

__all__ = [
    "CheckpointError", "Config", "Controller", "DusdiError", "Factor", "HostTask", "HostWorld", "JaxTask", "JaxWorld",
    "NonFiniteError", "PPOConfig", "SkillEnv", "SkillVectorEnv", "Skills", "Task", "UsageError", "VectorWorld", "World",
    "WorldError", "WorldSpec", "downstream", "evaluate", "from_gymnasium", "load", "load_controller", "make", "make_task",
    "pretrain", "render", "render_task",
]  # fmt: skip
