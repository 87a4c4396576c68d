"""How fast and how big, as ratios measured in one run: `python bench/bench.py [--only NAME ...] [--quick] [--out FILE]`.

The sides of a ratio take turns, and the median over the rounds counts, so that a noisy machine hits them alike. Each benchmark
is one function in `BENCHMARKS`; results are merged into a JSON file by benchmark, each with its config, commit and wall time.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import multiprocessing
import os
import re
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import dusdi
from dusdi.config import Config, PPOConfig, configure
from dusdi.envs import JaxWorld, World
from dusdi.envs.particle import MultiParticle
from dusdi.learner import GraphTrainer, HostTrainer, Learner, TrainState, make_trainer
from dusdi.policy import Skills, from_state
from dusdi.rollout import GraphStepper
from dusdi.run import provenance
from dusdi.task_learning import GraphHighTrainer

FOLDER = Path(__file__).parent
PARITY_TEST = FOLDER.parent / "tests" / "test_parity_mpe2.py"
SMALL_REPLAY = dict(replay_capacity=10_240)  # for benchmarks that are not about memory


class Result(NamedTuple):
    """What a benchmark measured (units are in the names), and the settings it ran with."""

    numbers: dict[str, float]
    settings: dict[str, Any]


# --- timing ---


class Times:
    """Seconds of each side in each round."""

    def __init__(self, sides: Sequence[str]):
        self.wall: dict[str, list[float]] = {side: [] for side in sides}
        self.cpu: dict[str, list[float]] = {side: [] for side in sides}

    def seconds(self, side: str) -> float:
        return statistics.median(self.wall[side])

    def ratio(self, side: str, other: str, clock: str = "wall") -> float:
        """Time of a side over time of another, each round by itself, the median."""
        rounds = getattr(self, clock)
        return statistics.median(a / b for a, b in zip(rounds[side], rounds[other], strict=True))


def take_turns(sides: dict[str, Callable[[], Any]], rounds: int) -> Times:
    """Times functions in turn, after one round that compiles and warms up."""
    times = Times(list(sides))
    for i in range(rounds + 1):
        for side, run in sides.items():
            wall, cpu = time.perf_counter(), time.process_time()
            jax.block_until_ready(run())
            if i:
                times.wall[side].append(time.perf_counter() - wall)
                times.cpu[side].append(time.process_time() - cpu)
    return times


def chained(function: Callable[[TrainState], TrainState], state: TrainState) -> Callable[[], None]:
    """A donating function of a train state as one without arguments, which goes on from its last result."""
    held = [state]

    def run() -> None:
        held[0] = jax.block_until_ready(function(held[0]))

    return run


# --- what is timed ---


def trainer_for(world: World, preset: str, **fields: Any) -> tuple[GraphTrainer, Config]:
    assert isinstance(world, JaxWorld)
    config = configure(preset, world.presets, fields)
    return GraphTrainer(world, config), config


def after_random_steps(trainer: GraphTrainer, config: Config) -> TrainState:
    """A train state whose replay holds enough to learn from."""
    return trainer.advance(trainer.init(), math.ceil(2 * config.batch_size / config.num_envs), True)


def updates_only(
    learner: Learner, count: int, narrow: bool = False
) -> Callable[[TrainState], TrainState]:
    """The updates of `count` iterations without acting, in one compiled call; `narrow`: on fewer inputs."""

    def run(state: TrainState) -> TrainState:
        state = learner.narrow(state) if narrow else state
        state = jax.lax.fori_loop(0, count, lambda _, s: learner.update(s), state)
        return learner.widen(state) if narrow else state

    return jax.jit(run, donate_argnums=0)


# --- the benchmarks ---


def bench_environment(quick: bool) -> Result:
    """Multi-Particle with 10 agents: ours, all copies in one compiled loop, against the real mpe2, one copy in one process."""
    agents, copies, steps, theirs = 10, *((256, 20, 20) if quick else (4096, 100, 200))
    world, parity = MultiParticle(agents), import_parity_test()
    stepper = GraphStepper(world, copies, world.spec.episode_length)
    env, rng = parity.make_reference(agents, theirs + 1), np.random.default_rng(0)

    def step(state, key, action):
        state = jax.vmap(world.step)(state, action, jax.random.split(key, copies))
        return state, jax.vmap(world.observe)(state)

    def step_and_reset(state, key, action):
        state, result = stepper.step(state, key, action)
        return state, result.observation

    def run_mpe2():
        env.reset(seed=0)
        for action in rng.uniform(0, 1, (theirs * agents, 5)).astype(np.float32):
            env.last()  # the observation of the agent whose turn it is
            env.step(action)

    (state, ages), observation = stepper.init(jax.random.PRNGKey(0))
    sides = {
        "ours": random_walk(step, (state, observation), world.spec.action_size, steps),
        "ours_with_resets": random_walk(
            step_and_reset, ((state, ages), observation), world.spec.action_size, steps
        ),
        "mpe2": run_mpe2,
    }
    times = take_turns(sides, rounds=3 if quick else 7)
    count = {"ours": copies * steps, "ours_with_resets": copies * steps, "mpe2": theirs}
    numbers = {f"{side}_steps_per_second": count[side] / times.seconds(side) for side in sides}
    for side in ("ours", "ours_with_resets"):
        numbers[f"{side}_times_as_fast"] = times.ratio("mpe2", side) * count[side] / theirs
    return Result(numbers, {"agents": agents, "copies": copies})


def random_walk(
    step: Callable[..., Any], start: Any, action_size: int, steps: int
) -> Callable[[], Any]:
    """Steps all copies by random actions in one compiled call; `start` and what `step` returns are (state, observation)."""

    def body(carry, key):
        action_key, step_key = jax.random.split(key)
        action = jax.random.uniform(
            action_key, (len(carry[1]), action_size), minval=-1.0, maxval=1.0
        )
        return step(carry[0], step_key, action), None

    walk = jax.jit(lambda key, start: jax.lax.scan(body, start, jax.random.split(key, steps))[0])
    return lambda: walk(jax.random.PRNGKey(0), start)


def import_parity_test() -> Any:
    """The test that drives mpe2 step by step beside ours: what is timed here is what is proven equal there."""
    spec = importlib.util.spec_from_file_location("parity", PARITY_TEST)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bench_update(quick: bool) -> Result:
    """One gradient update at the paper's sizes, as a share of the machine's peak in 2048 x 2048 matrix products."""
    sizes = dict.fromkeys(
        ("actor_hidden", "critic_hidden", "discriminator_hidden", "penalty_hidden"), (128, 128)
    )
    fields = {"num_envs": 4, "steps_per_update": 4, **SMALL_REPLAY, **(sizes if quick else {})}
    trainer, config = trainer_for(MultiParticle(), "paper", **fields)
    state = after_random_steps(trainer, config)
    updates, dots, size = 2, 8, 2048
    flops = update_flops(trainer.learner, state)
    square = jax.random.normal(jax.random.PRNGKey(0), (size, size))
    dot = jax.jit(jnp.dot)
    sides = {
        "peak": lambda: [dot(square, square) for _ in range(dots)],
        "update": chained(updates_only(trainer.learner, updates), state),
    }
    del state
    times = take_turns(sides, rounds=3)
    work = flops * updates / (dots * 2 * size**3)
    numbers = {
        "peak_gflops": dots * 2 * size**3 / times.seconds("peak") / 1e9,
        "update_gflop": flops / 1e9,
        "update_seconds": times.seconds("update") / updates,
        "share_of_peak": times.ratio("peak", "update") * work,
        "share_of_peak_by_cpu_time": times.ratio("peak", "update", "cpu")
        * work,  # steadier if others use the machine
    }
    return Result(numbers, config.to_json())


def update_flops(learner: Learner, state: TrainState) -> float:
    """FLOPs of the matrix products that one update of DUSDi at the paper's sizes can't do without.

    A layer costs 2 B i o forward, and as much for its gradient by the weights and by its input each. The input gradient of a
    first layer is only needed where the actor learns through the critics, and there only by the action. Biases, activations,
    Adam, hidden inputs (masks) and everything else count as nothing, so that they show in the share of the peak.
    """
    config, spec = learner.config, learner.spec
    discriminators = 0
    for discriminator in state.objective:
        first, rest = multiplications(discriminator.params)
        discriminators += (
            2 * (first + rest) + 2 * rest + first
        )  # forward (update, reward), backward (update)
    first, rest = multiplications(state.agent.actor)
    actor = 2 * (first + rest) + 2 * rest + first  # forward (target, update), backward (update)
    first, rest = multiplications(state.agent.critic)
    by_action = first // critic_inputs(learner) * spec.action_size
    # forward (target, update, for the actor), backward (update), by the action (for the actor)
    critics = 3 * (first + rest) + (2 * rest + first) + (rest + by_action)
    return 2.0 * config.batch_size * (discriminators + actor + critics)


def critic_inputs(learner: Learner) -> int:
    """Observation, action and encoded skill."""
    space = learner.objective.skill_space
    return (
        learner.spec.observation_size
        + learner.spec.action_size
        + space.components * space.component_size
    )


def multiplications(params: Any) -> tuple[int, int]:
    """Of one forward pass of one sample: those in layers that see the network's input, and those in the layers after."""
    sums = [0, 0]
    for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        if name.endswith("/kernel"):
            sums["hidden" in name or "output" in name] += leaf.size
    return sums[0], sums[1]


