"""Training of encoders: on pictures of random play with the true places, or on drawings.

An encoder learns from drawings of its own: things at places of its choice, as they look, which it
then has to find. What they look like is known. With labels, half of the pictures are of random play
in the world, and the encoder is told where things are, as that of the DUSDi paper was. Without, it
never sees the world.
"""

from __future__ import annotations

import functools
import json
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from dusdi import checkpoint
from dusdi.arrays import ENCODER_NAME
from dusdi.checks import check_numbers
from dusdi.encoder import CELL, WINDOW, Encoder, Finder, Found, load_encoder, places_of
from dusdi.envs.base import EnvState, World, select
from dusdi.envs.pictured import Encoded, PicturedWorld
from dusdi.errors import UsageError
from dusdi.progress import Progress, Silent
from dusdi.provenance import provenance
from dusdi.raster import Discs
from dusdi.run import locked
from dusdi.signals import stoppable

HELD = 4  # steps for which an action of random play is held
EPISODE = 32  # steps of an episode of random play
CHECKPOINTS = "checkpoints"
LOGGED = 50  # times that the loss is logged
SAVED_EVERY = 5  # log rows between two checkpoints
BETWEEN = 4  # steps of play between two updates
TEST_PICTURES = 4096
SHARE_NEAR = 0.25  # of things in drawings that are moved near another
NEAR = 3.0  # pixels; the standard deviation of how near
NEARLY_ZERO = 1e-4  # squared pixels, for the slope of a distance of zero
COVERED = 0.5  # a disc of which less is visible counts as covered


class TrainingState(NamedTuple):
    """Parameters, optimiser, and environments at random play with their actions."""

    params: Any
    optimiser: Any
    play: EnvState
    action: jax.Array
    key: jax.Array
    age: jax.Array


