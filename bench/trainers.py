"""The trainers, train states and skills that are timed."""

from __future__ import annotations

import math
from typing import Any

import jax

from dusdi.envs import JaxWorld, World
from dusdi.learner import Learner, TrainState
from dusdi.resolve import PretrainSettings, resolve_pretrain
from dusdi.run import describe_run
from dusdi.skills import Skills
from dusdi.trainers import CompiledSkillTrainer

SMALL_REPLAY = {"replay_capacity": 10_240}  # for benchmarks that are not about memory


def trainer_for(
    world: World, preset: str, **fields: Any
) -> tuple[CompiledSkillTrainer, PretrainSettings]:
    """A trainer with a preset and these settings, and all its settings."""
    assert isinstance(world, JaxWorld)
    settings = resolve_pretrain(world, preset=preset, fields=fields).settings
    return CompiledSkillTrainer(world, settings), settings


def after_random_steps(trainer: CompiledSkillTrainer, settings: PretrainSettings) -> TrainState:
    """A train state whose replay holds enough to learn from."""
    iterations = math.ceil(2 * settings.sac.batch_size / settings.run.num_envs)
    return trainer.advance(trainer.init(), iterations, True)


def updates_only(learner: Learner, count: int) -> Any:
    """The updates of `count` iterations without acting, in one compiled call."""

    def run(state: TrainState) -> TrainState:
        return jax.lax.fori_loop(0, count, lambda _, s: learner.update(s), state)

    return jax.jit(run, donate_argnums=0)


def untrained_skills(world: World, preset: str) -> Skills:
    """Skills at their initialisation, which are as fast as trained ones."""
    fields = {} if preset == "debug" else SMALL_REPLAY
    trainer, settings = trainer_for(world, preset, **fields)
    space = trainer.learner.method.skill_space.to_json()
    described = describe_run("skills", world.spec, settings, {})
    described |= {"skill_space": space, "seed": 0, "step": 0}
    return Skills(described, trainer.policies(trainer.init())[0])


def megabytes(tree: Any) -> float:
    """The size of all arrays of a pytree."""
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree)) / 1e6
