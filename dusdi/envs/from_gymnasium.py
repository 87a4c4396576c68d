"""Any Gymnasium environment with `Box` spaces as a factored world.

Its reward is ignored, its actions are scaled to [-1, 1], and the user says which observation entries form which factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from dusdi.envs.base import HostWorld, VectorWorld
from dusdi.errors import WorldError
from dusdi.types import Factor, WorldSpec

Indices = int | slice | Iterable[int]


def from_gymnasium(
    env: str | type[gymnasium.Env] | Callable[[], gymnasium.Env],
    factors: Mapping[str, Indices],
    proprioception: Iterable[int | str] = (),
    *,
    name: str | None = None,
    processes: bool = False,
    **env_options: Any,
) -> HostWorld:
    """Turns a Gymnasium environment into a world whose factors are parts of its observation.

    Args:
      env: an id, a class or a function that makes the environment; called once for each copy.
      factors: for each factor, the observation entries it consists of (an index, a slice, a range, a list).
      proprioception: entries, or names of `factors`, that no skill component is to control. Entries that are named nowhere
        are treated the same way: the policy sees them, skills are not about them.
      name: what to call the world; default: the id or the name of the class or function.
      processes: run the copies in processes of their own, for slow environments.
      **env_options: passed on to the environment.
    """
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
    )
    return GymnasiumWorld(spec, make, action_space, processes)


def _check_spaces(name: str, env: gymnasium.Env) -> tuple[Box, Box]:
    observation, action = env.observation_space, env.action_space
    if not isinstance(observation, Box) or len(observation.shape) != 1:
        raise WorldError(
            f"{name}: the observation space must be a flat Box, not {observation}; "
            "wrap the environment in gymnasium.wrappers.FlattenObservation"
        )
    if not isinstance(action, Box) or len(action.shape) != 1:
        raise WorldError(f"{name}: the action space must be a flat Box (continuous actions), not {action}")
    if not action.is_bounded():
        raise WorldError(
            f"{name}: the action space must be bounded, but is {action}; wrap it in gymnasium.wrappers.RescaleAction"
        )
    return observation, action


def _make_factors(factors: Mapping[str, Indices], proprioception: Iterable[int | str], size: int) -> tuple[Factor, ...]:
    marked = list(proprioception)
    names, entries = {x for x in marked if isinstance(x, str)}, tuple(int(x) for x in marked if not isinstance(x, str))
    for unknown in names - set(factors):
        raise WorldError(f"proprioception names the factor {unknown!r}, but the factors are {', '.join(factors)}")
    found = [Factor(name, _indices(name, given, size), name not in names) for name, given in factors.items()]
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
        return tuple(int(i) for i in np.atleast_1d(np.asarray(given if isinstance(given, int) else list(given))))
    except (TypeError, ValueError) as error:
        raise WorldError(f"factor {name!r}: {given!r} is not an index, a slice or a list of indices") from error


class GymnasiumWorld(HostWorld):
    """A world around a function that makes Gymnasium environments."""

    def __init__(self, spec: WorldSpec, make: Callable[..., gymnasium.Env], action_space: Box, processes: bool):
        self.spec, self._make, self._action_space, self._processes = spec, make, action_space, processes

    def vector(self, count: int) -> VectorWorld:
        return _GymnasiumVector(self._make, count, self._action_space, self._processes)


class _GymnasiumVector(VectorWorld):
    """Copies of a Gymnasium environment; the picture comes from one of its own, made when first asked for."""

    def __init__(self, make: Callable[..., gymnasium.Env], count: int, action_space: Box, processes: bool):
        makers, mode = [make] * count, AutoresetMode.DISABLED
        # JAX has threads, so processes are spawned afresh rather than forked
        self._envs = (
            AsyncVectorEnv(makers, autoreset_mode=mode, context="spawn")
            if processes
            else SyncVectorEnv(makers, autoreset_mode=mode)
        )
        self._count = count
        self._low = action_space.low.astype(np.float32)
        self._range = (action_space.high - action_space.low).astype(np.float32)

    def reset(self, seed=None, mask=None):
        options = None if mask is None else {"reset_mask": np.asarray(mask, bool)}
        observation, _ = self._envs.reset(seed=seed, options=options)
        return np.array(observation, np.float32)

    def step(self, actions):
        scaled = self._low + self._range * (np.clip(actions, -1, 1) + 1) / 2
        observation, _, terminated, truncated, _ = self._envs.step(scaled)
        return np.array(observation, np.float32), np.array(terminated), np.array(truncated)

    def render(self, index=0):
        frames = self._envs.render()
        if not frames or frames[index] is None:
            raise WorldError('the environment gives no picture; pass render_mode="rgb_array" to from_gymnasium')
        return np.asarray(frames[index], np.uint8)

    def close(self):
        self._envs.close()