def bench_factors(quick: bool) -> Result:
    """Time per update of preset fast, and weights, as the number of factors grows: Multi-Particle with more and more agents.

    Where inputs are dropped on the way, the time is the mean over the updates of a whole run.
    """
    counts, updates = ((2, 11), 2) if quick else ((2, 5, 10, 20, 40), 10)
    sides, shares, weights, settings = {}, {}, {}, {}
    for agents in counts:
        trainer, config = trainer_for(MultiParticle(agents), "fast", **SMALL_REPLAY)
        assert config.updates_per_iteration == 1
        settings[str(agents)] = config.to_json()
        wide = min(trainer.narrow_from * config.num_envs / config.steps, 1.0)
        for side, share in ((f"{agents}_factors", wide), (f"{agents}_factors_limited", 1 - wide)):
            if share:
                state = after_random_steps(trainer, config)
                sides[side] = chained(
                    updates_only(trainer.learner, updates, narrow=side.endswith("limited")), state
                )
                shares[side] = share
        weights[agents] = megabytes(
            (state.agent.actor, state.agent.critic, [part.params for part in state.objective])
        )
    times = take_turns(sides, rounds=3 if quick else 5)
    numbers, least = {}, counts[0]

    def over_run(agents: int, of_side: Callable[[str], float]) -> float:
        return sum(
            shares[side] * of_side(side) for side in sides if side.split("_")[0] == str(agents)
        )

    for agents in counts:
        ratio = over_run(agents, lambda side: times.ratio(side, f"{least}_factors"))
        numbers[f"{agents}_factors_milliseconds"] = 1e3 * over_run(agents, times.seconds) / updates
        numbers[f"{agents}_factors_time_ratio"] = ratio
        numbers[f"{agents}_factors_time_ratio_per_factor"] = ratio * least / agents
        numbers[f"{agents}_factors_weights_ratio"] = (
            weights[agents] / weights[least]
        )  # networks x what each of them sees
    for side in sides:
        if side.endswith("limited"):
            numbers[f"{side}_time_ratio"] = times.ratio(side, side.removesuffix("_limited"))
    return Result(numbers, settings)


