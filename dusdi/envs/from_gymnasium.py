"""Any Gymnasium environment with continuous actions as a factored world.

Skills are learned without its reward, which makes it a task of one channel afterwards. Its actions
are scaled to [-1, 1], and the user says which observation entries form which factor.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from dusdi.arrays import ENCODER_NAME
from dusdi.envs.base import HostWorld, VectorWorld
from dusdi.envs.encoding import AnyEncoder, Encoding, find_encoding
from dusdi.envs.factors import Entries, make_factors
from dusdi.envs.gymnasium_vector import (
    GymnasiumVector,
    close_environments,
    make_environment,
    reset_environment,
)
from dusdi.envs.pictures import choose_opengl
from dusdi.errors import UsageError, WorldError
from dusdi.modules import import_module
from dusdi.types import WorldSpec

AnyEnv = str | gymnasium.Env | type[gymnasium.Env] | Callable[..., gymnasium.Env]
PICTURES = {"render_mode": "rgb_array"}
ENCODE_IT = "name what makes numbers of it: encoder=function (--encoder file.py:function)"


def from_gymnasium(
    env: AnyEnv,
    factors: Mapping[str, Entries],
    proprioception: Entries | None = None,
    *,
    encoder: AnyEncoder | None = None,
    name: str | None = None,
    **env_options: Any,
) -> HostWorld:
    """Turns a Gymnasium environment into a world whose factors are parts of its observation.

    Args:
      env: an id, a class or a function that makes an environment; called once for each of them. An
        environment made by `gymnasium.make` is also accepted: others are made in the same way.
      factors: for each factor, the observation entries it consists of: an index, a slice, a range,
        a list, or a text like "0,1" or "2:5"; of a `Dict`, keys like "block" or "hand[0:3]".
      proprioception: entries, or names of `factors`, that no skill component is to control. Entries
        that are named nowhere are treated the same way: the policy observes them, but skills are
        not about them.
      encoder: what makes numbers of observations, for instance of pictures; `factors` are then
        parts of these. A function of the observations of n environments (uint8 [n, rows, columns,
        channels] of pictures, a dict of arrays of a `Dict`) that returns [n, D]; or a text that
        names one, `package.module:function` or `path/to/file.py:function`; or an encoder of
        dusdi's own, its file or its folder, which gives x and y of each thing.
      name: of the world; default: the id or the name of the class or function.
      **env_options: passed on to the environment.
    """
    return make_world(env, factors, proprioception, env_options, encoder=encoder, name=name)


def make_world(
    env: AnyEnv,
    factors: Mapping[str, Entries],
    proprioception: Entries | None,
    options: Mapping[str, Any],
    *,
    encoder: AnyEncoder | None = None,
    name: str | None = None,
) -> GymnasiumWorld:
    """What `from_gymnasium` does, with the environment's options as a dict."""
    choose_opengl()
    encoding = None if encoder is None else find_encoding(encoder)
    make = _maker(env, options, seen=encoding is not None)
    world_name = name or environment_name(env)
    probe = make_environment(world_name, make)
    try:
        action_space = _check_actions(world_name, probe)
        observation_space = _check_observations(world_name, probe, encoding)
        if encoding is not None:
            first = reset_environment(world_name, probe, 0, "the first reset")
            encoding.measure(world_name, observation_space, first)
        registered = probe.spec
        pictures = PICTURES if _takes_render_mode(env, options, probe) else {}
    finally:
        close_environments(world_name, [probe])
    if name is None and isinstance(env, str) and registered is not None:
        world_name = registered.id  # with its version, and without the module that registers it
    length = registered.max_episode_steps if registered is not None else None
    entries = observation_space if encoding is None else encoding.space
    described = options if encoding is None else {**options, "encoder": encoding.option}
    spec = WorldSpec(
        name=world_name,
        options=_describe_options(env, described),
        observation_size=spaces.flatdim(entries),
        action_size=action_space.shape[0],
        factors=make_factors(factors, proprioception, entries),
        episode_length=length or WorldSpec.episode_length,
        channels=("reward",),
    )
    return GymnasiumWorld(spec, make, observation_space, action_space, pictures, encoding)


class GymnasiumWorld(HostWorld):
    """A world of Gymnasium environments; their reward is its one channel."""

    def __init__(
        self,
        spec: WorldSpec,
        make: Callable[..., gymnasium.Env],
        observation_space: spaces.Space,
        action_space: spaces.Box,
        pictures: Mapping[str, Any],
        encoding: Encoding | None = None,
    ):
        """`pictures` are the options with which environments can be rendered."""
        self.spec = spec
        self._make = make
        self._pictures = pictures
        self._parts = (observation_space, action_space, encoding)
        self._entries = observation_space if encoding is None else encoding.space

    def name_factors(
        self, factors: Mapping[str, Entries], proprioception: Entries | None = None
    ) -> None:
        """Divides the observation into other factors, see `from_gymnasium`."""
        found = make_factors(factors, proprioception, self._entries)
        self.spec = dataclasses.replace(self.spec, factors=found)

    def save_parts(self, folder):
        encoding = self._parts[-1]
        if encoding is not None and encoding.trained is not None:
            encoding.trained.save(folder / ENCODER_NAME)

    def vector(self, num_envs: int) -> VectorWorld:
        return GymnasiumVector(self.spec.name, self._make, num_envs, *self._parts)

    def vector_with_pictures(self, num_envs: int) -> VectorWorld:
        make = partial(self._make, **self._pictures)
        return GymnasiumVector(self.spec.name, make, num_envs, *self._parts)


