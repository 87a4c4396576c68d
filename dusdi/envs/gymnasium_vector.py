"""Gymnasium environments, stepped one after the other and checked against Gymnasium's contract.

Whatever one does wrong becomes a `WorldError` that names the world, the environment, the step and
what was expected; if the environment raised an exception, that is the error's cause.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from dusdi.envs.base import VectorWorld
from dusdi.envs.encoding import Encoding
from dusdi.envs.observations import (
    KINDS,
    as_array,
    described,
    gather,
    in_single_precision,
    raised,
    read_observation,
    stack,
)
from dusdi.envs.pictures import check_drawable, drawing_hint
from dusdi.errors import WorldError

STEP = "observation, reward, terminated, truncated, info"


class GymnasiumState(NamedTuple):
    """All that is known of the state of Gymnasium environments: the observations [n, D]."""

    observation: np.ndarray


class GymnasiumVector(VectorWorld):
    """Many environments; `reset` seeds environment i with the seed plus i.

    Args:
      name: of the world, for messages.
      make: what makes an environment.
      num_envs: how many there are.
      observation_space: a flat `Box` or a `Dict`, which is flattened; any `Box` if it is encoded.
      action_space: a flat `Box`.
      encoding: what observations are encoded by, all at once, instead of being flattened.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], gymnasium.Env],
        num_envs: int,
        observation_space: spaces.Space,
        action_space: spaces.Box,
        encoding: Encoding | None = None,
    ):
        self._name = name
        self._space = observation_space
        self._action_space = action_space
        self._low = action_space.low
        self._high = action_space.high
        self._kinds = KINDS[observation_space.dtype.kind] if observation_space.dtype else ""
        self._encoding = encoding
        size = encoding.size if encoding else spaces.flatdim(observation_space)
        self._observation = np.zeros((num_envs, size), np.float32)
        self._rewards = np.zeros((num_envs, 1), np.float32)
        self._steps = 0
        self._envs: list[gymnasium.Env] = []
        try:
            with _without_mujoco_warnings():
                for index in range(num_envs):
                    self._envs.append(make_environment(name, make, index))
                    self._check_spaces(index)
        except BaseException:
            self.close()
            raise

    def _check_spaces(self, index: int) -> None:
        for kind, expected in (("observation", self._space), ("action", self._action_space)):
            found = getattr(self._envs[index], f"{kind}_space", None)
            if found != expected:
                raise WorldError(
                    f"world {self._name!r}: all environments must be alike, but environment "
                    f"{index} has the {kind} space {found} instead of {expected}"
                )

    def reset(self, seed=None, mask=None):
        count = len(self._envs)
        chosen = list(range(count)) if mask is None else np.flatnonzero(mask).tolist()
        if not chosen:
            return self._observation.copy()
        observations = []
        for index in chosen:
            one = None if seed is None else int(seed) + index
            env, where = self._envs[index], self._reset_of(index)
            observations.append(reset_environment(self._name, env, one, where))
        rows = self._rows(observations, lambda place: self._reset_of(chosen[place]))
        self._observation[chosen] = rows
        return self._observation.copy()

    def step(self, actions):
        self._steps += 1
        results: list[Any] = []
        for env, action in zip(self._envs, self._scale(actions), strict=True):
            try:
                results.append(env.step(action))
            except Exception as error:
                raise raised(self._name, self._step_of(len(results)), error) from error
        observations, rewards, terminated, truncated = self._take_apart(results)
        self._observation = self._rows(observations, self._step_of)
        shape = (len(results),)
        reward = gather(rewards, shape, KINDS["f"], self._number)
        self._rewards = in_single_precision(reward)[:, None]
        is_terminated = gather(terminated, shape, "b", partial(self._boolean, "terminated"))
        is_truncated = gather(truncated, shape, "b", partial(self._boolean, "truncated"))
        return self._observation.copy(), is_terminated, is_truncated

    def _take_apart(self, results: Sequence[Any]) -> tuple[Sequence[Any], ...]:
        """The observations, rewards, `terminated` and `truncated` of all environments."""
        for index, result in enumerate(results):
            if not isinstance(result, tuple | list) or len(result) != 5:
                old = ", as in old Gym" if isinstance(result, tuple) and len(result) == 4 else ""
                problem = f"must return 5 values ({STEP}), not {described(result)}{old}"
                raise self._broken(self._step_of(index), problem)
        return tuple(zip(*results, strict=True))[:4]

    def _scale(self, actions: np.ndarray) -> np.ndarray:
        """Actions in [-1, 1] as the environment wants them."""
        share = (np.clip(actions, -1, 1) + 1) / 2
        scaled = np.clip(self._low + (self._high - self._low) * share, self._low, self._high)
        return scaled.astype(self._low.dtype)

    def state(self):
        return GymnasiumState(self._observation.copy())

    def rewards(self):
        return self._rewards

    def render(self, index=0):
        where = f"render of environment {index} after {self._steps} steps"
        check_drawable(self._envs[index])
        try:
            picture = self._envs[index].render()
        except NotImplementedError:
            picture = None
        except Exception as error:
            raise raised(self._name, where, error, drawing_hint(error)) from error
        if picture is None:
            wanted = 'its environment must know render_mode="rgb_array" and be made with it'
            raise WorldError(f"world {self._name!r} gives no picture; {wanted}")
        found = np.asarray(picture)
        if found.ndim != 3 or found.shape[2] != 3 or found.dtype != np.uint8:
            problem = f"must give an array of uint8 [height, width, 3], not {described(picture)}"
            raise self._broken(where, problem)
        return found

    def close(self):
        close_environments(self._name, self._envs)
        self._envs = []

    def _rows(self, observations: Sequence[Any], where: Callable[[int], str]) -> np.ndarray:
        """Observations as rows [n, D], encoded or flattened; `where` is what messages call each."""
        name, space, count = self._name, self._space, len(observations)
        if self._encoding is not None:
            batch = stack(name, space, observations, where)
            return self._encoding.encode(name, batch, count, f"after {self._steps} steps")

        def read(place: int, observation: Any) -> np.ndarray:
            return read_observation(name, space, observation, where(place))

        shape = (count, self._observation.shape[1])
        return in_single_precision(gather(observations, shape, self._kinds, read))

    def _number(self, index: int, reward: Any) -> float:
        found = as_array(reward)
        if found.shape != () or found.dtype.kind not in KINDS["f"]:
            problem = f"must give a number as reward, not {described(reward)}"
            raise self._broken(self._step_of(index), problem)
        return float(found)

    def _boolean(self, name: str, index: int, value: Any) -> bool:
        found = as_array(value)
        if found.shape != () or found.dtype.kind != "b":
            problem = f"must give True or False for {name!r}, not {described(value)}"
            raise self._broken(self._step_of(index), problem)
        return bool(found)

    def _reset_of(self, index: int) -> str:
        return f"reset of environment {index} after {self._steps} steps"

    def _step_of(self, index: int) -> str:
        return f"step {self._steps} of environment {index}"

    def _broken(self, where: str, problem: str) -> WorldError:
        return WorldError(f"world {self._name!r}: {where} {problem}")


