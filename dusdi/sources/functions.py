"""A reward that a user hands in: a function of a component's value and of what its factor did.

`function(value, before, after)` gets the component's value ([B] for a category, else [B, m]) and
its factor's entries before and after a step ([B, d], in the world's units), all as JAX arrays, and
returns the reward [B]. It is needed while learning only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.errors import UsageError
from dusdi.modules import import_module
from dusdi.skill_space import SkillSpace
from dusdi.types import Batch, WorldSpec

RewardFunction = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]

#: By component and the name that settings store: functions without a name of their own share one.
_HANDED_IN: dict[tuple[str, str], RewardFunction] = {}


def name_function(function: RewardFunction | str, component: str) -> str:
    """The name `package.module:function`, by which `find_function` finds it again."""
    if isinstance(function, str):
        return function
    if not callable(function):
        raise UsageError(f"a reward is a function or package.module:function, not {function!r}")
    kind = function if hasattr(function, "__qualname__") else type(function)
    name = f"{kind.__module__}:{kind.__qualname__}"
    _HANDED_IN[component, name] = function
    return name


def find_function(name: str, component: str) -> RewardFunction:
    """The function of that name: one handed in for a component, or imported from its module."""
    if (component, name) in _HANDED_IN:
        return _HANDED_IN[component, name]
    module, _, attribute = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (AttributeError, UsageError) as error:
        raise UsageError(
            f"the reward function {name!r} can't be imported ({error}); name it as "
            "package.module:function or path/to/file.py:function, or hand it in again "
            "(rewards={...} in Python)"
        ) from error
    if not callable(found):
        raise UsageError(f"{name!r} is not a function")
    return found


class FunctionSource:
    """Pays components by functions of their values and factors."""

    def __init__(
        self, spec: WorldSpec, space: SkillSpace, targets: Sequence[int], names: Sequence[str]
    ):
        """`names` are those of the functions, one for each target."""
        self.targets = tuple(targets)
        self._space = space
        self._functions = [
            find_function(name, space.names[target])
            for name, target in zip(names, self.targets, strict=True)
        ]
        self._indices = [np.array(spec.controlled[target].indices) for target in targets]
        for target, function in zip(self.targets, self._functions, strict=True):
            self._check(target, function)

    def _check(self, target: int, function: RewardFunction) -> None:
        """Raises a `UsageError` unless the function gives each row a number of its own."""
        width = len(self._indices[self.targets.index(target)])
        # More rows than a value or a factor has entries, so that axes are not confused.
        rows = 1 + max(width, self._space.width)
        keys = jax.random.split(jax.random.key(0), 3)
        value = self._value(self._space.sample(keys[0], rows), target)
        arguments = (value, *(jax.random.normal(key, (rows, width)) for key in keys[1:]))
        what = f"the reward function of component {self._space.names[target]!r}"
        try:
            result = jax.eval_shape(function, *arguments)
        except Exception as error:
            raise UsageError(f"{what} fails: {type(error).__name__}: {error}") from error
        if getattr(result, "shape", None) != (rows,):
            shape = getattr(result, "shape", type(result).__name__)
            raise UsageError(
                f"{what} must give one number per row, [{rows}] for {rows} rows; it gave {shape}"
            )
        if _mixes_rows(function, arguments):
            raise UsageError(
                f"{what} mixes rows: what it gives for one row depends on the others. Its value is "
                f"{value.shape} and the factor's entries are {(rows, width)}; a single entry is "
                "after[:, 0]"
            )

    def _value(self, skill: jax.Array, target: int) -> jax.Array:
        return self._space.spaces[target].plain(skill[:, self._space.columns[target]])

    def init(self, key):
        del key
        return ()

    def update(self, state, key, batch, step):
        del key, batch, step
        return state, {}

    def reward(self, state, batch: Batch, step):
        """The reward of a batch, [B, targets]."""
        del state, step
        columns = []
        for target, function, indices in zip(
            self.targets, self._functions, self._indices, strict=True
        ):
            before = batch.raw.observation[:, indices]
            after = batch.raw.next_observation[:, indices]
            columns.append(function(self._value(batch.skill, target), before, after))
        return jnp.stack(columns, axis=1).astype(jnp.float32)


def _mixes_rows(function: RewardFunction, arguments: Sequence[jax.Array]) -> bool:
    """Whether the reward of the first row changes if the other rows are left out."""
    together = function(*arguments)[:1]
    alone = function(*(argument[:1] for argument in arguments))
    return not np.allclose(together, alone, rtol=1e-3, atol=1e-5, equal_nan=True)