def _maker(
    env: AnyEnv, options: Mapping[str, Any], *, seen: bool = False
) -> Callable[..., gymnasium.Env]:
    """A function that makes environments; if they are `seen`, observations may be pictures."""
    if isinstance(env, str):
        _check_registered(env)
        return partial(gymnasium.make, env, **{"disable_env_checker": True, **options})
    if isinstance(env, gymnasium.Env):
        if env.spec is None:
            raise WorldError(
                f"many environments are needed, and {type(env).__name__} was not made by "
                "gymnasium.make, so no more can be made: pass its class or a function that makes it"
            )
        # Even if this one is shown on a screen, the others are not.
        mode = env.spec.kwargs.get("render_mode")
        shown = {} if mode is None or (seen and mode != "human") else {"render_mode": None}
        options = {"disable_env_checker": True, **shown, **options}
        return partial(gymnasium.make, env.spec, **options)
    if not callable(env):
        raise WorldError(f"pass an id, a class or a function that makes environments, not {env!r}")
    try:
        inspect.signature(env).bind(**options)
    except TypeError as error:
        name = environment_name(env)
        raise WorldError(f"{name} can't be made with these options: {error}") from error
    except ValueError:  # it has no signature
        pass
    return partial(env, **options)


def _check_registered(name: str) -> None:
    """Raises a `UsageError` with the nearest ids if Gymnasium does not know one."""
    package, _, wanted = name.rpartition(":")
    if package:
        import_module(package)
    try:
        gymnasium.spec(wanted)
    except gymnasium.error.Error:
        near = difflib.get_close_matches(wanted, list(gymnasium.registry), n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "is it spelt right?"
        others = f"if another package has it, write package:{wanted}"
        raise UsageError(f"Gymnasium has no {name!r}; {hint} ({others})") from None


def environment_name(env: AnyEnv) -> str:
    """The name of an environment."""
    if isinstance(env, str):
        return env
    if isinstance(env, gymnasium.Env) and env.spec is not None:
        return env.spec.id
    if isinstance(env, partial):
        return environment_name(env.func)
    return str(getattr(env, "__name__", type(env).__name__))


def _check_actions(name: str, env: gymnasium.Env) -> spaces.Box:
    action: Any = getattr(env, "action_space", None)
    if not isinstance(action, spaces.Box) or len(action.shape) != 1:
        wanted = "a flat Box (continuous actions)"
        raise WorldError(f"{name}: the action space must be {wanted}, not {action}")
    if not action.shape[0]:
        raise WorldError(f"{name}: the action space has no entries, so no skill could do anything")
    if not np.issubdtype(action.dtype, np.floating):
        raise WorldError(f"{name}: actions must be real numbers, not {action.dtype}")
    if not action.is_bounded() or not np.isfinite(action.high - action.low).all():
        advice = "wrap it in gymnasium.wrappers.RescaleAction"
        raise WorldError(f"{name}: the action space must be bounded, but is {action}; {advice}")
    return action


def _check_observations(name: str, env: gymnasium.Env, encoding: Encoding | None) -> spaces.Space:
    space: Any = getattr(env, "observation_space", None)
    is_box = isinstance(space, spaces.Box)
    is_dict = isinstance(space, spaces.Dict) and space.is_np_flattenable
    flat = "" if encoding is not None else "flat "
    if not is_dict and not (is_box and (encoding is not None or len(space.shape) == 1)):
        advice = "wrap it in gymnasium.wrappers.FlattenObservation"
        raise WorldError(
            f"{name}: the observation space must be a {flat}Box or a Dict of numbers, not {space}; "
            + (f"{ENCODE_IT}, or {advice}" if is_box else advice)
        )
    if encoding is None and _has_picture(space):
        raise WorldError(f"{name}: the observation space has a picture, {space}; {ENCODE_IT}")
    if not spaces.flatdim(space):
        raise WorldError(f"{name}: the observation space has no entries")
    return space


def _has_picture(space: spaces.Space) -> bool:
    """Whether there is a picture somewhere in an observation."""
    if isinstance(space, spaces.Dict):
        return any(map(_has_picture, space.values()))
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3


def _takes_render_mode(env: AnyEnv, options: Mapping[str, Any], made: gymnasium.Env) -> bool:
    """Whether no render mode was chosen, and the environment can be made with one for images."""
    chosen = "render_mode" in options or made.render_mode is not None
    if chosen or "rgb_array" not in (made.metadata or {}).get("render_modes", ()):
        return False
    if isinstance(env, str | gymnasium.Env):
        return True
    try:
        parameters = inspect.signature(env).parameters.values()
    except ValueError:
        return False
    return any(p.name == "render_mode" or p.kind is p.VAR_KEYWORD for p in parameters)


def _describe_options(env: AnyEnv, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an environment as JSON, so that runs with other options can be told apart."""
    if isinstance(env, gymnasium.Env) and env.spec is not None:
        wrappers = [[wrapper.name, wrapper.kwargs] for wrapper in env.spec.additional_wrappers]
        options = {**env.spec.kwargs, **({"wrappers": wrappers} if wrappers else {}), **options}
    elif isinstance(env, partial):
        arguments = {f"argument {i}": value for i, value in enumerate(env.args)}
        options = {**arguments, **env.keywords, **options}
    return {key: _describe(value) for key, value in sorted(options.items()) if key != "render_mode"}


def _describe(value: Any) -> Any:
    """A value as JSON: itself if it is that, else a text that is the same in every process."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return _describe(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): _describe(part) for key, part in sorted(value.items(), key=str)}
    if isinstance(value, set | frozenset):
        return sorted((_describe(part) for part in value), key=str)
    if isinstance(value, list | tuple | range):
        return [_describe(part) for part in value]
    if isinstance(value, partial):
        return [_describe(part) for part in (value.func, value.args, value.keywords)]
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