def make_environment(name: str, make: Callable[[], gymnasium.Env], index: int = 0) -> gymnasium.Env:
    """A new environment, or a `WorldError`."""
    where = f"making environment {index}"
    try:
        env = make()
    except Exception as error:
        raise raised(name, where, error, drawing_hint(error)) from error
    if not isinstance(env, gymnasium.Env):
        raise WorldError(f"world {name!r}: {where} must give a gymnasium.Env, not {described(env)}")
    return env


def reset_environment(name: str, env: gymnasium.Env, seed: int | None, where: str) -> Any:
    """The first observation of a new episode, or a `WorldError`."""
    try:
        result = env.reset(seed=seed)
    except Exception as error:
        if _takes_seed(env):
            raise raised(name, where, error) from error
        expected = "it must be reset(self, *, seed=None, options=None)"
        problem = f"takes no seed, as in old Gym; {expected}"
        raise WorldError(f"world {name!r}: {where} {problem}") from error
    if not isinstance(result, tuple | list) or len(result) != 2:
        problem = f"must return (observation, info), not {described(result)}"
        raise WorldError(f"world {name!r}: {where} {problem}")
    return result[0]


@contextmanager
def _without_mujoco_warnings() -> Iterator[None]:
    """Keeps MuJoCo from repeating its warnings of a model for every environment."""
    mujoco = sys.modules.get("mujoco")
    if mujoco is None:
        yield
        return
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda text: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def close_environments(name: str, envs: Sequence[gymnasium.Env]) -> None:
    """Closes environments; if some can't be closed, there is only a warning."""
    failed = []
    for index, env in enumerate(envs):
        try:
            env.close()
        except Exception as error:
            failed.append(str(raised(name, f"close of environment {index}", error)))
    if failed:
        more = f" (and so did {len(failed) - 1} more)" if len(failed) > 1 else ""
        warnings.warn(failed[0] + more, stacklevel=2)


def _takes_seed(env: gymnasium.Env) -> bool:
    """Whether `reset` takes a seed, in the environment and in all that is wrapped around it."""
    parameters = inspect.signature(env.reset).parameters.values()
    takes = any(p.name == "seed" or p.kind is p.VAR_KEYWORD for p in parameters)
    return takes and (not isinstance(env, gymnasium.Wrapper) or _takes_seed(env.env))
