"""Skills: the frozen result of pretraining, ready to act. NumPy in, NumPy out, no world needed."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
from flax import struct

from dusdi import checkpoint, normalise
from dusdi.checkpoint import Checkpoint
from dusdi.config import Config
from dusdi.errors import CheckpointError, NonFiniteError, UsageError
from dusdi.learner import Learner, TrainState
from dusdi.normalise import Normaliser
from dusdi.run import read_settings
from dusdi.skills import SkillSpace
from dusdi.types import Array, WorldSpec


class SkillParams(struct.PyTreeNode):
    """What was learned: the actor's parameters, and how observations are scaled for it."""

    actor: dict
    normaliser: Normaliser


class Skills:
    """A skill policy pi(a | s, z) for one world, frozen.

    Attributes:
      spec: the world it was learned in.
      config: how it was learned.
      space: its skills; `space.as_gymnasium()` is the action space of a policy that chooses them.
      seed: which seed of the run this is.
      step: environment steps it was trained for.
      folder: the run's folder, if it has one.
      params: what was learned, a pytree.
    """

    def __init__(
        self,
        spec: WorldSpec,
        config: Config,
        actor: dict,
        normaliser: Normaliser,
        *,
        seed: int,
        step: int,
        folder: Path | None = None,
    ):
        learner = Learner(spec, config)
        self.spec, self.config, self.seed, self.step, self.folder = spec, config, seed, step, folder
        self.space: SkillSpace = learner.objective.skill_space
        self.params = SkillParams(actor, normaliser)
        self._learner = learner
        self._mean_action = jax.jit(self.mean_action)

    def mean_action(
        self, params: SkillParams, observation: jax.Array, skill: jax.Array
    ) -> jax.Array:
        """The policy's mean action [n, A] as a pure function, for compiled programs; `act` is for people."""
        seen = self._learner.normalised(params.normaliser, observation)
        return self._learner.agent.mean_action(params.actor, seen, skill)

    def act(self, observation: Array, skill: Array) -> np.ndarray:
        """The policy's mean action in [-1, 1]: [D] and one skill -> [A], or [B, D] and [B] skills -> [B, A]."""
        observation, skill = np.asarray(observation, np.float32), self.space.check(skill)
        if observation.shape[-1:] != (self.spec.observation_size,):
            raise UsageError(
                f"observations of {self.spec.name!r} have {self.spec.observation_size} entries; got shape {observation.shape}"
            )
        rows = np.atleast_2d(observation)
        skills = np.broadcast_to(skill, (len(rows), *skill.shape[-len(self.skill_shape) :]))
        action = np.asarray(self._mean_action(self.params, rows, skills))
        if not np.isfinite(action).all():
            raise NonFiniteError(
                f"the policy for {self.spec.name!r} gives actions that are not finite: its parameters are not, or the "
                f"observation is far outside of what it was trained on (largest entry {np.abs(rows).max():g})"
            )
        return action if observation.ndim == 2 else action[0]

    def __repr__(self) -> str:
        what = (
            f"{self.config.method} skills {self.space}" if self.space.components else "flat policy"
        )
        return f"<{what} for {self.spec.name!r}, seed {self.seed}, {self.step:,} steps>"

    @property
    def skill_shape(self) -> tuple[int, ...]:
        """The shape of one skill: (C,) or (C, M)."""
        return jax.eval_shape(lambda: self.space.sample(jax.random.PRNGKey(0), 1)).shape[1:]

    def sample_skills(self, count: int, seed: int = 0) -> np.ndarray:
        """Skills drawn from the prior."""
        return np.asarray(self.space.sample(jax.random.PRNGKey(seed), count))


def from_state(
    spec: WorldSpec,
    config: Config,
    state: TrainState,
    *,
    index: int = 0,
    folder: Path | None = None,
) -> Skills:
    """The skills in a train state; `index` picks one of several seeds."""
    step = int(state.iteration) * config.num_envs
    return _pick_seed(spec, config, state.agent.actor, state.normaliser, index, step, folder)


def load(path: str | Path, seed: int = 0) -> Skills:
    """The skills of a run's folder (or of one checkpoint file); `seed` counts from 0 in a run of several seeds."""
    found = find(path)
    if "skills" in found.description:
        raise UsageError(
            f"{path} solves a task; name the run that learned the skills it chooses from"
        )
    config, spec = read_settings(found)
    like = shapes(spec, config, config.seeds)
    learned = checkpoint.read(
        found, {"agent": {"actor": like.actor}, "normaliser": like.normaliser}
    )
    actor, normaliser = learned["agent"]["actor"], learned["normaliser"]
    return _pick_seed(
        spec, config, actor, normaliser, seed, found.description["step"], folder_of(found)
    )


def find(path: str | Path) -> Checkpoint:
    """The newest sound checkpoint of a run's folder, or the one that is named; a `CheckpointError` if there is none."""
    path = Path(path)
    found = (
        checkpoint.load(path) if path.is_file() else checkpoint.load_newest(path / "checkpoints")
    )
    if found is None:
        raise CheckpointError(
            f"{path} holds no run: there is no checkpoint in {path / 'checkpoints'}"
        )
    return found


def folder_of(found: Checkpoint) -> Path:
    """The folder of the run that a checkpoint is of."""
    return found.path.parent.parent


def shapes(spec: WorldSpec, config: Config, seeds: int) -> SkillParams:
    """The shapes of what a run learns, with a row for each seed if there are several; no memory is used."""

    def one(key):
        return SkillParams(
            Learner(spec, config).agent.init(key).actor, normalise.init(spec.observation_size)
        )

    keys = jax.random.split(jax.random.PRNGKey(0), seeds)
    return jax.eval_shape(lambda: one(keys[0]) if seeds == 1 else jax.vmap(one)(keys))


def _pick_seed(spec, config, actor, normaliser, index, step, folder) -> Skills:
    if not 0 <= index < config.seeds:
        raise UsageError(f"this run has seeds 0 to {config.seeds - 1}; there is no seed {index}")
    if config.seeds > 1:
        actor, normaliser = jax.tree.map(lambda x: x[index], (actor, normaliser))
    return Skills(
        spec, config, actor, normaliser, seed=config.seed + index, step=step, folder=folder
    )
