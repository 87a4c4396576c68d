"""Training of encoders: on pictures of random play, with the true places or by redrawing.

With labels, heat maps are told where things are, as the encoder of the DUSDi paper was. Without,
they have to redraw the picture: each thing is drawn everywhere, as strongly as its heat map says.
What the things look like is known in both cases.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from dusdi.checks import check_numbers
from dusdi.encoder import STRIDE, Encoder, HeatMaps, mean_places
from dusdi.envs.base import EnvState, select
from dusdi.envs.pictured import PicturedWorld
from dusdi.envs.raster import Discs
from dusdi.errors import UsageError
from dusdi.progress import Progress, Silent
from dusdi.provenance import provenance

HELD = 8  # steps for which an action of random play is held
EPISODE = 64  # steps of an episode of random play
BETWEEN = 4  # steps of play between two updates
TEST_PICTURES = 4096
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
      labels: whether the true places are used; otherwise pictures are redrawn.
      updates, batch_size, learning_rate: of Adam, whose rate falls to zero.
      seed: of everything.
    """

    def __init__(
        self,
        world: PicturedWorld,
        *,
        labels: bool = True,
        updates: int = 4000,
        batch_size: int = 64,
        learning_rate: float = 3e-3,
        seed: int = 0,
    ):
        if not isinstance(world, PicturedWorld):
            raise UsageError(f"{world.spec.name!r} shows no pictures that an encoder could learn")
        check_numbers(updates=updates, batch_size=batch_size, seed=seed)
        self.world = world
        self.labels = labels
        self.updates = updates
        self.batch_size = batch_size
        self.seed = seed
        self.network = HeatMaps(len(world.discs.names))
        self.lines = world.discs.lines(world.discs.pixels // STRIDE)
        self._adam = optax.adam(optax.cosine_decay_schedule(learning_rate, updates))
        loss = labelled_loss if labels else redrawing_loss
        self._loss = functools.partial(loss, self.network, world.discs)

    def init(self) -> TrainingState:
        key, init_key, play_key = jax.random.split(jax.random.PRNGKey(self.seed), 3)
        pixels = self.world.discs.pixels
        params = self.network.init(init_key, jnp.zeros((1, pixels, pixels, 3), jnp.uint8))
        play = jax.vmap(self.world.reset)(jax.random.split(play_key, self.batch_size))
        action = jnp.zeros((self.batch_size, self.world.spec.action_size))
        age = jnp.arange(self.batch_size) * EPISODE // self.batch_size
        return TrainingState(params, self._adam.init(params), play, action, key, age)

    @functools.partial(jax.jit, static_argnums=0)
    def update(self, state: TrainingState) -> tuple[TrainingState, jax.Array]:
        """Plays on and learns from the pictures of all environments; gives the loss."""
        state = jax.lax.fori_loop(0, BETWEEN, lambda _, s: self._play(s), state)
        places = jax.vmap(self.world.places)(state.play)
        pictures = jax.vmap(self.world.picture)(state.play)
        loss, gradient = jax.value_and_grad(self._loss)(state.params, pictures, places)
        change, optimiser = self._adam.update(gradient, state.optimiser)
        params = optax.apply_updates(state.params, change)
        return state._replace(params=params, optimiser=optimiser), loss

    def _play(self, state: TrainingState) -> TrainingState:
        """A step of random play."""
        key, action_key, step_key, reset_key = jax.random.split(state.key, 4)
        drawn = jax.random.uniform(action_key, state.action.shape, minval=-1.0, maxval=1.0)
        action = jnp.where((state.age % HELD == 0)[:, None], drawn, state.action)
        keys = jax.random.split(step_key, self.batch_size)
        play = jax.vmap(self.world.step)(state.play, action, keys)
        fresh = jax.vmap(self.world.reset)(jax.random.split(reset_key, self.batch_size))
        done = state.age + 1 >= EPISODE
        age = jnp.where(done, 0, state.age + 1)
        return state._replace(play=select(done, fresh, play), action=action, key=key, age=age)

    @functools.partial(jax.jit, static_argnums=0)
    def test(self, state: TrainingState) -> tuple[jax.Array, jax.Array, TrainingState]:
        """Errors [B, things] in new pictures, how much of each disc is visible, and the play."""
        state = jax.lax.fori_loop(0, EPISODE, lambda _, s: self._play(s), state)
        places = jax.vmap(self.world.places)(state.play)
        pictures = jax.vmap(self.world.picture)(state.play)
        log_maps: Any = self.network.apply(state.params, pictures)
        seen = mean_places(jnp.exp(log_maps), self.lines)
        error = jnp.linalg.norm(seen - places, axis=-1)
        return error, jax.vmap(functools.partial(visible, self.world.discs))(places), state


def train_encoder(world: PicturedWorld, *, progress: bool = False, **options: Any) -> Encoder:
    """An encoder for the pictures of a world; for the options see `EncoderTrainer`."""
    trainer = EncoderTrainer(world, **options)
    state = trainer.init()
    how = "labels" if trainer.labels else "redrawing"
    title = f"encoder of {world.spec.name}, by {how}"
    display = Progress(title, trainer.updates, unit="updates") if progress else Silent()
    with display:
        every = max(1, trainer.updates // 50)
        for update in range(1, trainer.updates + 1):
            state, loss = trainer.update(state)
            if update % 10 == 0:
                display.advance(update)
            if update % every == 0:
                display.log(update, [{"loss": float(loss)}])
    return Encoder(state.params, _description(trainer, state))


def _description(trainer: EncoderTrainer, state: TrainingState) -> dict[str, Any]:
    """What an encoder says of itself, its errors in new pictures included."""
    discs = trainer.world.discs
    errors, shares = [], []
    held_out = state._replace(key=jax.random.fold_in(state.key, 1))
    for _ in range(-(-TEST_PICTURES // trainer.batch_size)):
        error, share, held_out = trainer.test(held_out)
        errors.append(np.asarray(error))
        shares.append(np.asarray(share))
    return {
        "kind": "encoder",
        "world": trainer.world.spec.name,
        "options": dict(trainer.world.spec.options),
        "things": list(discs.names),
        "pixels": discs.pixels,
        "lines": [float(line) for line in trainer.lines],
        "features": list(trainer.network.features),
        "labels": trainer.labels,
        "updates": trainer.updates,
        "batch_size": trainer.batch_size,
        "seed": trainer.seed,
        "errors": summary(np.concatenate(errors), np.concatenate(shares), discs),
        "made_with": provenance(),
    }


def summary(error: np.ndarray, share: np.ndarray, discs: Discs) -> dict[str, dict[str, Any]]:
    """Mean errors of each kind of thing, from errors and visible shares [B, things]."""
    kinds = np.array([name.rpartition(" ")[0] or name for name in discs.names])
    found = {}
    for kind in dict.fromkeys(kinds):
        own = kinds == kind
        covered = share[:, own] < COVERED
        values = error[:, own]
        found[str(kind)] = {
            "mean": float(values.mean()),
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


# --- losses: of parameters, pictures [B, rows, columns, 3] and places [B, things, 2] ---


def labelled_loss(
    network: HeatMaps, discs: Discs, params: Any, pictures: jax.Array, places: jax.Array
) -> jax.Array:
    """Squared error of places, and cross-entropy of heat maps with the four nearest cells.

    The latter are weighted so that their mean is the place. It is what finds a thing that a heat
    map looks for in the wrong corner.
    """
    log_maps: Any = network.apply(params, pictures)
    lines = discs.lines(discs.pixels // STRIDE)
    target = nearest_cells(places, lines)
    entropy = -(target * log_maps).sum(1).mean()
    error = ((mean_places(jnp.exp(log_maps), lines) - places) ** 2).sum(-1).mean()
    return error + 0.1 * entropy


def nearest_cells(places: jax.Array, lines: np.ndarray) -> jax.Array:
    """Weights [B, cells, things] of the cells around places [B, things, 2]; their mean is there."""
    step = lines[1] - lines[0]

    def share(values):  # [B, things, lines]
        inside = jnp.clip(values, lines[0], lines[-1])
        return jnp.maximum(0.0, 1 - jnp.abs(inside[..., None] - lines) / step)

    down, across = share(-places[..., 1]), share(places[..., 0])
    weights = down[..., :, None] * across[..., None, :]
    return weights.reshape(*places.shape[:2], -1).swapaxes(1, 2)


def redrawing_loss(
    network: HeatMaps, discs: Discs, params: Any, pictures: jax.Array, places: jax.Array
) -> jax.Array:
    """The squared error of pictures redrawn from heat maps; the true places are not used."""
    del places
    log_maps: Any = network.apply(params, pictures)
    count = discs.pixels // STRIDE
    maps = jnp.exp(log_maps).reshape(len(pictures), count, count, -1)
    small = pictures.reshape(len(pictures), count, STRIDE, count, STRIDE, 3) / 255.0
    redrawn = jax.vmap(discs.paint)(spread(maps, discs).transpose(0, 3, 1, 2))
    return ((redrawn - small.mean((2, 4))) ** 2).sum((1, 2, 3)).mean() / len(discs.names)


def spread(maps: jax.Array, discs: Discs) -> jax.Array:
    """How much of each cell things take that are where heat maps [B, rows, columns, m] say."""
    reach = int(np.ceil(discs.radii.max() / STRIDE)) + 1
    offsets = np.arange(-reach, reach + 1) * STRIDE
    distance = np.sqrt(offsets[:, None] ** 2 + offsets[None] ** 2)
    fade = np.clip((discs.radii - distance[..., None]) / STRIDE + 0.5, 0.0, 1.0)
    kernel = jnp.asarray(fade[:, :, None, :], jnp.float32)  # a filter of its own for each thing
    return jax.lax.conv_general_dilated(
        maps,
        kernel,
        (1, 1),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=len(discs.names),
    )