def bench_memory(quick: bool) -> Result:
    """Peak memory of a process that trains in Multi-Particle, against what it has to hold: replay, parameters, optimisers."""
    presets = ("debug",) if quick else ("fast", "paper")
    numbers, settings = {}, {}
    for preset in presets:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            measured, settings[preset] = pool.submit(train_and_weigh, preset).result()
        numbers |= {f"{preset}_{name}": value for name, value in measured.items()}
    numbers["first_over_last_peak"] = (
        numbers[f"{presets[0]}_peak_mb"] / numbers[f"{presets[-1]}_peak_mb"]
    )
    return Result(numbers, settings)


def train_and_weigh(preset: str) -> tuple[dict[str, float], dict[str, Any]]:
    """Megabytes before, at the peak of and needed for a few updates; to be run in a process of its own."""
    trainer, config = trainer_for(MultiParticle(), preset)
    jax.block_until_ready(jnp.zeros(1))
    before = peak_megabytes()
    state = jax.block_until_ready(trainer.advance(after_random_steps(trainer, config), 2, False))
    replay, learned = megabytes(state.replay), megabytes((state.agent, state.objective))
    peak = peak_megabytes()
    numbers = {
        "peak_mb": peak,
        "libraries_mb": before,
        "replay_mb": replay,
        "learned_mb": learned,
        "peak_less_libraries_per_mb_needed": (peak - before) / (replay + learned),
    }
    return numbers, config.to_json()


