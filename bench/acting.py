"""How fast learned skills act: one by one, and below a policy that learns to choose them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

import dusdi
from bench.timing import Chained, Result, repeated, time_in_turns
from bench.trainers import untrained_skills
from dusdi.high_level import CompiledHighLevelTrainer
from dusdi.resolve import DownstreamSettings, resolve_downstream
from dusdi.skills import Skills


def act(quick: bool) -> Result:
    """Microseconds of one `Skills.act` call, against a plain MLP of the same widths in NumPy."""
    calls = 10 if quick else 200
    numbers = {}
    settings = {}
    for name in ("gunner-2d",) if quick else ("gunner-2d", "multi-particle"):
        skills = untrained_skills(dusdi.make(name), "debug" if quick else "fast")
        settings[name] = skills.settings
        observation = np.zeros(skills.spec.observation_size, np.float32)
        skill = skills.sample_skills(1)[0]
        sides = {
            "act": repeated(skills.act, calls, observation, skill),
            "numpy_mlp": repeated(numpy_mlp(skills), calls, observation),
        }
        times = time_in_turns(sides, rounds=3 if quick else 7)
        for side in sides:
            numbers[f"{name}_{side}_microseconds"] = 1e6 * times.seconds(side) / calls
        numbers[f"{name}_act_over_numpy_mlp"] = times.ratio("act", "numpy_mlp")
    return Result(numbers, settings)


def numpy_mlp(skills: Skills) -> Callable[[np.ndarray], np.ndarray]:
    """A forward pass that ends at actions, through layers as wide as the actor's."""
    spec = skills.spec
    widths = [spec.observation_size, *skills.settings["networks"]["actor_hidden"], spec.action_size]
    rng = np.random.default_rng(0)
    layers = [rng.normal(size=pair).astype(np.float32) for pair in pairwise(widths)]

    def forward(observation: np.ndarray) -> np.ndarray:
        for weights in layers[:-1]:
            observation = np.maximum(observation @ weights, 0.0)
        return np.tanh(observation @ layers[-1])

    return forward


def hierarchy(quick: bool) -> Result:
    """Low-level steps per second of downstream learning: ours, and Stable-Baselines3's PPO."""
    task = dusdi.make_task("multi-particle/food-poison-hard")
    config = resolve_downstream(task, preset="debug" if quick else "fast").settings
    numbers: dict[str, float] = {}
    settings = {}
    for preset in ("debug",) if quick else ("paper", "fast"):
        skills = untrained_skills(task.world, preset)
        rates = hierarchy_rates(task, skills, config, rounds=2 if quick else 5)
        numbers |= {f"{preset}_actor_{name}": value for name, value in rates.items()}
        settings[preset] = {"skills": skills.settings, "downstream": config.to_json()}
    return Result(numbers, settings)


def hierarchy_rates(
    task: Any, skills: Skills, config: DownstreamSettings, rounds: int
) -> dict[str, float]:
    """Rates of our PPO, of our vector environment alone, and of Stable-Baselines3's PPO on it."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    decisions = 80
    num_envs = 256
    length = skills.skill_length
    trainer = CompiledHighLevelTrainer(task, skills, config)
    envs = make_vec_env(lambda: dusdi.SkillEnv(task, skills), n_envs=4)
    theirs = PPO("MlpPolicy", envs, n_steps=20, batch_size=40, device="cpu")
    vector = dusdi.SkillVectorEnv(task, skills, num_envs)
    vector.reset(seed=0)

    def learn_theirs() -> None:
        theirs.learn(decisions, reset_num_timesteps=False)

    sides: dict[str, Callable[[], Any]] = {
        "ours": Chained(partial(trainer.advance, iterations=1, random=False), trainer.init()),
        "vector_env": lambda: vector.step(vector.action_space.sample()),
        "sb3": learn_theirs,
    }
    times = time_in_turns(sides, rounds)
    steps = {
        "ours": trainer.steps_per_iteration,
        "vector_env": num_envs * length,
        "sb3": decisions * length,
    }
    rates = {f"{side}_steps_per_second": steps[side] / times.seconds(side) for side in sides}
    for side in ("ours", "vector_env"):
        ratio = times.ratio("sb3", side) * steps[side] / steps["sb3"]
        rates[f"{side}_times_as_fast_as_sb3"] = ratio
    return rates
