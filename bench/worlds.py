"""How fast worlds step, against the environments that they are modelled on."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

import dusdi
from bench.timing import Result, repeated, time_in_turns
from bench.training import training_split
from dusdi.envs.particle import MultiParticle
from dusdi.stepping import CompiledStepper

PARITY_TEST = Path(__file__).parent.parent / "tests" / "test_parity_mpe2.py"


def environment(quick: bool) -> Result:
    """Multi-Particle with 10 agents: our compiled environments against one mpe2 in one process."""
    agents = 10
    num_envs = 256 if quick else 4096
    steps = 20 if quick else 100
    mpe2_steps = 20 if quick else 200
    world = MultiParticle(agents)
    size = world.spec.action_size
    stepper = CompiledStepper(world, num_envs, world.spec.episode_length)

    def step(state, key, action):
        state = jax.vmap(world.step)(state, action, jax.random.split(key, num_envs))
        return state, jax.vmap(world.observe)(state)

    def step_and_reset(episodes, key, action):
        episodes, result = stepper.step(episodes, key, action)
        return episodes, result.observation

    episodes, observation = stepper.init(jax.random.PRNGKey(0))
    sides = {
        "ours": random_rollout(step, (episodes.state, observation), size, steps),
        "ours_with_resets": random_rollout(step_and_reset, (episodes, observation), size, steps),
        "mpe2": mpe2_rollout(agents, mpe2_steps),
    }
    times = time_in_turns(sides, rounds=3 if quick else 7)
    ours = num_envs * steps
    count = {"ours": ours, "ours_with_resets": ours, "mpe2": mpe2_steps}
    numbers = {f"{side}_steps_per_second": count[side] / times.seconds(side) for side in sides}
    for side in ("ours", "ours_with_resets"):
        numbers[f"{side}_times_as_fast"] = times.ratio("mpe2", side) * ours / mpe2_steps
    return Result(numbers, {"agents": agents, "num_envs": num_envs})


def random_rollout(
    step: Callable[..., Any], start: Any, action_size: int, steps: int
) -> Callable[[], Any]:
    """Steps all environments by random actions in one compiled call.

    Args:
      step: a function of state, key and action that returns a pair of state and observation.
      start: such a pair.
      action_size: entries of an action.
      steps: of each environment.
    """

    def body(carry, key):
        state, observation = carry
        action_key, step_key = jax.random.split(key)
        shape = (len(observation), action_size)
        action = jax.random.uniform(action_key, shape, minval=-1.0, maxval=1.0)
        return step(state, step_key, action), None

    walk = jax.jit(lambda key, start: jax.lax.scan(body, start, jax.random.split(key, steps))[0])
    return lambda: walk(jax.random.PRNGKey(0), start)


def mpe2_rollout(agents: int, steps: int) -> Callable[[], None]:
    """Steps mpe2 by random actions, one agent after the other, as its interface wants it."""
    env = import_parity_test().make_reference(agents, steps + 1)
    rng = np.random.default_rng(0)

    def run() -> None:
        env.reset(seed=0)
        for action in rng.uniform(0, 1, (steps * agents, 5)).astype(np.float32):
            env.last()  # the observation of the agent that acts next
            env.step(action)

    return run


def import_parity_test() -> Any:
    """The test that compares mpe2 and our world step by step: there they are proven equal."""
    spec = importlib.util.spec_from_file_location("parity", PARITY_TEST)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def physics(quick: bool) -> Result:
    """The walker against dm_control (a process per core) and envpool, and the parts of training.

    The parts are the seconds of simulating alone and of updating alone, as shares of the seconds
    of training, in which they overlap.
    """
    numbers, settings = walker_rates(quick)
    for name in ("walker", "household"):
        split, settings[name] = training_split(name, quick)
        numbers |= split
    return Result(numbers, settings)


def walker_rates(quick: bool) -> Result:
    """Steps per second of walkers: ours, dm_control's and envpool's."""
    import envpool

    cores = len(os.sched_getaffinity(0))
    num_envs = 64
    steps = 2 if quick else 30
    dm_control_steps = 20 if quick else 300
    walkers = dusdi.make("walker").vector(num_envs)
    walkers.reset(0)
    pool = envpool.make_gymnasium("WalkerRun-v1", num_envs=num_envs, num_threads=cores)
    pool.reset()
    actions = np.random.default_rng(0).uniform(-1, 1, (num_envs, 6))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores, context, initializer=make_dm_control) as processes:
        shares = [dm_control_steps] * cores
        sides = {
            "ours": repeated(walkers.step, steps, actions),
            "dm_control": lambda: list(processes.map(step_dm_control, shares)),
            "envpool": repeated(pool.step, steps, actions),
        }
        times = time_in_turns(sides, rounds=3 if quick else 7)
    walkers.close()
    pool.close()
    ours = num_envs * steps
    count = {"ours": ours, "dm_control": sum(shares), "envpool": ours}
    numbers = {}
    for side in sides:
        numbers[f"walker_{side}_steps_per_second"] = count[side] / times.seconds(side)
    for side in ("dm_control", "envpool"):
        numbers[f"walker_times_as_fast_as_{side}"] = times.ratio(side, "ours") * ours / count[side]
    return Result(numbers, {"num_envs": num_envs, "cores": cores})


_dm_control: Any = None  # the environment of this process


def make_dm_control() -> None:
    """Makes the environment that `step_dm_control` steps; called once in each process."""
    from dm_control import suite

    global _dm_control
    _dm_control = suite.load("walker", "run")
    _dm_control.reset()


def step_dm_control(count: int) -> None:
    """Steps this process's environment by random actions."""
    for action in np.random.default_rng(0).uniform(-1, 1, (count, 6)):
        if _dm_control.step(action).last():
            _dm_control.reset()