def megabytes(tree: Any) -> float:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree)) / 1e6


def peak_megabytes() -> float:
    """Most memory that this process ever had (Linux). `getrusage` would also count the parent it was forked from."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def bench_training(quick: bool) -> Result:
    """The whole training loop of preset fast: steps and updates per second, and what acting and the world take of the time."""
    iterations = 2 if quick else 10
    numbers, settings = {}, {}
    for name in ("gunner-2d", "multi-particle"):
        trainer, config = trainer_for(dusdi.make(name), "debug" if quick else "fast")
        settings[name] = config.to_json()
        sides = {
            "all": chained(
                lambda s, t=trainer: t.advance(s, iterations, False),
                after_random_steps(trainer, config),
            ),
            "updates": chained(
                updates_only(trainer.learner, iterations), after_random_steps(trainer, config)
            ),
        }
        times = take_turns(sides, rounds=3 if quick else 7)
        rate = iterations / times.seconds("all")
        numbers[f"{name}_steps_per_second"] = rate * config.num_envs
        numbers[f"{name}_updates_per_second"] = rate * config.updates_per_iteration
        numbers[f"{name}_share_of_acting_and_world"] = 1 - times.ratio("updates", "all")
    return Result(numbers, settings)


def bench_physics(quick: bool) -> Result:
    """The walker: ours against dm_control's own environment in a process per core, and envpool's; and how training splits up.

    The split: seconds of simulating alone and of updating alone, as shares of the seconds of training, where they overlap.
    """
    import envpool

    cores, copies, steps = len(os.sched_getaffinity(0)), 64, 2 if quick else 30
    alone = 20 if quick else 300
    walkers, rng = dusdi.make("walker").vector(copies), np.random.default_rng(0)
    walkers.reset(0)
    pool = envpool.make_gymnasium("WalkerRun-v1", num_envs=copies, num_threads=cores)
    pool.reset()
    actions = rng.uniform(-1, 1, (copies, 6))

    def run(step: Callable[[np.ndarray], Any]) -> Callable[[], None]:
        return lambda: [step(actions) for _ in range(steps)] and None

    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as processes:
        sides = {
            "ours": run(walkers.step),
            "dm_control": lambda: list(processes.map(step_dm_control, [alone] * cores)),
            "envpool": run(pool.step),
        }
        times = take_turns(sides, rounds=3 if quick else 7)
    walkers.close(), pool.close()
    count = {"ours": copies * steps, "dm_control": alone * cores, "envpool": copies * steps}
    numbers = {
        f"walker_{side}_steps_per_second": count[side] / times.seconds(side) for side in sides
    }
    for side in ("dm_control", "envpool"):
        numbers[f"walker_times_as_fast_as_{side}"] = (
            times.ratio(side, "ours") * count["ours"] / count[side]
        )
    settings: dict[str, Any] = {"copies": copies, "cores": cores}
    for name in ("walker", "household"):
        split, settings[name] = training_split(name, quick)
        numbers |= split
    return Result(numbers, settings)


def step_dm_control(count: int, envs: list[Any] = []) -> None:  # noqa: B006
    """Steps dm_control's walker; each process keeps its own."""
    from dm_control import suite

    if not envs:
        envs.append(suite.load("walker", "run"))
        envs[0].reset()
    for action in np.random.default_rng(0).uniform(-1, 1, (count, 6)):
        if envs[0].step(action).last():
            envs[0].reset()