class EncoderTrainer:
    """Trains the encoder of a world.

    Args:
      world: that shows pictures.
      labels: whether half of the pictures are of the world, with the true places.
      updates, batch_size, learning_rate: of Adam, whose rate falls to zero.
      seed: of everything.
    """

    def __init__(
        self,
        world: PicturedWorld,
        *,
        labels: bool = True,
        updates: int = 5000,
        batch_size: int = 64,
        learning_rate: float = 5e-3,
        seed: int = 0,
    ):
        pictured(world)
        check_numbers(updates=updates, batch_size=batch_size, seed=seed)
        if batch_size < 2:
            raise UsageError("batch_size must be at least 2, since half of a batch is drawn")
        if not 0 < learning_rate < math.inf:
            raise UsageError(f"learning_rate must be a number above 0, not {learning_rate}")
        self.world = world
        self.labels = labels
        self.updates = updates
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.seed = seed
        self.played = batch_size // 2  # environments, from which half of a batch comes
        self.drawn = batch_size - self.played if labels else batch_size
        self.discs = world.discs
        check_looks(self.discs)
        self.network = Finder(self.discs)
        self._adam = optax.adam(optax.cosine_decay_schedule(learning_rate, updates))

    @property
    def title(self) -> str:
        how = "labels" if self.labels else "drawings"
        return f"encoder of {self.world.spec.name}, by {how}"

    @property
    def identity(self) -> dict[str, Any]:
        """What determines the result, as JSON."""
        return {
            "kind": "encoder",
            "world": self.world.spec.name,
            "options": json.loads(json.dumps(dict(self.world.spec.options))),
            "labels": self.labels,
            "updates": self.updates,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "seed": self.seed,
            "discs": self.discs.to_json(),
            "network": {"features": self.network.features, "hidden": self.network.hidden},
        }

    def init(self) -> TrainingState:
        key, init_key, play_key = jax.random.split(jax.random.PRNGKey(self.seed), 3)
        pixels = self.world.discs.pixels
        params = self.network.init(init_key, jnp.zeros((1, pixels, pixels, 3), jnp.uint8))
        play = jax.vmap(self.world.reset)(jax.random.split(play_key, self.played))
        action = jnp.zeros((self.played, self.world.spec.action_size))
        age = jnp.arange(self.played) * EPISODE // self.played
        return TrainingState(params, self._adam.init(params), play, action, key, age)

    @functools.partial(jax.jit, static_argnums=0)
    def update(self, state: TrainingState) -> tuple[TrainingState, jax.Array]:
        """Learns from a batch of pictures; gives the loss."""
        key, draw_key = jax.random.split(state.key)
        state = state._replace(key=key)
        places, pictures = self._draw(draw_key, self.drawn)
        if self.labels:
            state = jax.lax.fori_loop(0, BETWEEN, lambda _, s: self._play(s), state)
            true_places, seen = self._look(state)
            places = jnp.concatenate([places, true_places])
            pictures = jnp.concatenate([pictures, seen])

        def loss(params):
            found: Any = self.network.apply(params, pictures)
            return finding_loss(self.discs, found, places)

        value, gradient = jax.value_and_grad(loss)(state.params)
        change, optimiser = self._adam.update(gradient, state.optimiser)
        params = optax.apply_updates(state.params, change)
        return state._replace(params=params, optimiser=optimiser), value

    def _look(self, state: TrainingState) -> tuple[jax.Array, jax.Array]:
        """True places and pictures."""
        return jax.vmap(self.world.places)(state.play), jax.vmap(self.world.picture)(state.play)

    def _draw(self, key: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
        """Places anywhere, and pictures with things there.

        Some are moved near another thing, and some near one of their own colour (which may have
        been moved, too): by chance that is rare, and hard to see.
        """
        keys = jax.random.split(key, 4)
        things = len(self.discs.names)
        shape = (count, things, 2)
        pixels = jax.random.uniform(keys[0], shape, maxval=float(self.discs.pixels))
        other = pixels[:, jax.random.permutation(keys[1], things)]
        alike = pixels[:, self.discs.next_alike]
        kind = jax.random.uniform(keys[2], (count, things, 1))
        near = jnp.where(kind < 0.5, other, alike) + NEAR * jax.random.normal(keys[3], shape)
        is_near = jnp.abs(kind - 0.5) < SHARE_NEAR / 2
        pixels = jnp.clip(jnp.where(is_near, near, pixels), 0.0, float(self.discs.pixels))
        places = places_of(self.discs, pixels)
        return places, jax.vmap(self.discs.draw)(places)

    def _play(self, state: TrainingState) -> TrainingState:
        """A step of random play."""
        key, action_key, step_key, reset_key = jax.random.split(state.key, 4)
        drawn = jax.random.uniform(action_key, state.action.shape, minval=-1.0, maxval=1.0)
        action = jnp.where((state.age % HELD == 0)[:, None], drawn, state.action)
        keys = jax.random.split(step_key, self.played)
        play = jax.vmap(self.world.step)(state.play, action, keys)
        fresh = jax.vmap(self.world.reset)(jax.random.split(reset_key, self.played))
        done = state.age + 1 >= EPISODE
        age = jnp.where(done, 0, state.age + 1)
        return state._replace(play=select(done, fresh, play), action=action, key=key, age=age)

    @functools.partial(jax.jit, static_argnums=0)
    def test(self, state: TrainingState) -> tuple[jax.Array, jax.Array, TrainingState]:
        """Errors [B, things] in new pictures, how much of each disc is visible, and the play."""
        state = jax.lax.fori_loop(0, EPISODE, lambda _, s: self._play(s), state)
        places, pictures = self._look(state)
        found: Any = self.network.apply(state.params, pictures)
        seen = places_of(self.discs, found.best)
        error = jnp.linalg.norm(seen - places, axis=-1)
        return error, jax.vmap(functools.partial(visible, self.discs))(places), state


def train_encoder(
    world: PicturedWorld,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = False,
    **options: Any,
) -> Encoder:
    """An encoder for the pictures of a world.

    Args:
      world: that shows pictures.
      out: folder to write the encoder into, and checkpoints while it is trained.
      resume: go on where the training in that folder was stopped, to the same end bit for bit.
      progress: show a progress bar (or log lines, if the output is not a terminal).
      **options: of the training, see `EncoderTrainer`.
    """
    trainer = EncoderTrainer(world, **options)
    folder = None if out is None else Path(out)
    with locked(folder):
        if folder is not None and (folder / ENCODER_NAME).exists():
            return _finished(trainer, folder, resume)
        return _train(trainer, folder, resume, progress)


def _train(trainer: EncoderTrainer, folder: Path | None, resume: bool, progress: bool) -> Encoder:
    """The encoder at the end of training, and its file in the folder."""
    state, done, seconds = _first_state(trainer, folder, resume)
    began = time.monotonic() - seconds
    display = Silent()
    if progress:
        display = Progress(trainer.title, trainer.updates, done, unit="updates")
    every = max(1, trainer.updates // LOGGED)
    with display, stoppable(lambda: display.note("stopping")) as stopped:
        for update in range(done + 1, trainer.updates + 1):
            state, loss = trainer.update(state)
            if update % 10 == 0:
                display.advance(update)
            if update % every == 0:
                display.log(update, [{"loss": float(loss)}])
            stop = stopped()
            due = update % (every * SAVED_EVERY) == 0 or update == trainer.updates
            if folder and (stop or due):
                about = {**trainer.identity, "seconds": time.monotonic() - began}
                checkpoint.save(folder / CHECKPOINTS, update, state, about)
            if stop:
                place = f"; saved in {folder}, go on with --resume" if folder else ""
                raise KeyboardInterrupt(f"stopped at update {update:,}{place}")
    seconds = time.monotonic() - began
    encoder = Encoder(state.params, _description(trainer, state, seconds))
    if folder is not None:
        encoder.save(folder / ENCODER_NAME)
        for path in checkpoint.newest_first(folder / CHECKPOINTS):
            path.unlink()
        with suppress(OSError):  # somebody keeps other files there
            (folder / CHECKPOINTS).rmdir()
    return encoder


def _finished(trainer: EncoderTrainer, folder: Path, resume: bool) -> Encoder:
    """The encoder in a folder, if it is the one that would be trained."""
    encoder = load_encoder(folder)
    if not resume:
        raise UsageError(f"{folder} holds an encoder already; name another place")
    _check_same(trainer, encoder.description, folder)
    return encoder


def _check_same(trainer: EncoderTrainer, description: Mapping[str, Any], folder: Path) -> None:
    """Raises a `UsageError` if a folder holds something else than what would be trained."""
    if description.get("kind") != "encoder":
        raise UsageError(f"{folder} holds a run, not an encoder; name another place")
    for name, value in trainer.identity.items():
        said = description.get(name)
        if said != value:
            plain = isinstance(value, bool | int | float | str)
            shown = f"{name} {said!r}, not {value!r}" if plain else f"other {name}"
            raise UsageError(
                f"{folder} holds an encoder that is trained with {shown}; name another place"
            )


def _first_state(
    trainer: EncoderTrainer, folder: Path | None, resume: bool
) -> tuple[TrainingState, int, float]:
    """Where training begins or goes on, and how many updates and seconds went before."""
    if folder is None:
        return trainer.init(), 0, 0.0
    found = checkpoint.load_newest(folder / CHECKPOINTS)
    if found is None:
        return trainer.init(), 0, 0.0
    if not resume and found.description.get("kind") == "encoder":
        raise UsageError(
            f"{folder} holds an encoder that is half trained; go on with --resume (resume=True), "
            "or name another place"
        )
    _check_same(trainer, found.description, folder)
    shapes = jax.eval_shape(trainer.init)
    state = checkpoint.read(found, shapes)
    return state, found.description["step"], found.description["seconds"]


def _description(trainer: EncoderTrainer, state: TrainingState, seconds: float) -> dict[str, Any]:
    """What an encoder says of itself, its errors in new pictures included."""
    discs = trainer.discs
    errors, shares = [], []
    held_out = state._replace(key=jax.random.fold_in(state.key, 1))
    for _ in range(-(-TEST_PICTURES // trainer.played)):
        error, share, held_out = trainer.test(held_out)
        errors.append(np.asarray(error))
        shares.append(np.asarray(share))
    return {
        **trainer.identity,
        "seconds": round(seconds, 2),
        "errors": summary(np.concatenate(errors), np.concatenate(shares), discs),
        "made_with": provenance(),
    }


def summary(error: np.ndarray, share: np.ndarray, discs: Discs) -> dict[str, dict[str, Any]]:
    """Errors of each kind of thing, from errors and visible shares [B, things]."""
    kinds = np.array([name.rpartition(" ")[0] or name for name in discs.names])
    found = {}
    for kind in dict.fromkeys(kinds):
        own = kinds == kind
        covered = share[:, own] < COVERED
        values = error[:, own]
        found[str(kind)] = {
            "mean": float(values.mean()),
            "median": float(np.median(values)),
            "95 %": float(np.quantile(values, 0.95)),
            "covered": float(values[covered].mean()) if covered.any() else None,
            "share covered": float(covered.mean()),
        }
    return found


def visible(discs: Discs, places: jax.Array) -> jax.Array:
    """How much of each disc at `places` [m, 2] later ones leave visible, [m]."""
    cover = discs.cover(places)
    left = jnp.cumprod(1 - cover[::-1], axis=0)[::-1]
    left = jnp.concatenate([left[1:], jnp.ones_like(left[:1])])
    return (cover * left).sum((1, 2)) / jnp.maximum(cover.sum((1, 2)), 1e-6)


def pictured(world: World) -> PicturedWorld:
    """The world, or a `UsageError` unless it shows pictures."""
    if isinstance(world, Encoded):
        raise UsageError("this world is seen through an encoder already; leave out that option")
    if not isinstance(world, PicturedWorld):
        raise UsageError(f"{world.spec.name!r} shows no pictures that an encoder could learn")
    return world


def check_looks(discs: Discs) -> None:
    """Raises a `UsageError` if two things look the same, so that nothing could tell them apart."""
    seen: dict[tuple, str] = {}
    for name, look in zip(
        discs.names, zip(discs.colour_of, discs.size_of, strict=True), strict=True
    ):
        if look in seen:
            raise UsageError(
                f"{seen[look]!r} and {name!r} have the same colour and size, so that no encoder "
                "can tell them apart; make fewer of them"
            )
        seen[look] = name


def finding_loss(discs: Discs, found: Found, places: jax.Array) -> jax.Array:
    """What finding things costs that are at places [B, m, 2].

    It is the cross-entropy of heat maps with the cells around the places, that of scores with the
    nearest proposal, and that one's distance in pixels. Things that were not proposed near where
    they are count in the first only.
    """
    target = nearest_cells(places, discs.lines(discs.pixels // CELL))
    searched = -(target * found.log_maps).sum(1).mean()
    before, after = (pixels_from(discs, at, places) for at in (found.proposed, found.pixels))
    nearest = before.argmin(-1)[..., None]
    of_nearest = functools.partial(jnp.take_along_axis, indices=nearest, axis=-1)
    proposed = of_nearest(before) < WINDOW / 2
    cost = of_nearest(after) - of_nearest(jax.nn.log_softmax(found.scores))
    return searched + jnp.where(proposed, cost, 0.0).mean()


def pixels_from(discs: Discs, pixels: jax.Array, places: jax.Array) -> jax.Array:
    """How far pixels [B, m, P, 2] are from places [B, m, 2], [B, m, P]."""
    away = (places_of(discs, pixels) - places[:, :, None]) * discs.scale
    return jnp.sqrt((away**2).sum(-1) + NEARLY_ZERO)


def nearest_cells(places: jax.Array, lines: np.ndarray) -> jax.Array:
    """Weights [B, cells, m] of the four cells around places [B, m, 2]; their mean is there."""
    step = lines[1] - lines[0]

    def share(values):  # [B, m, lines]
        inside = jnp.clip(values, lines[0], lines[-1])
        return jnp.maximum(0.0, 1 - jnp.abs(inside[..., None] - lines) / step)

    down, across = share(-places[..., 1]), share(places[..., 0])
    weights = down[..., :, None] * across[..., None, :]
    return weights.reshape(*places.shape[:2], -1).swapaxes(1, 2)
