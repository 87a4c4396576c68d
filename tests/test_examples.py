"""The examples run as documented, with the real libraries they are about."""

import runpy
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from probes import make_batch

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.slow
def test_stable_baselines3_learns_on_skills(gunner_run, capsys):
    example = runpy.run_path(str(EXAMPLES / "sb3_ppo.py"))
    agent = example["main"]([str(gunner_run), "gunner-2d/unlimited", "--steps", "160"])
    assert agent.num_timesteps == 160
    printed = capsys.readouterr().out
    assert "MultiDiscrete([5 5 5])" in printed and "return per episode:" in printed


def test_a_method_of_ones_own_is_learned_saved_and_loaded(tmp_path, spec):
    goals = runpy.run_path(str(EXAMPLES / "goal_method.py"))["Goals"]
    method = goals(spec, goals.Settings(goal_range=2.0))
    # Goals of ball and box: 2 * (1, 0) and 2 * 0.5; places (2, 3) and 0.
    batch = make_batch(
        jnp.array([[1.0, 0.0, 0.5]]), next_observation=jnp.array([[2.0, 3.0, 0.0, 9.0]])
    )
    np.testing.assert_allclose(method.reward((), None, batch, 0), [[-3.0, -1.0]])
    assert str(method.skill_space) == "box:2, box:1"


@pytest.mark.slow
def test_how_far_skills_get_is_told_for_each_entry(gunner_run, capsys):
    example = runpy.run_path(str(EXAMPLES / "how_far.py"))
    found = example["main"]([str(gunner_run), "agent position", "--steps", "3"])
    printed = capsys.readouterr().out.splitlines()
    assert found.shape == (100, 2) and (np.abs(found) <= 3 * 0.3 + 1e-6).all()  # 0.3 in each step
    mean = np.abs(found[:, 1]).mean()
    assert printed[1].startswith(f"agent position 1: mean distance {mean:.2f}; 5 % of skills below")


@pytest.mark.slow
def test_skills_are_found_in_pictures_of_ones_own(capsys):
    example = runpy.run_path(str(EXAMPLES / "own_pictures.py"))
    env = example["TwoDiscs"]()
    pictures = np.stack([env.reset(seed=seed)[0] for seed in range(20)])
    last = env.places.ravel()
    np.testing.assert_allclose(example["centroids"](pictures)[-1], last, atol=0.02)
    skills = example["main"](["--steps", "12_000"])
    table = capsys.readouterr().out.splitlines()
    scores = next(line for line in table if line.startswith("skills to states")).split()
    assert skills.space.names == ("red", "blue") and float(scores[3]) > 0.7, table