def training_split(name: str, quick: bool) -> tuple[dict[str, float], dict[str, Any]]:
    """Steps per second of training on the host, and what simulating and updating take of it by themselves."""
    world = dusdi.make(name)
    config = configure("debug" if quick else "fast", world.presets, {})
    trainer, iterations = make_trainer(world, config), 2 if quick else 20
    assert isinstance(trainer, HostTrainer)
    held = [trainer.advance(trainer.restart(trainer.init()), trainer.random_iterations, True)]
    actions = np.random.default_rng(0).uniform(-1, 1, (config.num_envs, world.spec.action_size))

    def train() -> None:
        held[0] = jax.block_until_ready(trainer.advance(held[0], iterations, False))

    sides = {
        "training": train,
        "simulating": lambda: [trainer.simulate(actions) for _ in range(iterations)] and None,
        "updating": chained(
            updates_only(trainer.learner, iterations), jax.tree.map(jnp.copy, held[0])
        ),
    }
    times = take_turns(sides, rounds=3 if quick else 7)
    numbers = {
        f"{name}_training_steps_per_second": iterations
        * config.num_envs
        / times.seconds("training")
    }
    numbers |= {
        f"{name}_share_of_{side}": times.ratio(side, "training")
        for side in ("simulating", "updating")
    }
    trainer.close()
    return numbers, config.to_json()


def untrained_skills(world: World, preset: str) -> Skills:
    """Skills fresh from their initialisation: as fast as trained ones."""
    trainer, config = trainer_for(world, preset, **({} if preset == "debug" else SMALL_REPLAY))
    return from_state(world.spec, config, trainer.init())


