"""What seeing a world through an encoder costs: drawing, encoding, and training on it."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

import dusdi
from bench.timing import Chained, Result, time_in_turns
from bench.trainers import SMALL_REPLAY, after_random_steps, trainer_for
from dusdi.encoder import Encoder
from dusdi.encoder_training import EncoderTrainer
from dusdi.envs.pictured import Encoded

PRODUCT = 1024  # rows of matrices whose product shows what the processor can do


def pictures(quick: bool) -> Result:
    """Microseconds to draw and encode a picture, its FLOP count, and their share of training."""
    world: Any = dusdi.make("multi-particle")
    encoder = untrained(world)
    count = 16 if quick else 256
    states = jax.vmap(world.reset)(jax.random.split(jax.random.PRNGKey(0), count))
    seen = jax.lax.map(world.picture, states)
    draw = jax.jit(partial(jax.lax.map, world.picture))
    encode = jax.jit(encoder.places)
    matrix = jax.random.normal(jax.random.PRNGKey(0), (PRODUCT, PRODUCT))
    product = jax.jit(jnp.matmul)
    sides: dict[str, Any] = {
        "draw": lambda: draw(states),
        "encode": lambda: encode(seen),
        "product": lambda: product(matrix, matrix),
    }
    preset = "debug" if quick else "fast"
    trainers = {"states": world, "pictures": Encoded(world, encoder)}
    steps = {}
    for name, place in trainers.items():
        trainer, settings = trainer_for(place, preset, **({} if quick else SMALL_REPLAY))
        steps[name] = trainer.steps_per_iteration
        advance = partial(trainer.advance, iterations=1, random=False)
        sides[name] = Chained(advance, after_random_steps(trainer, settings))
    times = time_in_turns(sides, rounds=2 if quick else 7)
    flops = floating_point_operations(encoder)
    peak = 2 * PRODUCT**3 / times.seconds("product")
    spent = {name: times.seconds(name) / steps[name] for name in steps}
    numbers = {
        "draw_microseconds": 1e6 * times.seconds("draw") / count,
        "encode_microseconds": 1e6 * times.seconds("encode") / count,
        "encode_million_flop": flops / 1e6,
        "encode_share_of_a_matrix_products_rate": flops * count / times.seconds("encode") / peak,
        "states_steps_per_second": 1 / spent["states"],
        "pictures_steps_per_second": 1 / spent["pictures"],
        "share_of_pictures_in_training": 1 - spent["states"] / spent["pictures"],
    }
    return Result(numbers, {"pictures": count, "product": PRODUCT, "preset": preset})


def untrained(world: Any) -> Encoder:
    """An encoder of a world's pictures that learned nothing."""
    trainer = EncoderTrainer(world, updates=1, batch_size=2)
    return Encoder(trainer.init().params, trainer.identity)


def floating_point_operations(encoder: Encoder) -> float:
    """Of encoding one picture, as XLA counts them."""
    side = encoder.discs.pixels
    shape = jax.ShapeDtypeStruct((side, side, 3), jnp.uint8)
    analysis: Any = jax.jit(encoder.look).lower(shape).cost_analysis()
    return float(analysis["flops"])
