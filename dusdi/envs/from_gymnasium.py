"""Any Gymnasium environment with `Box` spaces as a factored world.

Skills are learned without its reward, which makes it a task of one channel afterwards. Its actions are scaled to [-1, 1], and
the user says which observation entries form which factor.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from dusdi.envs.base import HostWorld, VectorWorld
from dusdi.errors import WorldError
from dusdi.types import Factor, WorldSpec

Indices = int | slice | Iterable[int]


def from_gymnasium(
    env: str | type[gymnasium.Env] | Callable[[], gymnasium.Env],
    factors: Mapping[str, Indices],
    proprioception: Indices | Iterable[int | str] = (),
    *,
    name: str | None = None,
    **env_options: Any,
) -> HostWorld:
    """Turns a Gymnasium environment into a world whose factors are parts of its observation.

    Args:
      env: an id, a class or a function that makes the environment; called once for each copy.
      factors: for each factor, the observation entries it consists of (an index, a slice, a range, a list).
      proprioception: entries, or names of `factors`, that no skill component is to control. Entries that are named nowhere
        are treated the same way: the policy sees them, skills are not about them.
      name: what to call the world; default: the id or the name of the class or function.
      **env_options: passed on to the environment.
    """
    if isinstance(env, gymnasium.Env):
        raise WorldError("from_gymnasium makes many copies: pass the environment's class or a function, not an instance")
    make = partial(gymnasium.make, env, **env_options) if isinstance(env, str) else partial(env, **env_options)
    name = name or (env if isinstance(env, str) else str(getattr(env, "__name__", type(env).__name__)))
    probe = make()
    try:
        observation_space, action_space = _check_spaces(name, probe)
        length = probe.spec.max_episode_steps if probe.spec is not None else None
    finally:
        probe.close()
    size = observation_space.shape[0]
    spec = WorldSpec(
        name=name,
        options={},
        observation_size=size,
        action_size=action_space.shape[0],
        factors=_make_factors(factors, proprioception, size),
        episode_length=length or WorldSpec.episode_length,
        channels=("reward",),
    )
    return GymnasiumWorld(spec, make, action_space)


def _check_spaces(name: str, env: gymnasium.Env) -> tuple[Box, Box]:
    observation, action = env.observation_space, env.action_space
    if not isinstance(observation, Box) or len(observation.shape) != 1:
        raise WorldError(
            f"{name}: the observation space must be a flat Box, not {observation}; "
            "wrap the environment in gymnasium.wrappers.FlattenObservation"
        )
    if not isinstance(action, Box) or len(action.shape) != 1:
        raise WorldError(f"{name}: the action space must be a flat Box (continuous actions), not {action}")
    if not np.issubdtype(action.dtype, np.floating):
        raise WorldError(f"{name}: actions must be real numbers, not {action.dtype}")
    if not action.is_bounded() or not np.isfinite(action.high - action.low).all():
        raise WorldError(
            f"{name}: the action space must be bounded, but is {action}; wrap it in gymnasium.wrappers.RescaleAction"
        )
    return observation, action


def _make_factors(factors: Mapping[str, Indices], proprioception: Indices | Iterable[int | str], size: int) -> tuple[Factor, ...]:
    marked: list[Any] = [proprioception] if isinstance(proprioception, str | slice | int) else list(proprioception)
    names = {x for x in marked if isinstance(x, str)}
    for unknown in sorted(names - set(factors)):
        raise WorldError(f"proprioception names the factor {unknown!r}, but the factors are {', '.join(factors)}")
    found = [Factor(name, _indices(name, given, size), name not in names) for name, given in factors.items()]
    entries = tuple(i for x in marked if not isinstance(x, str) for i in _indices("proprioception", x, size))
    if entries:
        found.append(Factor("proprioception", entries, controlled=False))
    taken = {index for factor in found for index in factor.indices}
    rest = tuple(index for index in range(size) if index not in taken)
    if rest:
        found.append(Factor("unnamed entries", rest, controlled=False))
    return tuple(found)


def _indices(name: str, given: Indices, size: int) -> tuple[int, ...]:
    if isinstance(given, slice):
        return tuple(range(size)[given])
    try:
        entries: list[Any] = list(given) if isinstance(given, Iterable) else [given]
        if any(isinstance(i, bool | np.bool_) for i in entries):
            raise TypeError("a mask")
        return tuple(operator.index(i) for i in entries)
    except TypeError as error:
        raise WorldError(f"factor {name!r}: {given!r} is not an index, a slice or a list of indices") from error


class GymnasiumWorld(HostWorld):
    """A world around a function that makes Gymnasium environments; their reward is its one channel."""

    def __init__(self, spec: WorldSpec, make: Callable[..., gymnasium.Env], action_space: Box):
        self.spec, self._make, self._action_space = spec, make, action_space

    def vector(self, count: int) -> VectorWorld:
        return _GymnasiumVector(self._make, count, self._action_space)


class _GymnasiumVector(VectorWorld):
    """Copies of a Gymnasium environment, stepped one after the other."""

    def __init__(self, make: Callable[..., gymnasium.Env], count: int, action_space: Box):
        self._envs = SyncVectorEnv([make] * count, autoreset_mode=AutoresetMode.DISABLED)
        self._low, self._high = action_space.low, action_space.high
        self._earned = np.zeros((count, 1), np.float32)

    def reset(self, seed=None, mask=None):
        options = None if mask is None else {"reset_mask": np.asarray(mask, bool)}
        observation, _ = self._envs.reset(seed=seed, options=options)
        return np.array(observation, np.float32)

    def step(self, actions):
        share = (np.clip(actions, -1, 1) + 1) / 2
        scaled = np.clip(self._low + (self._high - self._low) * share, self._low, self._high)
        observation, reward, terminated, truncated, _ = self._envs.step(scaled.astype(self._low.dtype))
        self._earned = np.asarray(reward, np.float32)[:, None]
        return np.array(observation, np.float32), np.array(terminated), np.array(truncated)

    def rewards(self):
        return self._earned

    def render(self, index=0):
        try:
            picture = self._envs.envs[index].render()
        except NotImplementedError:
            picture = None
        if picture is None:
            raise WorldError('the environment gives no picture; pass render_mode="rgb_array" to from_gymnasium')
        return np.asarray(picture, np.uint8)

    def close(self):
        self._envs.close()
