"""Worlds that are seen through pictures: what they show, and what an encoder makes of it."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image, ImageDraw

from dusdi.arrays import ENCODER_NAME
from dusdi.encoder import Encoder, load_encoder
from dusdi.envs.base import EnvState, JaxWorld, World
from dusdi.envs.wrapper import WorldWrapper
from dusdi.errors import UsageError, unknown_name
from dusdi.raster import Discs

ENLARGED = 8  # times that small pictures are shown larger


class PicturedWorld(JaxWorld):
    """A JAX world whose state shows in a picture of discs.

    Attributes:
      discs: what they look like.
    """

    discs: Discs

    @abc.abstractmethod
    def places(self, state: EnvState) -> jax.Array:
        """Where the discs are, [m, 2]."""

    @abc.abstractmethod
    def observe_places(self, places: jax.Array, before: jax.Array) -> jax.Array:
        """The observation [D] of discs that are at `places`, and were at others a step before."""

    def picture(self, state: EnvState) -> jax.Array:
        """What a camera sees, uint8 [rows, columns, 3]."""
        return self.discs.draw(self.places(state))


class EncodedState(NamedTuple):
    """The state of an encoded world.

    Attributes:
      inner: the state of the world inside.
      places: where the encoder sees the discs, [m, 2].
      observation: what follows from these and those of the step before, [D].
    """

    inner: EnvState
    places: jax.Array
    observation: jax.Array


class Encoded(WorldWrapper):
    """A pictured world, of which only the picture is seen, through an encoder.

    Each step draws and encodes one picture. Velocities are differences of two of them; they are 0
    when an episode begins. Observations have the entries and factors of the world inside.
    """

    view = "world"

    def __init__(self, world: World, encoder: Encoder):
        if not isinstance(world, PicturedWorld):
            raise UsageError(
                f"{world.spec.name!r} shows no pictures that an encoder could see; worlds that do "
                "are subclasses of PicturedWorld"
            )
        encoder.check_fit(world.spec.name, world.discs)
        super().__init__(world)
        self.world: PicturedWorld = world
        options = {**world.spec.options, "encoder": encoder.digest}
        self.spec = dataclasses.replace(world.spec, options=options)
        self.views = ("world", "picture", "encoded")
        self.shows_truth = False
        self.encoder = encoder
        # Environments one after the other, so that what is in between stays in the cache.
        # (Compiled by itself, it closes over nothing that vmap over seeds could batch.)
        self._see = jax.custom_batching.sequential_vmap(jax.jit(self._look))
        self._observe_inside = jax.jit(jax.vmap(world.observe))

    def inner_state(self, state):
        return state.inner

    def with_inner_state(self, state, inner):
        return state._replace(inner=inner)

    def reset(self, key):
        inner = self.world.reset(key)
        places = self._see(inner)
        return EncodedState(inner, places, self.world.observe_places(places, places))

    def step(self, state, action, key):
        inner = self.world.step(state.inner, action, key)
        places = self._see(inner)
        return EncodedState(inner, places, self.world.observe_places(places, state.places))

    def observe(self, state):
        return state.observation

    def true_observations(self, state):
        return np.asarray(self._observe_inside(state.inner))

    def _look(self, inner: EnvState) -> jax.Array:
        return self.encoder.look(self.world.picture(inner))

    def save_parts(self, folder):
        super().save_parts(folder)
        self.encoder.save(folder / ENCODER_NAME)

    def choose_view(self, view):
        if view not in self.views:
            raise unknown_name("view", view, self.views)
        self.view = view

    def render(self, state):
        if self.view == "world":
            return self.world.render(state.inner)
        picture = np.asarray(self.world.picture(state.inner))
        shown = [enlarged(picture, self.world.discs)]
        if self.view == "encoded":
            shown.append(enlarged(picture, self.world.discs, np.asarray(state.places)))
        return beside(shown)


def enlarged(picture: np.ndarray, discs: Discs, places: np.ndarray | None = None) -> np.ndarray:
    """A small picture made larger; with `places` [m, 2], circles show where something is seen."""
    size = discs.pixels * ENLARGED
    image = Image.fromarray(picture).resize((size, size), Image.Resampling.NEAREST)
    if places is not None:
        draw = ImageDraw.Draw(image)
        for place, radius, colour in zip(places, discs.radii, discs.colours, strict=True):
            x = (discs.pixels / 2 + place[0] * discs.scale) * ENLARGED
            y = (discs.pixels / 2 - place[1] * discs.scale) * ENLARGED
            r = radius * ENLARGED
            dark = tuple(int(150 * part) for part in colour)
            draw.ellipse((x - r, y - r, x + r, y + r), outline=dark, width=2)
            draw.line((x - 5, y, x + 5, y), dark, 2)
            draw.line((x, y - 5, x, y + 5), dark, 2)
    return np.array(image)


def encoded(world: World, encoder: Encoder | str | Path) -> Encoded:
    """A world seen through an encoder, or the one in a file or folder."""
    if not isinstance(encoder, Encoder | str | Path):
        raise UsageError(f"encoder is a file or a folder, not {encoder!r}")
    found = encoder if isinstance(encoder, Encoder) else load_encoder(encoder)
    return Encoded(world, found)


def encoded_pictures(world: PicturedWorld, encoder: Encoder, count: int = 4) -> np.ndarray:
    """Pictures of first states side by side, with circles where the encoder sees things."""
    states = [world.reset(key) for key in jax.random.split(jax.random.PRNGKey(0), count)]
    pictures = [np.asarray(world.picture(state)) for state in states]
    places = np.asarray(encoder.places(jnp.asarray(np.stack(pictures))))
    return beside(
        [enlarged(one, world.discs, at) for one, at in zip(pictures, places, strict=True)]
    )


def beside(pictures: Sequence[np.ndarray]) -> np.ndarray:
    """Pictures of the same height side by side, with gaps between them."""
    gap = np.full((len(pictures[0]), ENLARGED, 3), 128, np.uint8)
    return np.concatenate([part for one in pictures for part in (one, gap)][:-1], axis=1)
