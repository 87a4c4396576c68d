"""The trainers, train states and skills that are timed."""

from __future__ import annotations

import math
from typing import Any

import jax

from dusdi.config import Config, configure
from dusdi.envs import JaxWorld, World
from dusdi.learner import GraphTrainer, Learner, TrainState
from dusdi.policy import Skills, from_state

SMALL_REPLAY = {"replay_capacity": 10_240}  # for benchmarks that are not about memory


def trainer_for(world: World, preset: str, **fields: Any) -> tuple[GraphTrainer, Config]:
    """A trainer with a preset and these settings, and its config."""
    assert isinstance(world, JaxWorld)
    config = configure(preset, world.presets, fields)
    return GraphTrainer(world, config), config


def after_random_steps(trainer: GraphTrainer, config: Config) -> TrainState:
    """A train state whose replay holds enough to learn from."""
    iterations = math.ceil(2 * config.batch_size / config.num_envs)
    return trainer.advance(trainer.init(), iterations, True)


def updates_only(learner: Learner, count: int, narrow: bool = False) -> Any:
    """The updates of `count` iterations without acting, in one compiled call.

    If `narrow`, networks only get the inputs that the config's input limit leaves them.
    """

    def run(state: TrainState) -> TrainState:
        state = learner.narrow(state) if narrow else state
        state = jax.lax.fori_loop(0, count, lambda _, s: learner.update(s), state)
        return learner.widen(state) if narrow else state

    return jax.jit(run, donate_argnums=0)


def untrained_skills(world: World, preset: str) -> Skills:
    """Skills at their initialisation, which are as fast as trained ones."""
    fields = {} if preset == "debug" else SMALL_REPLAY
    trainer, config = trainer_for(world, preset, **fields)
    return from_state(world.spec, config, trainer.init())


def megabytes(tree: Any) -> float:
    """The size of all arrays of a pytree."""
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree)) / 1e6
