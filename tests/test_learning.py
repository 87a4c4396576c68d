"""Learning proven on probe worlds whose answers are known, from pretraining to a task."""

import imageio.v3 as imageio
import jax
import numpy as np
import pytest
from conftest import log_rows
from gymnasium.utils.env_checker import check_env
from probes import Edge, Points, make_space

import dusdi
from dusdi.hierarchy import SkillStepper
from dusdi.spaces import Box, Categorical, Sphere
from dusdi.task_evaluation import controller_returns, measure_task, random_skill_returns

pytestmark = pytest.mark.slow

MIXED = {"line": "categorical:3", "bar": "box:1", "plane": "sphere:2"}
SETTINGS = dict(
    num_envs=64,
    steps_per_update=32,
    batch_size=128,
    random_steps=1_280,
    replay_capacity=64_000,
    skill_length=20,
    log_every=12_800,
    checkpoint_every=64_000,
    components=MIXED,
    progress=False,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with a category, a number and a direction, stopped half way and resumed."""
    folder = tmp_path_factory.mktemp("learning") / "points"
    dusdi.pretrain(Points(), out=folder, steps=64_000, **SETTINGS)
    dusdi.pretrain(Points(), out=folder, steps=128_000, resume=True, **SETTINGS)
    return folder


@pytest.fixture(scope="module")
def skills(run):
    return dusdi.load(run)


def test_every_kind_of_component_is_learned(run):
    """Seeds 0, 1 and 2 reach accuracies of .88 to .94, variances of .65 to .74, cosines of .84."""
    row = log_rows(run)[-1]
    assert int(row["step"]) == 128_000
    assert float(row["accuracy/line"]) > 0.75  # chance is 1/3
    assert float(row["explained_variance/bar"]) > 0.5  # chance is 0
    assert float(row["cosine/plane"]) > 0.7  # chance is 0
    assert float(row["penalty_accuracy/line"]) < 0.45
    assert float(row["penalty_explained_variance/bar"]) < 0.15
    assert float(row["penalty_cosine/plane"]) < 0.2


def explained(inputs, outputs):
    """The share of the variance of outputs [n, d] that is linear in inputs [n, m]."""
    inputs = np.column_stack([inputs, np.ones(len(inputs))])
    error = outputs - inputs @ np.linalg.lstsq(inputs, outputs, rcond=None)[0]
    return 1 - error.var(0).sum() / outputs.var(0).sum()


def test_each_component_moves_its_own_factor(skills):
    """Where points are after a skill follows from their own component, and from no other.

    Seeds 0, 1 and 2 have .58 to .92 for number and direction, and at most .01 for the others'
    components. A category may stand for two places, of which this says nothing.
    """
    assert skills.space == make_space(line=Categorical(3), bar=Box(1), plane=Sphere(2))
    stepper = SkillStepper(Points(), skills, 500)
    stepper.reset(0)
    skill = np.asarray(skills.space.sample(jax.random.PRNGKey(0), 500))
    places = stepper.step(skill).next_observation
    code = skills.space.encode(skill, np)
    factors = [places[:, [0]], places[:, [1]], places[:, 2:4]]
    found = np.array(
        [[explained(code[:, part], place) for place in factors] for part in skills.space.inputs]
    )
    assert np.diag(found)[1:].min() > 0.4
    assert (found - np.diag(np.diag(found))).max() < 0.1


def test_they_are_measured_to_be_disentangled(skills):
    """Seeds 0, 1 and 2 have .78 to .80."""
    scores = dusdi.evaluate(skills, Points(), steps=20_000)
    assert scores.disentanglement > 0.65
    assert scores.completeness > 0.65


def test_ppo_learns_to_choose_them(run, skills, tmp_path):
    """Perfect places return 100; seeds 0, 1 and 2 return 90 to 97, random skills -16 to -3."""
    task = Points()
    solution = dusdi.downstream(
        run, task, out=tmp_path, steps=192_000, num_envs=32, rollout_length=5, batch_size=40,
        log_every=16_000, progress=False,
    )  # fmt: skip
    earned = controller_returns(task, solution, episodes=50, seed=1).mean()
    random = random_skill_returns(task, skills, episodes=50, seed=1).mean()
    assert earned > 75
    assert random < 20
    report = measure_task(tmp_path, task, episodes=20)
    assert report["return"] == pytest.approx(earned, abs=8)


def test_other_agents_can_choose_them(skills):
    env = dusdi.SkillEnv(Points(), skills, render_mode="rgb_array")
    check_env(env, skip_render_check=True)
    observation, _ = env.reset(seed=0)
    # Scores of the three categories, a number, and a direction.
    ends = []
    for number in (-1.0, 1.0):
        env.reset(seed=0)
        observation, *_ = env.step(np.array([0, 1, 0, number, 0.6, 0.8], np.float32))
        ends.append(observation)
    assert abs(ends[0][1] - ends[1][1]) > 1
    np.testing.assert_allclose(ends[0][[0, 2, 3]], ends[1][[0, 2, 3]], atol=0.2)
    assert env.render().shape == (64, 64, 3)


def test_they_can_be_looked_at(skills, tmp_path):
    out = dusdi.render(skills, Points(), out=tmp_path / "skills.gif", count=2)
    frames = imageio.imread(out, index=None)
    assert len(frames) >= 2 * 20
    assert np.abs(np.diff(frames.astype(int), axis=0)).max() > 100


def test_a_world_that_terminates_is_learned_by_flat_soft_actor_critic(tmp_path):
    """Every step pays the same, so that staying away from the edges is all there is to learn."""
    solution = dusdi.downstream(
        None, Edge(), out=tmp_path, steps=20_480, num_envs=16, steps_per_update=4, batch_size=128,
        random_steps=640, replay_capacity=20_480, actor_hidden=(32, 32), critic_hidden=(32, 32),
        log_every=2_560, progress=False,
    )  # fmt: skip
    assert controller_returns(Edge(), solution, episodes=50, seed=1).mean() > 47  # of 50
    first, *_, last = log_rows(tmp_path)
    assert float(first["return"]) < 25
    assert float(last["return"]) > 45


def test_hopper_with_its_early_ends_goes_all_the_way(tmp_path):
    pytest.importorskip("mujoco")
    factors = {"torso": "0:2", "leg": "2:5"}
    world = dusdi.from_gymnasium("Hopper-v5", factors, proprioception="5:11")
    small = dict(preset="debug", progress=False)
    skills = dusdi.pretrain(world, out=tmp_path / "skills", steps=1_600, **small)
    with pytest.warns(UserWarning, match="scores mean little"):
        scores = dusdi.evaluate(skills, world, steps=1_000)
    assert np.isfinite(scores.disentanglement)
    task = dict(steps=8_000, rollout_length=10, log_every=2_000, checkpoint_every=8_000)
    solution = dusdi.downstream(tmp_path / "skills", world, out=tmp_path / "task", **task, **small)
    rows = log_rows(tmp_path / "task")
    assert sum(float(row["episodes"]) for row in rows) > 20  # they end long before 1,000 steps
    returns = controller_returns(world, solution, episodes=5, seed=0)
    assert returns.shape == (5, 1)
    assert 0 < returns.mean() < 500
