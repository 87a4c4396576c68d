"""Skills: the frozen result of pretraining, ready to act. NumPy in, NumPy out, no world needed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.arrays import ENCODER_NAME
from dusdi.checkpoint import UNREADABLE, newest_first
from dusdi.errors import CheckpointError, NonFiniteError, UsageError, missing_run
from dusdi.files import remember
from dusdi.policy import Policy, forward, policy_name, read_description, read_policy
from dusdi.skill_space import SkillSpace
from dusdi.types import Array, WorldSpec

KINDS = ("skills", "flat", "hierarchy")  # what a policy file can hold
MOST_SEEDS = 10_000  # of a run; more than that is nothing that a policy file says truly


def whole_number(table: Mapping[str, Any], name: str, least: int = 0) -> int:
    """A whole number in a description, or a `ValueError`."""
    value = table[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} should be a whole number of at least {least}, not {value!r}")
    return value


def undescribed(error: Exception) -> CheckpointError:
    """The error for a policy whose description can't be read."""
    return CheckpointError(f"the policy does not say what it is: {type(error).__name__}: {error}")


class Skills:
    """A skill policy pi(a | s, z) for one world, frozen.

    Attributes:
      spec: the world it was learned in.
      space: its skills; `space.to_gymnasium()` is the action space of a policy that chooses them.
      method: the method that discovered them.
      skill_length: L, steps a skill stays in force.
      seed: which seed of the run this is.
      step: environment steps it was trained for.
      settings: of the run, as nested tables.
      description: all that its policy file says of it.
      folder: the run's folder, if it has one.
      params: the policy's layers, arrays by name; see `dusdi.policy`.
    """

    def __init__(self, description: Mapping[str, Any], params: Policy, folder: Path | None = None):
        try:
            self.spec = WorldSpec.from_json(description["world"])
            self.space = SkillSpace.from_json(description["skill_space"])
            self.settings: dict[str, Any] = description["settings"]
            self.method: str = self.settings["method"]
            self.skill_length = whole_number(self.settings["run"], "skill_length", least=1)
            self.seed = whole_number(description, "seed")
            self.step = whole_number(description, "step")
        except UNREADABLE as error:
            raise undescribed(error) from error
        self.description = dict(description)
        self.params = params
        self.folder = folder

    def mean_action(self, params: Any, observation: jax.Array, skill: jax.Array) -> jax.Array:
        """The policy's mean action [n, A] as a pure JAX function; `act` is for people."""
        return forward(params, observation, self.space.encode(skill), jnp)

    def act(self, observation: Array, skill: Array) -> np.ndarray:
        """The mean action in [-1, 1]: [D] and a skill [W] -> [A], or [B, D], [B, W] -> [B, A]."""
        observation = np.asarray(observation, np.float32)
        skill = self.space.check(skill)
        size = self.spec.observation_size
        if observation.shape[-1:] != (size,) or observation.ndim > 2:
            raise UsageError(
                f"observations of {self.spec.name!r} have {size} entries, [{size}] or [B, {size}]; "
                f"got shape {observation.shape}"
            )
        rows = observation if observation.ndim == 2 else observation[None]
        skill = self._for_rows(skill, len(rows))
        action = forward(self.params, rows, self.space.encode(skill, np), np)
        if not np.isfinite(action).all():
            raise NonFiniteError(
                f"the policy for {self.spec.name!r} gives actions that are not finite: its "
                "parameters are not, or the observation is not"
            )
        return action if observation.ndim == 2 else action[0]

    def _for_rows(self, skill: np.ndarray, count: int) -> np.ndarray:
        """Skills [count, W] of one skill for all observations, or of as many as there are."""
        if skill.ndim < 2:
            skill = skill[None]
        if skill.ndim > 2 or len(skill) not in (1, count):
            raise UsageError(
                f"give one skill, or one for each of {count} observations; got shape {skill.shape}"
            )
        return skill if len(skill) == count else np.repeat(skill, count, axis=0)

    def check(self) -> None:
        """Raises a `CheckpointError` unless the layers fit what the policy says of itself."""
        skill = np.asarray(self.sample_skills(1))
        try:
            action = self.act(np.zeros((1, self.spec.observation_size)), skill)
            if action.shape != (1, self.spec.action_size):
                raise ValueError(f"it has {action.shape[1]} actions, not {self.spec.action_size}")
        except (*UNREADABLE, NonFiniteError) as error:
            raise CheckpointError(
                f"the layers of the policy do not fit its world and skills: "
                f"{type(error).__name__}: {error}"
            ) from error

    def sample_skills(self, count: int, seed: int = 0) -> np.ndarray:
        """Skills drawn from the prior, [count, W]."""
        return np.asarray(self.space.sample(jax.random.PRNGKey(seed), count))

    def __repr__(self) -> str:
        what = f"{self.method} skills ({self.space})" if len(self.space) else "flat policy"
        return f"<{what} for {self.spec.name!r}, seed {self.seed}, {self.step:,} steps>"


