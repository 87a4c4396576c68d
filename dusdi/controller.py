"""What solves a task: observations in, actions out. Either skills chosen by a high-level policy, or a flat policy."""

from __future__ import annotations

import abc
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dusdi import checkpoint, normalise
from dusdi.agents.ppo import PPO
from dusdi.checkpoint import Checkpoint
from dusdi.config import Config, PPOConfig
from dusdi.errors import CheckpointError, UsageError
from dusdi.normalise import Normaliser
from dusdi.policy import Skills, find, folder_of, load, shapes
from dusdi.run import read_settings
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

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} for {self.spec.name!r}, seed {self.seed}, {self.step:,} steps>"
        )

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
        agent = PPO(
            spec.observation_size, skills.space, np.ones((1, skills.space.components), bool), config
        )

        def mode(params, normaliser, observation):
            seen = (
                normalise.apply(normaliser, observation)
                if config.normalise_observations
                else observation
            )
            return agent.mode(params, seen)

        self._mode = jax.jit(mode)

    def decide(self, observation):
        """The most probable skill, [n, C] or [n, C, M]."""
        return np.asarray(
            self._mode(self._params, self._normaliser, np.asarray(observation, np.float32))
        )

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
    found = find(path)
    if "skills" not in found.description:
        policy = load(path, seed)
        if policy.config.method != "extrinsic":
            raise UsageError(f"{path} holds skills, not the solution of a task")
        return FlatController(policy)
    config, spec = read_settings(found, PPOConfig)
    if not 0 <= seed < config.seeds:
        raise UsageError(f"this run has seeds 0 to {config.seeds - 1}; there is no seed {seed}")
    skills = _skills_in(found)
    params, normaliser = _read_policy(found, spec, config, skills)
    params, normaliser = jax.tree.map(
        lambda x: x if config.seeds == 1 else x[seed], (params, normaliser)
    )
    options: dict[str, Any] = {
        "seed": config.seed + seed,
        "step": found.description["step"],
        "folder": folder_of(found),
    }
    return SkillController(spec, config, skills, params, normaliser, **options)


def _read_policy(
    found: Checkpoint, spec: WorldSpec, config: PPOConfig, skills: Skills
) -> tuple[Any, Normaliser]:
    """The high-level policy of all seeds and the moments of what it sees, if they are what the config says."""
    agent = PPO(
        spec.observation_size, skills.space, np.ones((1, skills.space.components), bool), config
    )

    def one(key):
        params = agent.init(key).params
        params.pop("critic")
        return {"agent": {"params": params}, "normaliser": normalise.init(spec.observation_size)}

    keys = jax.random.split(jax.random.PRNGKey(0), config.seeds)
    learned = checkpoint.read(
        found, jax.eval_shape(lambda: one(keys[0]) if config.seeds == 1 else jax.vmap(one)(keys))
    )
    return learned["agent"]["params"], learned["normaliser"]


def _skills_in(found: Checkpoint) -> Skills:
    """The skills that a downstream run chooses from, which it keeps."""
    config, spec = read_settings(found, part="skills")
    params = checkpoint.read(found, {"skills": shapes(spec, config, seeds=1)})["skills"]
    origin = found.description["skills"]
    return Skills(
        spec, config, params.actor, params.normaliser, seed=origin["seed"], step=origin["step"]
    )


def is_downstream(path: str | Path) -> bool:
    """Whether a folder (or a checkpoint) holds a run that solves a task; no arrays are read."""
    path = Path(path)
    files = [path] if path.is_file() else checkpoint.newest_first(path / "checkpoints")
    if not files:
        return False
    try:
        description = checkpoint.read_description(files[0])
    except CheckpointError:
        description = find(path).description
    settings = description.get("config")
    return "skills" in description or (
        isinstance(settings, dict) and settings.get("method") == "extrinsic"
    )