def bench_hierarchy(quick: bool) -> Result:
    """Downstream learning in Multi-Particle, low-level steps per second: ours, and Stable-Baselines3's PPO on our SkillEnv."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    task, numbers, settings = dusdi.make_task("multi-particle/food-poison-hard"), {}, {}
    for preset in ("debug",) if quick else ("paper", "fast"):
        skills = untrained_skills(task.world, preset)
        length = skills.config.skill_length
        config = configure("debug" if quick else "fast", {}, {}, PPOConfig)
        trainer = GraphHighTrainer(task, skills, config)
        envs = make_vec_env(lambda skills=skills: dusdi.SkillEnv(task, skills), n_envs=4)
        theirs = PPO("MlpPolicy", envs, n_steps=20, batch_size=40, device="cpu")
        vector = dusdi.SkillVectorEnv(task, skills, 256)
        vector.reset(seed=0)
        sides = {
            "ours": chained(lambda s, t=trainer: t.advance(s, 1, False), trainer.init()),
            "vector_env": lambda v=vector: v.step(v.action_space.sample()),
            "sb3": lambda p=theirs: p.learn(80, reset_num_timesteps=False) and None,
        }
        times = take_turns(sides, rounds=2 if quick else 5)
        steps = {
            "ours": trainer.steps_per_iteration,
            "vector_env": 256 * length,
            "sb3": 80 * length,
        }
        for side, count in steps.items():
            numbers[f"{preset}_actor_{side}_steps_per_second"] = count / times.seconds(side)
        for side in ("ours", "vector_env"):
            numbers[f"{preset}_actor_{side}_times_as_fast_as_sb3"] = (
                times.ratio("sb3", side) * steps[side] / steps["sb3"]
            )
        settings[preset] = {"skills": skills.config.to_json(), "downstream": config.to_json()}
    return Result(numbers, settings)


#: Networks as one would write them first: plain MLPs everywhere, which learn at chance for thousands of updates.
PLAIN = dict(
    skill_input="concat",
    actor_parts="whole",
    input_gain=0.0,
    critic_skill="all",
    actor_hidden=(128, 128),
    critic_hidden=(128, 128),
    discriminator_hidden=(128, 128),
    discriminator_bumps=0,
    discriminator_decay=0.0,
    elsewhere_weight=0.0,
    reward_floor=0.0,
    discount=0.9,
    penalty_hidden=(128, 128),
)


def bench_learning(quick: bool) -> Result:
    """Before and after in Multi-Particle: plain MLPs against preset fast, by time per update and time to 0.5 mean accuracy.

    They learn in turns of equal time. If the plain ones have not got there when they had `patience` times the time of the
    others, what they had is a lower bound.
    """
    patience, turn, target = (1, 1.0, 0.15) if quick else (4, 5.0, 0.5)
    world = MultiParticle(2) if quick else MultiParticle()
    racers = {name: Racer(world, fields) for name, fields in (("after", {}), ("before", PLAIN))}
    after, before = racers["after"], racers["before"]
    limit = 600.0
    while after.seconds < limit and (
        after.reached is None
        or (before.reached is None and before.seconds < patience * after.reached)
    ):
        for racer in racers.values():
            if racer.reached is None:
                racer.learn(turn, target)
    numbers: dict[str, float] = {}
    for name, racer in racers.items():
        numbers[f"{name}_milliseconds_per_update"] = 1e3 * racer.seconds / racer.updates
        numbers[f"{name}_seconds_learning"] = racer.seconds
        numbers[f"{name}_accuracy_then"] = racer.accuracy
    if after.reached is None:
        raise RuntimeError(
            f"preset fast did not reach {target} in {limit} s; its accuracy is {after.accuracy:.3f}"
        )
    numbers["before_got_there"] = float(before.reached is not None)
    numbers["time_ratio_per_update"] = (
        numbers["before_milliseconds_per_update"] / numbers["after_milliseconds_per_update"]
    )
    numbers["time_ratio_to_the_accuracy_at_least"] = (
        before.reached or before.seconds
    ) / after.reached
    return Result(
        numbers,
        {"after": after.config.to_json(), "before": before.config.to_json(), "accuracy": target},
    )


class Racer:
    """A training run that is timed without its compilation, until its discriminators are right often enough."""

    def __init__(self, world: World, fields: dict[str, Any]):
        self._trainer, self.config = trainer_for(world, "fast", **fields)
        random = math.ceil(self.config.random_steps / self.config.num_envs)
        self._state = self._trainer.advance(
            self._trainer.advance(self._trainer.init(), random, True), 1, False
        )
        self.seconds, self.updates, self.accuracy = 0.0, 0, 0.0
        self.reached: float | None = None

    def learn(self, seconds: float, target: float) -> None:
        """Learns for some time, and notes whether and when the mean accuracy of 25 updates reached the target."""
        end = self.seconds + seconds
        while self.seconds < end and self.reached is None:
            cleared = jax.tree.map(jnp.zeros_like, self._state.metrics)
            state = jax.block_until_ready(
                self._state.replace(metrics=cleared, updates=jnp.int32(0))
            )
            began = time.perf_counter()
            self._state = jax.block_until_ready(self._trainer.advance(state, 25, False))
            self.seconds += time.perf_counter() - began
            self.updates += 25
            sums = [x for name, x in self._state.metrics.items() if name.startswith("accuracy/")]
            self.accuracy = float(np.mean([float(x) for x in sums])) / 25
            if self.accuracy >= target:
                self.reached = self.seconds


BENCHMARKS: dict[str, Callable[[bool], Result]] = {
    "environment": bench_environment,
    "update": bench_update,
    "factors": bench_factors,
    "memory": bench_memory,
    "training": bench_training,
    "physics": bench_physics,
    "hierarchy": bench_hierarchy,
    "learning": bench_learning,
}


# --- running and reporting ---


def measure(name: str, quick: bool) -> dict[str, Any]:
    """The result of one benchmark as it is stored."""
    began = time.monotonic()
    result = BENCHMARKS[name](quick)
    return {
        "numbers": result.numbers,
        "settings": result.settings,
        "quick": quick,
        "made_with": provenance() | {"cores": os.cpu_count()},
        "seconds": round(time.monotonic() - began, 1),
    }


def show(name: str, numbers: dict[str, float]) -> Table:
    table = Table("", name, title=BENCHMARKS[name].__doc__, title_justify="left", min_width=60)
    for what, value in numbers.items():
        digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 3
        table.add_row(what.replace("_", " "), f"{value:,.{digits}f}")
    table.columns[1].justify = "right"
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = "; ".join(f"{name}: {function.__doc__}" for name, function in BENCHMARKS.items())
    parser.add_argument(
        "--only",
        nargs="+",
        choices=BENCHMARKS,
        metavar="NAME",
        help=f"benchmarks to run; default: all. {names}",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="tiny sizes, to see that it works; the numbers mean nothing",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="JSON to merge the results into; default: bench/results.json, none if quick",
    )
    options = parser.parse_args(arguments)
    out = options.out or (None if options.quick else FOLDER / "results.json")
    for name in options.only or BENCHMARKS:
        result = measure(name, options.quick)
        Console().print(show(name, result["numbers"]))
        if out is not None:
            stored = json.loads(out.read_text()) if out.exists() else {}
            out.write_text(json.dumps({**stored, name: result}, indent=2) + "\n")


if __name__ == "__main__":
    main()
