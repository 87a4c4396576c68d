"""Skills as the actions of an ordinary Gymnasium environment, for anybody's agent.

One step of these environments is L steps of the task under one skill, as many as a high-level
policy would have (`decision_length`). `SkillEnv` is a single one,
`SkillVectorEnv` many that step together: for tasks in JAX, thousands of steps of the task are one
compiled call.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from dusdi.envs.base import World
from dusdi.errors import UsageError
from dusdi.hierarchy import SkillStepper
from dusdi.resolve import resolve_downstream
from dusdi.skills import Skills, load
from dusdi.stepping import Step
from dusdi.tasks import as_task

FRAMES_PER_SECOND = 2


def _prepare(
    task: World | str, skills: Skills | str | Path, decision_length: int | None
) -> tuple[World, Skills, int]:
    """The task, the skills, and how long a decision is; by default what PPO would have."""
    skills = load(skills) if isinstance(skills, str | Path) else skills
    task = as_task(task, skills.spec)
    fields = {} if decision_length is None else {"decision_length": decision_length}
    length = resolve_downstream(task, fields=fields).settings.run.decision_length
    return task, skills, length or skills.skill_length


def _observation_space(task: World) -> gymnasium.spaces.Box:
    return gymnasium.spaces.Box(-np.inf, np.inf, (task.spec.observation_size,), np.float32)


def _info(task: World, step: Step) -> dict[str, np.ndarray]:
    """The mean reward of each channel over the low-level steps."""
    return {f"reward/{name}": step.reward[:, i] for i, name in enumerate(task.spec.channels)}


class SkillEnv(gymnasium.Env):
    """A task whose actions are skills.

    They are `MultiDiscrete` (`Discrete` with one component) if all components are categorical, and
    a `Box` otherwise; see `SkillSpace.to_gymnasium`.

    The reward is the mean of the task's over the L steps that a skill acts.

    Args:
      task: a task, or the name of one.
      skills: skills, or the folder of the run that learned them.
      render_mode: "rgb_array" or None.
      decision_length: L; by default the task's own (in its preset `fast`), if it has one, else what
        the skills were learned with, which 0 stands for.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": FRAMES_PER_SECOND}

    def __init__(
        self,
        task: World | str,
        skills: Skills | str | Path,
        render_mode: str | None = None,
        *,
        decision_length: int | None = None,
    ):
        self.task, self.skills, length = _prepare(task, skills, decision_length)
        if render_mode not in (None, "rgb_array"):
            raise UsageError(f"pictures come as render_mode 'rgb_array', not {render_mode!r}")
        self._stepper = SkillStepper(
            self.task,
            self.skills,
            1,
            decision_length=length,
            autoreset=False,
            pictures=render_mode is not None,
        )
        self.render_mode = render_mode
        self._begun = False
        self.observation_space = _observation_space(self.task)
        self.action_space = self.skills.space.to_gymnasium()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._begun = True
        return self._stepper.reset(int(self.np_random.integers(2**31)))[0], {}

    def step(self, action):
        self._check_begun()
        if np.shape(action) != self.action_space.shape:
            raise UsageError(
                f"an action here has shape {self.action_space.shape}, not {np.shape(action)}; "
                f"it is from {self.action_space}"
            )
        skill = self.skills.space.from_gymnasium(np.asarray(action)[None])
        step = self._stepper.step(skill)
        self._begun = not step.done[0]
        info = {name: float(value[0]) for name, value in _info(self.task, step).items()}
        terminated = bool(step.terminated[0])
        truncated = bool(step.done[0]) and not terminated
        return step.next_observation[0], float(step.reward[0].sum()), terminated, truncated, info

    def _check_begun(self) -> None:
        if not self._begun:
            raise gymnasium.error.ResetNeeded(
                "call reset() before an episode's first step() and after its last"
            )

    def render(self):
        return self._stepper.render() if self.render_mode == "rgb_array" else None

    def close(self):
        self._stepper.close()


class SkillVectorEnv(gymnasium.vector.VectorEnv):
    """Many `SkillEnv`s that step together, and reset in the same step."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}

    def __init__(
        self,
        task: World | str,
        skills: Skills | str | Path,
        num_envs: int = 64,
        *,
        decision_length: int | None = None,
    ):
        self.task, self.skills, length = _prepare(task, skills, decision_length)
        self._stepper = SkillStepper(self.task, self.skills, num_envs, decision_length=length)
        self.num_envs = num_envs
        self.render_mode = None
        self.single_observation_space = _observation_space(self.task)
        self.single_action_space = self.skills.space.to_gymnasium()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        return self._stepper.reset(int(self.np_random.integers(2**31))), {}

    def step(self, actions):
        step = self._stepper.step(self.skills.space.from_gymnasium(actions))
        info: dict[str, Any] = {}
        for name, value in _info(self.task, step).items():
            info[name] = value
            info[f"_{name}"] = np.ones(self.num_envs, bool)
        if step.done.any():
            final = np.full(self.num_envs, None, object)
            for index in np.flatnonzero(step.done):
                final[index] = step.next_observation[index]
            info |= {"final_obs": final, "_final_obs": step.done}
        return (
            step.observation,
            step.reward.sum(-1),
            step.terminated,
            step.done & ~step.terminated,
            info,
        )

    def close_extras(self, **kwargs):
        self._stepper.close()
