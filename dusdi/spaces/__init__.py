"""The spaces that a component of a skill can have: categories, a box, a sphere.

A `Space` says all there is to say about one kind of component: how its values are drawn, stored and
shown to networks, what a discriminator q(z^i|s) and a policy over it look like, and how users write
it. Nothing outside this folder asks which kind a component is, except that `SkillSpace` asks
whether all are categories; anyone may use the number of categories.
"""

from __future__ import annotations

from collections.abc import Callable

from dusdi.errors import UsageError
from dusdi.spaces.base import Grouping, LogRatio, Space
from dusdi.spaces.categorical import Categorical
from dusdi.spaces.continuous import Box, Sphere, unit

__all__ = [
    "Box",
    "Categorical",
    "Grouping",
    "LogRatio",
    "Space",
    "Sphere",
    "parse_space",
    "space_text",
    "unit",
]

SPACES: dict[str, Callable[[int], Space]] = {
    space.kind: space for space in (Categorical, Box, Sphere)
}


def parse_space(text: str | Space) -> Space:
    """A space as users write it: `categorical:5`, `box:2` or `sphere:3`."""
    if isinstance(text, Space):
        return text
    kind, _, number = str(text).partition(":")
    try:
        make = SPACES[kind.strip()]
        size = int(number)
    except (KeyError, ValueError):
        forms = "categorical:K, box:M or sphere:M, for instance categorical:5"
        raise UsageError(f"a component's space is {forms}; got {text!r}") from None
    return make(size)


def space_text(space: Space) -> str:
    """What `parse_space` reads."""
    return f"{space.kind}:{space.size}"