def load(path: str | Path, seed: int = 0) -> Skills:
    """The skills of a run's folder, or of one policy file.

    `seed` counts from 0 in a run of several seeds.
    """
    file = find_policy(path, seed)
    with named(file):
        description, arrays = read_policy(file)
        check_own(file, description)
        if kind_in(description) == "hierarchy":
            raise UsageError(
                f"{path} solves a task; name the run that learned the skills it chooses"
            )
        skills = Skills(description, arrays, file.parent)
        skills.check()
    remember_encoder(skills.spec, file.parent)
    return skills


def remember_encoder(spec: WorldSpec, folder: Path) -> None:
    """Notes where the encoder of a run's world is, which the run's folder carries."""
    if "encoder" in spec.options and (folder / ENCODER_NAME).exists():
        remember(spec.options["encoder"], folder / ENCODER_NAME)


def kind_in(description: Mapping[str, Any]) -> str:
    """Which of `KINDS` a policy is, or a `CheckpointError`."""
    kind = description.get("kind")
    if kind not in KINDS:
        raise undescribed(ValueError(f"kind should be one of {', '.join(KINDS)}, not {kind!r}"))
    return kind


def check_own(file: Path, description: Mapping[str, Any]) -> None:
    """Raises a `CheckpointError` if a policy file is not of the run whose folder it is in.

    A file that lies somewhere else, without a config.json beside it, is nobody else's.
    """
    try:
        beside = json.loads((file.parent / "config.json").read_text(encoding="utf-8"))
        run_id = beside["id"]
        first_seed = beside["settings"]["run"]["seed"]
    except (OSError, *UNREADABLE):
        return
    if description.get("id") != run_id:
        raise CheckpointError(
            f"{file} is the policy of another run than the one in {file.parent} (see its "
            "config.json); move it to a folder of its own, and have the run's own policy written "
            "again with --resume"
        )
    in_name = _seed_of(file)
    expected = in_name if in_name is not None else first_seed
    is_usual = in_name is not None or file.name == policy_name(1, 0)
    if is_usual and isinstance(description.get("seed"), int) and description["seed"] != expected:
        raise CheckpointError(
            f"{file} should hold seed {expected} of its run, but holds seed "
            f"{description['seed']}; resume the run with --resume to have it written again"
        )


@contextmanager
def named(file: Path) -> Iterator[None]:
    """Has a `CheckpointError` name the policy file that is read."""
    try:
        yield
    except CheckpointError as error:
        if str(file) in str(error):
            raise
        raise CheckpointError(f"{file}: {error}") from error


def find_policy(path: str | Path, seed: int = 0) -> Path:
    """The policy file of a run's folder for one of its seeds, or the one that is named."""
    path = Path(path)
    if not path.exists():
        raise missing_run(path)
    if path.is_file():
        return path
    single = path / policy_name(1, 0)
    if single.exists():
        planned = [single]
    else:
        found = [file for file in _listed(path) if _seed_of(file) is not None]
        planned = _planned(sorted(found, key=lambda file: _seed_of(file) or 0))
    if not planned:
        raise CheckpointError(f"{path} holds no run: there is no {single.name} in it{_why(path)}")
    if not 0 <= seed < len(planned):
        raise UsageError(f"this run has seeds 0 to {len(planned) - 1}; there is no seed {seed}")
    if not planned[seed].exists():
        raise CheckpointError(
            f"{planned[seed]} is missing; resume its run with --resume to have it written again"
        )
    return planned[seed]


def _planned(found: list[Path]) -> list[Path]:
    """The policy files that a run of several seeds should have, given those that are there.

    Any of them says which seeds the run has, its own among them; without one that can be read, it
    is those.
    """
    for file in found:
        try:
            run = read_description(file)["settings"]["run"]
            first = whole_number(run, "seed")
            count = whole_number(run, "seeds", least=2)
        except (CheckpointError, *UNREADABLE):
            continue
        if count > MOST_SEEDS:
            continue
        planned = [file.with_name(policy_name(count, first + i)) for i in range(count)]
        if file in planned:  # or it came from another run
            return planned
    return found


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise CheckpointError(f"{folder} can't be read: {error.strerror}") from error


def _seed_of(file: Path) -> int | None:
    match = re.fullmatch(r"policy-seed(\d+)\.safetensors", file.name)
    return int(match[1]) if match else None


def _why(folder: Path) -> str:
    if newest_first(folder / "checkpoints"):
        return ", but there are checkpoints; resume its run with --resume to have it written again"
    if (folder / "config.json").exists():
        return ", since it was stopped before its first checkpoint; go on with --resume"
    return ""
