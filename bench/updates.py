"""How fast a gradient update is, by itself and as the number of factors grows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from bench.timing import Chained, Result, Times, time_in_turns
from bench.trainers import (
    SMALL_REPLAY,
    after_random_steps,
    megabytes,
    trainer_for,
    updates_only,
)
from dusdi.envs.particle import MultiParticle
from dusdi.learner import Learner, TrainState

HIDDEN = ("actor_hidden", "critic_hidden", "discriminator_hidden", "penalty_hidden")


def update(quick: bool) -> Result:
    """One update at the paper's sizes, as a share of the peak in 2048 x 2048 matrix products."""
    fields = {"num_envs": 4, "steps_per_update": 4, **SMALL_REPLAY}
    if quick:
        fields |= dict.fromkeys(HIDDEN, (128, 128))
    trainer, settings = trainer_for(MultiParticle(), "paper", **fields)
    state = after_random_steps(trainer, settings)
    flops = update_flops(trainer.learner, state)
    updates = 2
    products = 8
    size = 2048
    square = jax.random.normal(jax.random.PRNGKey(0), (size, size))
    dot = jax.jit(jnp.dot)
    sides = {
        "peak": lambda: [dot(square, square) for _ in range(products)],
        "update": Chained(updates_only(trainer.learner, updates), state),
    }
    del state
    times = time_in_turns(sides, rounds=3)
    peak_flops = products * 2 * size**3
    work = flops * updates / peak_flops
    numbers = {
        "peak_gflops": peak_flops / times.seconds("peak") / 1e9,
        "update_gflop": flops / 1e9,
        "update_seconds": times.seconds("update") / updates,
        "share_of_peak": times.ratio("peak", "update") * work,
        # by the processor's time, which is steadier if others use the machine
        "share_of_peak_by_cpu_time": times.ratio("peak", "update", "cpu") * work,
    }
    return Result(numbers, settings.to_json())


def update_flops(learner: Learner, state: TrainState) -> float:
    """FLOPs of the matrix products that one update of DUSDi at the paper's sizes needs.

    A layer with i inputs and o outputs costs 2 B i o forward, and as much each for its gradients
    by the weights and by its input. The gradient by the input of a first layer is only needed
    where the actor learns through the critics, and there only by the action. Biases, activations,
    Adam and everything else count as nothing, so that they lower the share of the peak.
    """
    discriminators = 0
    for discriminator in _learned(state):
        first, rest = multiplications(discriminator.params)
        # forward (for the update, for the reward) and backward (update)
        discriminators += 2 * (first + rest) + 2 * rest + first
    first, rest = multiplications(state.agent.actor)
    # forward (for the target, for the update) and backward (update)
    actor = 2 * (first + rest) + 2 * rest + first
    first, rest = multiplications(state.agent.critic)
    by_action = first // critic_inputs(learner) * learner.spec.action_size
    # forward (for the target, for the update, for the actor), backward (update), and backward to
    # the action (for the actor)
    critics = 3 * (first + rest) + (2 * rest + first) + (rest + by_action)
    return 2.0 * learner.settings.sac.batch_size * (discriminators + actor + critics)


def critic_inputs(learner: Learner) -> int:
    """How many inputs a critic has: observation, action and encoded skill."""
    skill = learner.method.skill_space.size
    return learner.spec.observation_size + learner.spec.action_size + skill


def multiplications(params: Any) -> tuple[int, int]:
    """Multiplications of one sample's forward pass: in first layers, and in all layers after."""
    first = 0
    rest = 0
    for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        if not name.endswith("/kernel"):
            continue
        if "hidden" in name or "output" in name:
            rest += leaf.size
        else:
            first += leaf.size
    return first, rest


def factors(quick: bool) -> Result:
    """Time per update of preset fast, and weights, for Multi-Particle with more and more agents."""
    counts = (2, 11) if quick else (2, 5, 10, 20, 40)
    updates = 2 if quick else 10
    sides: dict[str, Callable[[], Any]] = {}
    weights = {}
    used = {}
    for agents in counts:
        trainer, settings = trainer_for(MultiParticle(agents), "fast", **SMALL_REPLAY)
        assert settings.updates_per_iteration == 1
        used[str(agents)] = settings.to_json()
        state = after_random_steps(trainer, settings)
        networks = [state.agent.actor, state.agent.critic]
        weights[agents] = megabytes([networks, *(part.params for part in _learned(state))])
        sides[f"{agents}_factors"] = Chained(updates_only(trainer.learner, updates), state)
    times = time_in_turns(sides, rounds=3 if quick else 5)
    return Result(factor_numbers(times, weights, updates), used)


def _learned(state: TrainState) -> list[Any]:
    """The states of DUSDi's discriminators."""
    return [*state.objective.own, state.objective.others]


def factor_numbers(times: Times, weights: dict[int, float], updates: int) -> dict[str, float]:
    """Times per update, and ratios to the smallest number of factors.

    Args:
      times: of sides called `<n>_factors`.
      weights: megabytes of the networks' parameters, by number of factors.
      updates: in each time.
    """
    least = min(weights)
    numbers = {}
    for count in weights:
        side = f"{count}_factors"
        ratio = times.ratio(side, f"{least}_factors")
        numbers[f"{side}_milliseconds"] = 1e3 * times.seconds(side) / updates
        numbers[f"{side}_time_ratio"] = ratio
        numbers[f"{side}_time_ratio_per_factor"] = ratio * least / count
        numbers[f"{side}_weights_ratio"] = weights[count] / weights[least]
    return numbers
