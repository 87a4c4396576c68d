"""Disentangled unsupervised skill discovery: skills an agent can recombine.

env = dusdi.make("multi-particle")
skills = dusdi.pretrain(env, preset="fast", seed=0, out="runs/mp")
print(dusdi.evaluate(skills, env).disentanglement)
"""

from dusdi.config import Config
from dusdi.envs import HostWorld, JaxWorld, VectorWorld, World, from_gymnasium, make
from dusdi.errors import CheckpointError, DusdiError, NonFiniteError, UsageError, WorldError
from dusdi.evaluate import evaluate
from dusdi.policy import Skills, load
from dusdi.pretrain import pretrain
from dusdi.types import Factor, WorldSpec
from dusdi.video import render

__all__ = [
    "CheckpointError", "Config", "DusdiError", "Factor", "HostWorld", "JaxWorld", "NonFiniteError", "Skills",
    "UsageError", "VectorWorld", "World", "WorldError", "WorldSpec", "evaluate", "from_gymnasium", "load", "make",
    "pretrain", "render",
]  # fmt: skip
