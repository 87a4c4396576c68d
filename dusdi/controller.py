"""What solves a task: observations in, actions out. Skills chosen by a policy, or a flat policy."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dusdi.checkpoint import UNREADABLE
from dusdi.errors import CheckpointError, UsageError
from dusdi.policy import Policy, forward_mlp, read_description, read_policy
from dusdi.skills import (
    Skills,
    check_own,
    find_policy,
    kind_in,
    named,
    remember_encoder,
    undescribed,
    whole_number,
)
from dusdi.types import WorldSpec


class Controller(abc.ABC):
    """A frozen solution of a task.

    Attributes:
      spec: the task.
      settings: of the run that learned it, as nested tables.
      seed: which seed of the run this is.
      step: environment steps it was trained for.
      description: all that its policy file says of it.
      folder: the run's folder, if it has one.
      interval: environment steps between two decisions.
    """

    spec: WorldSpec
    settings: dict[str, Any]
    seed: int
    step: int
    description: dict[str, Any]
    folder: Path | None
    interval: int

    def __repr__(self) -> str:
        what = type(self).__name__
        return f"<{what} for {self.spec.name!r}, seed {self.seed}, {self.step:,} steps>"

    @abc.abstractmethod
    def decide(self, observation: np.ndarray) -> np.ndarray:
        """Decisions for observations [n, D], one every `interval` steps: skills, or nothing."""

    @abc.abstractmethod
    def act(self, observation: np.ndarray, decision: np.ndarray) -> np.ndarray:
        """Actions [n, A] for observations [n, D] under a decision."""


class SkillController(Controller):
    """A high-level policy over frozen skills, `skills`."""

    def __init__(self, description: Mapping[str, Any], params: Policy, folder: Path | None = None):
        """`params` are the arrays of a policy file: the policy's, and those of `skills/`."""
        prefix = "skills/"
        own = {name: array for name, array in params.items() if not name.startswith(prefix)}
        inner = {
            name.removeprefix(prefix): array
            for name, array in params.items()
            if name.startswith(prefix)
        }
        try:
            self.spec = WorldSpec.from_json(description["world"])
            self.settings = description["settings"]
            self.seed = whole_number(description, "seed")
            self.step = whole_number(description, "step")
            self.skills = Skills(description["skills"], inner)
            run = {"decision_length": 0, **self.settings["run"]}
            self.interval = whole_number(run, "decision_length") or self.skills.skill_length
        except UNREADABLE as error:
            raise undescribed(error) from error
        self.description = dict(description)
        self.folder = folder
        self._params = own

    def decide(self, observation):
        """The most probable skill, [n, W]."""
        out = forward_mlp(self._params, np.asarray(observation, np.float32), np)
        space = self.skills.space
        pairs = zip(space.groups, space.split(out), strict=True)
        parts = [np.asarray(group.space.mode(part)) for group, part in pairs]
        return space.join(parts, np)

    def act(self, observation, decision):
        return self.skills.act(observation[:, : self.skills.spec.observation_size], decision)

    def check(self) -> None:
        """Raises a `CheckpointError` unless the layers fit the task and the skills."""
        self.skills.check()
        try:
            self.skills.space.check(self.decide(np.zeros((1, self.spec.observation_size))))
        except UNREADABLE as error:
            raise CheckpointError(
                f"the layers of the policy do not fit its task and skills: "
                f"{type(error).__name__}: {error}"
            ) from error


class FlatController(Controller):
    """A policy that acts without skills."""

    interval = 1

    def __init__(self, policy: Skills):
        self.policy = policy
        self.spec = policy.spec
        self.settings = policy.settings
        self.description = policy.description
        self.seed = policy.seed
        self.step = policy.step
        self.folder = policy.folder

    def decide(self, observation):
        return np.zeros((len(observation), 0), np.int32)

    def act(self, observation, decision):
        return self.policy.act(observation, decision)


def load_controller(path: str | Path, seed: int = 0) -> Controller:
    """The solution in the folder of a run on a task, or in one policy file.

    `seed` counts from 0 in a run of several seeds.
    """
    file = find_policy(path, seed)
    with named(file):
        description, arrays = read_policy(file)
        check_own(file, description)
        kind = kind_in(description)
        if kind == "skills":
            raise UsageError(f"{path} holds skills, not the solution of a task")
        if kind == "flat":
            policy = Skills(description, arrays, file.parent)
            policy.check()
            remember_encoder(policy.spec, file.parent)
            return FlatController(policy)
        controller = SkillController(description, arrays, file.parent)
        controller.check()
    remember_encoder(controller.spec, file.parent)
    return controller


def solves_task(path: str | Path) -> bool:
    """Whether a folder (or a policy file) holds a run on a task; no arrays are read."""
    file = find_policy(path)
    with named(file):
        description = read_description(file)
        check_own(file, description)
        return kind_in(description) != "skills"
