"""How much memory training takes."""

from __future__ import annotations

import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from bench.timing import Result
from bench.trainers import after_random_steps, megabytes, trainer_for
from dusdi.envs.particle import MultiParticle


def memory(quick: bool) -> Result:
    """Peak memory of training in Multi-Particle, against its replay, parameters and optimisers."""
    presets = ("debug",) if quick else ("fast", "paper")
    numbers = {}
    settings = {}
    for preset in presets:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            measured, settings[preset] = pool.submit(train_and_weigh, preset).result()
        numbers |= {f"{preset}_{name}": value for name, value in measured.items()}
    first = numbers[f"{presets[0]}_peak_mb"]
    numbers["first_over_last_peak"] = first / numbers[f"{presets[-1]}_peak_mb"]
    return Result(numbers, settings)


def train_and_weigh(preset: str) -> tuple[dict[str, float], dict[str, Any]]:
    """Megabytes before training, at its peak, and needed for what it stores.

    The peak is that of the whole process, so this has to run in a process of its own.
    """
    trainer, config = trainer_for(MultiParticle(), preset)
    jax.block_until_ready(jnp.zeros(1))
    before = peak_megabytes()
    state = jax.block_until_ready(trainer.advance(after_random_steps(trainer, config), 2, False))
    replay = megabytes(state.replay)
    learned = megabytes((state.agent, state.objective))
    peak = peak_megabytes()
    numbers = {
        "peak_mb": peak,
        "libraries_mb": before,
        "replay_mb": replay,
        "learned_mb": learned,
        "peak_less_libraries_per_mb_needed": (peak - before) / (replay + learned),
    }
    return numbers, config.to_json()


def peak_megabytes() -> float:
    """The most memory that this process ever had (Linux).

    `getrusage` would also count the process that this one was forked from.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6
