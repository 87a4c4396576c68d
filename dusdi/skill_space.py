"""Skills: a skill z is a tuple of components, each with a name and a space of its own.

A skill is stored as one row of W numbers, component after component: a category is one number, a
point in a box or on a sphere is as many numbers as it has dimensions. Rows are int32 if all
components are categorical and float32 otherwise.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from dusdi.errors import UsageError
from dusdi.spaces import Space, parse_space, space_text
from dusdi.types import Array, OneHot, at_chance


@dataclasses.dataclass(frozen=True)
class Component:
    """One component of a skill; its name is usually that of the factor it is to control."""

    name: str
    space: Space


class ComponentGroup(NamedTuple):
    """Components of equal spaces, which are computed together.

    Attributes:
      space: the space of each.
      members: their places among all components, [n].
      columns: where their numbers are in a stored skill, [n, width].
      inputs: where their network inputs are in an encoded skill, [n, size].
    """

    space: Space
    members: np.ndarray
    columns: np.ndarray
    inputs: np.ndarray


@dataclasses.dataclass(frozen=True)
class SkillSpace:
    """The skills of a method: a tuple of components. Without any, it is that of a flat policy."""

    components: tuple[Component, ...]

    def __len__(self) -> int:
        return len(self.components)

    def __str__(self) -> str:
        spaces = [space_text(component.space) for component in self.components]
        if len(set(spaces)) == 1 and len(spaces) > 1:
            return f"{len(spaces)} x {spaces[0]}"
        return ", ".join(spaces) or "none"

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(component.name for component in self.components)

    @functools.cached_property
    def spaces(self) -> tuple[Space, ...]:
        return tuple(component.space for component in self.components)

    @functools.cached_property
    def width(self) -> int:
        """W, the numbers that store a skill."""
        return sum(space.width for space in self.spaces)

    @functools.cached_property
    def size(self) -> int:
        """Z, the network inputs of a skill."""
        return sum(space.size for space in self.spaces)

    @functools.cached_property
    def _all_categorical(self) -> bool:
        return all(space.categories is not None for space in self.spaces)

    @functools.cached_property
    def dtype(self) -> Any:
        """Of stored skills."""
        return np.int32 if self._all_categorical else np.float32

    @functools.cached_property
    def columns(self) -> tuple[slice, ...]:
        """Where the numbers of each component are in a stored skill."""
        return _consecutive(space.width for space in self.spaces)

    def part(self, members: Sequence[int]) -> SkillSpace:
        """Some of the components, as a skill of their own."""
        return SkillSpace(tuple(self.components[i] for i in members))

    def places(self, members: Sequence[int]) -> np.ndarray:
        """Where the numbers of some components are in a stored skill."""
        return np.concatenate([np.arange(self.width)[self.columns[i]] for i in members])

    @functools.cached_property
    def inputs(self) -> tuple[slice, ...]:
        """Where the network inputs of each component are in an encoded skill."""
        return _consecutive(space.size for space in self.spaces)

    @functools.cached_property
    def groups(self) -> tuple[ComponentGroup, ...]:
        """The components, those of equal spaces together."""
        return tuple(self._group(space) for space in dict.fromkeys(self.spaces))

    def _group(self, space: Space) -> ComponentGroup:
        members = [i for i, other in enumerate(self.spaces) if other == space]
        columns = [np.arange(self.columns[i].start, self.columns[i].stop) for i in members]
        inputs = [np.arange(self.inputs[i].start, self.inputs[i].stop) for i in members]
        return ComponentGroup(space, np.array(members), np.stack(columns), np.stack(inputs))

    def gather(self, skill: Array, group: ComponentGroup) -> Any:
        """The values of a group's components in skills [..., W], [..., n, width]."""
        if len(self.groups) == 1:
            return skill.reshape(*skill.shape[:-1], len(self), -1)
        return skill[..., group.columns]

    def split(self, encoded: Array) -> list[Any]:
        """The entries of each group's components in encoded skills [..., Z], [..., n, size]."""
        if len(self.groups) == 1:
            return [encoded.reshape(*encoded.shape[:-1], len(self), -1)]
        return [encoded[..., group.inputs] for group in self.groups]

    def join(self, parts: Sequence[Any], xp: Any = jnp) -> Any:
        """Skills [..., W] of the values of each group, [..., n, width]."""
        flat = [part.reshape(*part.shape[:-2], -1).astype(self.dtype) for part in parts]
        joined = flat[0] if len(flat) == 1 else xp.concatenate(flat, axis=-1)
        return _reordered(joined, self._orders[0])

    def arrange(self, parts: Sequence[jax.Array]) -> jax.Array:
        """One number for each component, [..., C], of each group's, [..., n]."""
        joined = parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=-1)
        return _reordered(joined, self._orders[2])

    @functools.cached_property
    def _orders(self) -> tuple[np.ndarray | None, ...]:
        """How stored numbers, network inputs and members of all groups are put in order."""
        return (
            _order([group.columns for group in self.groups]),
            _order([group.inputs for group in self.groups]),
            _order([group.members for group in self.groups]),
        )

    def sample(self, key: jax.Array, count: int) -> jax.Array:
        """Skills drawn from the prior, [count, W]."""
        if not self.components:
            return jnp.zeros((count, 0), self.dtype)
        keys = [key] if len(self.groups) == 1 else jax.random.split(key, len(self.groups))
        parts = [
            group.space.sample(key, (count, len(group.members)))
            for group, key in zip(self.groups, keys, strict=True)
        ]
        return self.join(parts)

    def encode(self, skill: Array, xp: Any = jnp) -> Any:
        """Network inputs [..., Z] of skills [..., W]."""
        skill = xp.asarray(skill)
        if not self.components:
            return xp.zeros((*skill.shape[:-1], 0), np.float32)
        parts = []
        for group in self.groups:
            code = group.space.encode(self.gather(skill, group), xp)
            parts.append(code.reshape(*code.shape[:-2], -1))
        joined = parts[0] if len(parts) == 1 else xp.concatenate(parts, axis=-1)
        return _reordered(joined, self._orders[1])

    def network_input(self, skill: Array) -> jax.Array | OneHot:
        """What networks see of skills [B, W]; a single category is looked up."""
        if len(self) == 1 and self._all_categorical:
            return OneHot(skill[:, 0], self.size)
        return self.encode(skill)

    @functools.cached_property
    def owner(self) -> np.ndarray:
        """The component that each network input belongs to, [Z]."""
        sizes = [space.size for space in self.spaces]
        return np.repeat(np.arange(len(sizes)), sizes)

    def check(self, skill: Any) -> np.ndarray:
        """Skills [..., W] in their type, or a `UsageError` that says what is wrong with them."""
        try:
            array = np.asarray(skill, np.float64 if self.dtype == np.float32 else None)
        except (TypeError, ValueError):
            array = np.zeros(0)
        if array.ndim == 0:
            array = array[None]
        if array.shape[-1:] != (self.width,) or not np.issubdtype(array.dtype, np.number):
            raise UsageError(f"a skill here has {self.describe()}; got {_shown(skill)}")
        if not all(group.space.check(self.gather(array, group)) for group in self.groups):
            self._explain(skill, array)
        return array.astype(self.dtype)

    def _explain(self, skill: Any, array: np.ndarray) -> None:
        """Raises a `UsageError` that names the component whose value is wrong."""
        for component, columns in zip(self.components, self.columns, strict=True):
            if not component.space.check(array[..., columns]):
                raise UsageError(
                    f"component {component.name!r} of a skill takes {component.space.describe()}; "
                    f"got {_shown(skill)}"
                )

    def describe(self) -> str:
        """What a skill consists of, in words."""
        if len(self.groups) == 1 and len(self) > 1:
            return f"{len(self)} components, each {self.spaces[0].describe()}"
        named = [f"{part.name!r}: {part.space.describe()}" for part in self.components]
        return "; ".join(named) or "no components"

    # --- Gymnasium ---

    def to_gymnasium(self) -> gymnasium.Space:
        """The action space of a policy that chooses skills.

        Categories are a `MultiDiscrete` (a `Discrete` if there is one component). As soon as one
        component is continuous, all are a `Box`, in which a category is one score per value.
        """
        if not self._all_categorical:
            return gymnasium.spaces.Box(-1.0, 1.0, (self.size,), np.float32)
        values = [int(space.size) for space in self.spaces]
        if len(values) == 1:
            return gymnasium.spaces.Discrete(values[0])
        return gymnasium.spaces.MultiDiscrete(values)

    def from_gymnasium(self, action: Any) -> np.ndarray:
        """Skills [..., W] for actions in that space; the inverse of `to_gymnasium`."""
        if self._all_categorical:
            array = np.asarray(action)
            return self.check(array[..., None] if len(self) == 1 else array)
        code = np.asarray(action, np.float32)
        if code.shape[-1:] != (self.size,) or not np.isfinite(code).all():
            raise UsageError(f"an action here is {self.size} finite numbers; got {_shown(action)}")
        parts = [group.space.decode(code[..., group.inputs]) for group in self.groups]
        return self.join(parts, np)

    # --- JSON ---

    def to_json(self) -> list[dict[str, str]]:
        return [{"name": part.name, "space": space_text(part.space)} for part in self.components]

    @classmethod
    def from_json(cls, data: Sequence[Mapping[str, str]]) -> SkillSpace:
        return cls(tuple(Component(part["name"], parse_space(part["space"])) for part in data))


