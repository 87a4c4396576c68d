"""How soon discriminators predict skills: preset fast against plain networks."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench.timing import Result
from bench.trainers import trainer_for
from dusdi.envs import World
from dusdi.envs.particle import MultiParticle

#: Networks as one would write them first. They stay at chance for thousands of updates.
PLAIN = dict(
    skill_input="concat",
    additive_actor=False,
    input_gain=0.0,
    actor_hidden=(128, 128),
    critic_hidden=(128, 128),
    discriminator_hidden=(128, 128),
    rbf_features=0,
    background_weight=0.0,
    prior_mixture=0.0,
    discount=0.9,
    penalty_hidden=(128, 128),
)
MAX_SECONDS = 600.0  # of learning with preset fast
UPDATES = 25  # that an accuracy is the mean of


def learning(quick: bool) -> Result:
    """Multi-Particle with preset fast and with plain MLPs: time per update and to accuracy 0.5.

    They learn in turns of equal time. The plain networks get at most `patience` times as long as
    preset fast needed; if they are not there by then, their time is a lower bound.
    """
    patience = 1 if quick else 4
    turn = 1.0 if quick else 5.0
    target = 0.15 if quick else 0.5
    world = MultiParticle(2) if quick else MultiParticle()
    fast = Learning(world, {})
    plain = Learning(world, PLAIN)
    while fast.reached is None and fast.seconds < MAX_SECONDS:
        fast.learn(turn, target)
        plain.learn(turn, target)
    if fast.reached is None:
        raise RuntimeError(
            f"preset fast did not reach {target} in {MAX_SECONDS} s; its accuracy is "
            f"{fast.accuracy:.3f}"
        )
    while plain.reached is None and plain.seconds < patience * fast.reached:
        plain.learn(turn, target)
    settings = {"fast": fast.config.to_json(), "plain": plain.config.to_json()}
    return Result(learning_numbers(fast, plain), {**settings, "accuracy": target})


class Learning:
    """A training run that is timed without its compilation until it reaches an accuracy.

    Attributes:
      config: its settings.
      seconds: of learning so far.
      updates: so far.
      accuracy: of the discriminators, in the last `UPDATES` updates.
      reached: the seconds after which the accuracy was reached; None if it was not.
    """

    def __init__(self, world: World, fields: dict[str, Any]):
        self._trainer, self.config = trainer_for(world, "fast", **fields)
        state = self._trainer.advance(self._trainer.init(), self._trainer.random_iterations, True)
        self._state = self._trainer.advance(state, 1, False)
        self.seconds = 0.0
        self.updates = 0
        self.accuracy = 0.0
        self.reached: float | None = None

    def learn(self, seconds: float, target: float) -> None:
        """Learns for some time, or until the target is reached."""
        end = self.seconds + seconds
        while self.seconds < end and self.reached is None:
            cleared = jax.tree.map(jnp.zeros_like, self._state.metrics)
            state = self._state.replace(metrics=cleared, updates=jnp.int32(0))
            jax.block_until_ready(state)
            began = time.perf_counter()
            self._state = jax.block_until_ready(self._trainer.advance(state, UPDATES, False))
            self.seconds += time.perf_counter() - began
            self.updates += UPDATES
            self.accuracy = self._mean_accuracy()
            if self.accuracy >= target:
                self.reached = self.seconds

    def _mean_accuracy(self) -> float:
        sums = [x for name, x in self._state.metrics.items() if name.startswith("accuracy/")]
        return float(np.mean([float(x) for x in sums])) / UPDATES


def learning_numbers(fast: Learning, plain: Learning) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for name, run in (("fast", fast), ("plain", plain)):
        numbers[f"{name}_milliseconds_per_update"] = 1e3 * run.seconds / run.updates
        numbers[f"{name}_seconds"] = run.seconds
        numbers[f"{name}_accuracy"] = run.accuracy
    assert fast.reached is not None
    per_update = (plain.seconds / plain.updates) / (fast.seconds / fast.updates)
    numbers["plain_reached_it"] = float(plain.reached is not None)
    numbers["time_ratio_per_update"] = per_update
    numbers["least_time_ratio_to_the_accuracy"] = (plain.reached or plain.seconds) / fast.reached
    return numbers
