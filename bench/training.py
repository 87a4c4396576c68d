"""How fast training is as a whole, what its parts take, and how long its compilation takes."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dusdi
from bench.timing import Chained, Result, repeated, time_in_turns
from bench.trainers import after_random_steps, trainer_for, updates_only
from dusdi.resolve import resolve_pretrain
from dusdi.trainers import HostSkillTrainer, make_trainer


def training(quick: bool) -> Result:
    """The training loop of preset fast: steps and updates per second, and the share of acting."""
    iterations = 2 if quick else 10
    numbers = {}
    settings = {}
    for name in ("gunner-2d", "multi-particle"):
        trainer, config = trainer_for(dusdi.make(name), "debug" if quick else "fast")
        settings[name] = config.to_json()
        advance = partial(trainer.advance, iterations=iterations, random=False)
        updates = updates_only(trainer.learner, iterations)
        sides = {
            "all": Chained(advance, after_random_steps(trainer, config)),
            "updates": Chained(updates, after_random_steps(trainer, config)),
        }
        times = time_in_turns(sides, rounds=3 if quick else 7)
        rate = iterations / times.seconds("all")
        numbers[f"{name}_steps_per_second"] = rate * config.run.num_envs
        numbers[f"{name}_updates_per_second"] = rate * config.updates_per_iteration
        numbers[f"{name}_share_of_acting_and_world"] = 1 - times.ratio("updates", "all")
    return Result(numbers, settings)


def training_split(name: str, quick: bool) -> tuple[dict[str, float], dict[str, Any]]:
    """Training in a world on the host: its rate, and the shares of simulating and of updating."""
    world = dusdi.make(name)
    config = resolve_pretrain(world, preset="debug" if quick else "fast").settings
    trainer = make_trainer(world, config)
    assert isinstance(trainer, HostSkillTrainer)
    iterations = 2 if quick else 20
    start = trainer.advance(trainer.restart(trainer.init()), trainer.random_iterations, True)
    updates = updates_only(trainer.learner, iterations)
    actions = np.random.default_rng(0).uniform(-1, 1, (config.run.num_envs, world.spec.action_size))
    sides = {
        "updating": Chained(updates, jax.tree.map(jnp.copy, start)),
        "simulating": repeated(trainer.simulate, iterations, actions),
        "training": Chained(partial(trainer.advance, iterations=iterations, random=False), start),
    }
    times = time_in_turns(sides, rounds=3 if quick else 7)
    trainer.close()
    steps = iterations * config.run.num_envs
    numbers = {f"{name}_training_steps_per_second": steps / times.seconds("training")}
    for side in ("simulating", "updating"):
        numbers[f"{name}_share_of_{side}"] = times.ratio(side, "training")
    return numbers, config.to_json()


def compile_time(quick: bool) -> Result:
    """Seconds to compile the updates of one step in 2D Gunner, if there are 1, 4 or 16 of them."""
    counts = (1, 2) if quick else (1, 4, 16)
    preset = "debug" if quick else "fast"
    world = dusdi.make("gunner-2d")
    num_envs = resolve_pretrain(world, preset=preset).settings.run.num_envs
    seconds = {}
    settings = {}
    for count in counts:
        trainer, config = trainer_for(world, preset, steps_per_update=num_envs // count)
        settings[str(count)] = config.to_json()
        seconds[count] = compile_seconds(updates_only(trainer.learner, 1), trainer.shapes())
    numbers = {f"{count}_updates_seconds": value for count, value in seconds.items()}
    for count in counts[1:]:
        numbers[f"{count}_updates_over_1"] = seconds[count] / seconds[1]
    return Result(numbers, settings)


def compile_seconds(function: Any, shapes: Any) -> float:
    """Seconds to trace and compile a jitted function, without the cache on the disk."""
    cached = jax.config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        began = time.perf_counter()
        function.lower(shapes).compile()
        return time.perf_counter() - began
    finally:
        jax.config.update("jax_enable_compilation_cache", cached)
