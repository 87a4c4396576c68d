"""What solves a task: observations in, actions out. Either skills chosen by a high-level policy, or a flat policy."""

from __future__ import annotations

import abc
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dusdi import checkpoint, normalise
from dusdi.agents.ppo import PPO
from dusdi.config import Config, PPOConfig, from_json
from dusdi.errors import CheckpointError, UsageError
from dusdi.normalise import Normaliser
from dusdi.policy import SkillParams, Skills, load
from dusdi.types import WorldSpec


class Controller(abc.ABC):
    """A frozen solution of a task.

    Attributes:
      spec: the task.
      config: how it was learned.
      seed: which seed of the run this is.
      step: environment steps it was trained for.
      folder: the run's folder, if it has one.
      interval: environment steps between two decisions.
    """

    spec: WorldSpec
    config: Config | PPOConfig
    seed: int
    step: int
    folder: Path | None
    interval: int

    @abc.abstractmethod
    def decide(self, observation: np.ndarray) -> np.ndarray:
        """Decisions for observations [n, D], one every `interval` steps: skills, or nothing at all."""

    @abc.abstractmethod
    def act(self, observation: np.ndarray, decision: np.ndarray) -> np.ndarray:
        """Actions [n, A] for observations [n, D] under a decision."""


class SkillController(Controller):
    """A high-level policy over frozen skills."""

    def __init__(
        self,
        spec: WorldSpec,
        config: PPOConfig,
        skills: Skills,
        params: Any,
        normaliser: Normaliser,
        *,
        seed: int,
        step: int,
        folder: Path | None = None,
    ):
        self.spec, self.config, self.skills = spec, config, skills
        self.seed, self.step, self.folder = seed, step, folder
        self.interval = skills.config.skill_length
        self._params, self._normaliser = params, normaliser
        agent = PPO(spec.observation_size, skills.space, np.ones((1, skills.space.components), bool), config)

        def mode(params, normaliser, observation):
            seen = normalise.apply(normaliser, observation) if config.normalise_observations else observation
            return agent.mode(params, seen)

        self._mode = jax.jit(mode)

    def decide(self, observation):
        """The most probable skill, [n, C] or [n, C, M]."""
        return np.asarray(self._mode(self._params, self._normaliser, np.asarray(observation, np.float32)))

    def act(self, observation, decision):
        return self.skills.act(observation[:, : self.skills.spec.observation_size], decision)


class FlatController(Controller):
    """A policy of its own for each step."""

    interval = 1

    def __init__(self, policy: Skills):
        self.policy = policy
        self.spec, self.config, self.seed = policy.spec, policy.config, policy.seed
        self.step, self.folder = policy.step, policy.folder

    def decide(self, observation):
        return np.zeros((len(observation), 0), np.int32)

    def act(self, observation, decision):
        return self.policy.act(observation, decision)


def load_controller(path: str | Path, seed: int = 0) -> Controller:
    """The solution in a downstream run's folder (or in one checkpoint file); `seed` counts from 0 in a run of several seeds."""
    path, found = Path(path), _find(path)
    if found is None:
        raise CheckpointError(f"{path} holds no run: there is no checkpoint in {path / 'checkpoints'}")
    description = found.description
    if "skills" not in description:
        policy = load(path, seed)
        if policy.config.method != "extrinsic":
            raise UsageError(f"{path} holds skills, not the solution of a task")
        return FlatController(policy)
    config, spec = from_json(description["config"], PPOConfig), WorldSpec.from_json(description["world"])
    if not 0 <= seed < config.seeds:
        raise UsageError(f"this run has seeds 0 to {config.seeds - 1}; there is no seed {seed}")
    learned = checkpoint.subtree(found.arrays, "agent/params"), Normaliser(**checkpoint.subtree(found.arrays, "normaliser"))
    params, normaliser = jax.tree.map(lambda x: x if config.seeds == 1 else x[seed], learned)
    skills = _skills_in(found)
    options: dict[str, Any] = {"seed": config.seed + seed, "step": description["step"], "folder": found.path.parent.parent}
    return SkillController(spec, config, skills, params, normaliser, **options)


def _find(path: str | Path) -> checkpoint.Checkpoint | None:
    path = Path(path)
    return checkpoint.load(path) if path.is_file() else checkpoint.load_newest(path / "checkpoints")


def _skills_in(found: checkpoint.Checkpoint) -> Skills:
    origin = found.description["skills"]
    params = SkillParams(
        checkpoint.subtree(found.arrays, "skills/actor"), Normaliser(**checkpoint.subtree(found.arrays, "skills/normaliser"))
    )
    spec, config = WorldSpec.from_json(origin["world"]), from_json(origin["config"])
    return Skills(spec, config, params.actor, params.normaliser, seed=origin["seed"], step=origin["step"])


def is_downstream(path: str | Path) -> bool:
    """Whether a folder holds a run that solves a task."""
    found = _find(path)
    return found is not None and ("skills" in found.description or found.description["config"].get("method") == "extrinsic")