def merged(spaces: Sequence[Space], most: int) -> Space:
    """One space for all combinations of values, which must be of one kind; at most `most`."""
    kinds = sorted({space.kind for space in spaces})
    if len(kinds) > 1:
        raise UsageError(
            "this method merges all components into one, so their spaces must be of one kind, not "
            f"{' and '.join(kinds)}; choose the same for all of them (component)"
        )
    return spaces[0].merged(spaces[1:], most)


def idle_components(space: SkillSpace, rows: Sequence[Mapping[str, float]]) -> dict[str, str]:
    """The components that discriminators can hardly tell, with what log rows say of them.

    There is a row for each seed.
    """
    idle = {}
    for component in space.components:
        metric = f"{component.space.score_name}/{component.name}"
        scores = [row[metric] for row in rows if metric in row]
        chance = component.space.chance
        if scores and at_chance(float(np.mean(scores)), chance):
            name = component.space.score_name.replace("_", " ")
            idle[component.name] = f"{name} {np.mean(scores):.2f}, chance {chance:.2f}"
    return idle


def _order(places: Sequence[np.ndarray]) -> np.ndarray | None:
    """What puts entries at these places in order; None if they are already."""
    joined = np.concatenate([part.ravel() for part in places]) if places else np.zeros(0, int)
    order = np.argsort(joined)
    return None if (order == np.arange(len(order))).all() else order


def _reordered(array: Any, order: np.ndarray | None) -> Any:
    return array if order is None else array[..., order]


def _consecutive(lengths: Any) -> tuple[slice, ...]:
    """Slices of such lengths, one after the other."""
    ends = np.cumsum([0, *lengths])
    return tuple(slice(int(a), int(b)) for a, b in itertools.pairwise(ends))


def _shown(given: Any) -> str:
    """What a user gave, as a plain list if it is an array."""
    return repr(given.tolist() if isinstance(given, np.ndarray) else given)
