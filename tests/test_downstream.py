"""Downstream learning end to end: it learns, resumes bit for bit, refuses what does not fit, and other agents can drive it."""

import csv
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import gymnasium
import jax
import numpy as np
import pytest
from conftest import SLIDERS, Sliders
from dusdi.config import configure
from dusdi.rollout import HostStepper
from gymnasium.utils.env_checker import check_env

import dusdi
from dusdi import checkpoint
from dusdi.cli import main
from dusdi.controller import FlatController, load_controller
from dusdi.envs.base import JaxWorld
from dusdi.errors import UsageError
from dusdi.evaluation import floor_returns, measure_task, returns
from dusdi.hierarchy import GraphHierarchy, Hierarchy
from dusdi.learner import Learner
from dusdi.policy import Skills
from dusdi.types import Factor, WorldSpec


class Lights(JaxWorld):
    """A probe: each of three lamps is on while its action is positive; the task pays for each lamp that is as told.

    What is told is the last three observation entries, drawn anew in each episode of ten steps.
    """

    causal = np.eye(3, dtype=bool)
    spec = WorldSpec(
        "lights/as-told", {}, 6, 3,
        (Factor("a", (0,)), Factor("b", (1,)), Factor("c", (2,)), Factor("task", (3, 4, 5), controlled=False)),
        episode_length=10, channels=("a", "b", "c"),
    )  # fmt: skip

    def reset(self, key):
        return jax.numpy.concatenate(
            [jax.numpy.zeros(3), jax.random.bernoulli(key, shape=(3,)).astype(float)]
        )

    def step(self, state, action, key):
        return state.at[:3].set(action > 0)

    def observe(self, state):
        return state

    def reward(self, state):
        return (state[:3] == state[3:]).astype(float)

    def render(self, state):
        return np.zeros((8, 8, 3), np.uint8)


WORLD = dataclasses.replace(
    Lights.spec, name="lights", observation_size=3, factors=Lights.spec.factors[:3], channels=()
)


class Switches(Skills):
    """Perfect skills for the lamps: component i has two values, off and on."""

    def __init__(self, skill_length=5, **fields):
        config = configure(
            "debug",
            {},
            {"skill_values": 2, "skill_length": skill_length, "mask_steps": 0, **fields},
        )
        state = Learner(WORLD, config).init(
            jax.random.PRNGKey(0), (), jax.numpy.zeros((config.num_envs, 3))
        )
        super().__init__(WORLD, config, state.agent.actor, state.normaliser, seed=0, step=1)

    def mean_action(self, params, observation, skill):
        return jax.numpy.where(skill == 1, 1.0, -1.0) + 0 * observation


@pytest.fixture(scope="module")
def gunner(tmp_path_factory):
    """A run of skill discovery, hardly trained."""
    folder = tmp_path_factory.mktemp("skills") / "gunner"
    dusdi.pretrain("gunner-2d", preset="debug", out=folder, progress=False)
    return folder


def rows_of(folder):
    with (folder / "progress.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# --- the hierarchy ---


def test_a_skill_acts_for_L_steps_and_earns_their_mean():
    hierarchy = Hierarchy(Lights(), Switches(skill_length=5), 4)
    told = hierarchy.restart(0)[:, 3:].astype(int)
    step = hierarchy.step(told)
    np.testing.assert_allclose(step.reward, 1.0)
    np.testing.assert_allclose(hierarchy.step(1 - told).reward, 0.0)


@pytest.mark.parametrize("length", [5, 4])
def test_episodes_end_with_a_skill_or_cut_it_short(length):
    hierarchy = Hierarchy(Lights(), Switches(skill_length=length), 3)
    told = hierarchy.restart(0)[:, 3:].astype(int)
    steps = [hierarchy.step(told) for _ in range(-(-10 // length))]
    assert [bool(step.over.all()) for step in steps] == [False] * (len(steps) - 1) + [True]
    last = 10 - length * (len(steps) - 1)  # steps of the last skill that count
    np.testing.assert_allclose(steps[-1].reward, last / length)
    np.testing.assert_array_equal(steps[-1].successor[:, 3:], told)
    np.testing.assert_array_equal(steps[-1].observation[:, :3], 0)  # a new episode


def test_in_jax_and_on_the_host_skills_do_the_same():
    """The compiled hierarchy against steps of the world one by one."""
    skills, task = Switches(skill_length=5), Lights()
    graph = GraphHierarchy(task, skills, 4)
    carry, observation = jax.jit(graph.init)(jax.random.PRNGKey(3))
    choice = np.array([[0, 1, 0], [1, 1, 1], [0, 0, 0], [1, 0, 1]])
    _, step = jax.jit(graph.step)(skills.params, carry, jax.random.PRNGKey(4), choice)
    expected = (choice == np.asarray(observation)[:, 3:]).astype(float)
    np.testing.assert_allclose(step.reward, expected)
    np.testing.assert_allclose(step.successor[:, :3], choice)


# --- learning ---


@pytest.mark.parametrize("agent", ["ppo", "cpg"])
@pytest.mark.parametrize("seeds", [1, 2])
def test_it_learns_to_choose_the_right_skills(agent, seeds, tmp_path):
    fields = dict(
        steps=30_000,
        num_envs=32,
        rollout_length=2,
        batch_size=64,
        learning_rate=1e-2,
        log_every=3_200,
        epochs=4,
    )
    task = Lights()
    found = dusdi.downstream(
        Switches(),
        task,
        agent=agent,
        preset="debug",
        progress=False,
        seeds=seeds,
        out=tmp_path / "run",
        **fields,
    )
    earned = returns(task, found.decide, found.act, interval=5, episodes=20, seed=1)
    assert earned.sum(1).mean() > 29  # of 30
    rows = rows_of(tmp_path / "run")
    assert len({row["seed"] for row in rows}) == seeds
    assert float(rows[0]["return"]) < float(rows[-1]["return"])
    total = sum(float(rows[-1][f"return/{name}"]) for name in "abc")
    assert total == pytest.approx(float(rows[-1]["return"]), rel=1e-4)


def test_flat_soft_actor_critic_learns_the_same_task_without_skills(tmp_path):
    fields = dict(
        steps=24_000,
        random_steps=1_600,
        num_envs=16,
        actor_lr=1e-2,
        critic_lr=1e-2,
        alpha=0.02,
        discount=0.5,
    )
    found = dusdi.downstream(
        None, Lights(), preset="debug", out=tmp_path / "run", progress=False, **fields
    )
    assert isinstance(found, FlatController)
    assert (
        returns(Lights(), found.decide, found.act, interval=1, episodes=20, seed=1).sum(1).mean()
        > 27
    )
    rows = [row for row in rows_of(tmp_path / "run") if float(row["episodes"])]
    assert float(rows[-1]["return"]) > float(rows[0]["return"])
    again = load_controller(tmp_path / "run")
    observation = np.random.default_rng(0).uniform(size=(5, 6)).astype(np.float32)
    np.testing.assert_array_equal(
        again.act(observation, again.decide(observation)),
        found.act(observation, found.decide(observation)),
    )


def test_fine_tuning_starts_from_the_policy_it_is_given(tmp_path):
    """A flat policy learned without the task's variables goes on with them: at first it acts as before."""
    start = dusdi.pretrain(
        Lights(),
        method="extrinsic",
        preset="debug",
        steps=3_200,
        progress=False,
        out=tmp_path / "flat",
    )
    tuned = dusdi.downstream(
        start,
        Lights(),
        agent="sac",
        preset="debug",
        steps=1_632,
        random_steps=1_600,
        progress=False,
    )
    observation = np.random.default_rng(0).uniform(size=(5, 6)).astype(np.float32)
    nothing = np.zeros((5, 0), np.int32)
    old, new = (
        policy.params.actor["params"]["networks"]["output"]["kernel"]
        for policy in (start, tuned.policy)
    )
    assert np.abs(np.asarray(new) - np.asarray(old)).max() < 0.5  # a few updates away
    assert start.act(observation, nothing).shape == tuned.act(observation, nothing).shape
    factors = (*Lights.spec.factors[:3], Factor("task", (3, 4), controlled=False))
    other = dataclasses.replace(
        Lights.spec, name="lights/less", observation_size=5, factors=factors
    )
    with pytest.raises(UsageError, match="is not set in that world"):
        dusdi.downstream(
            start,
            type("Less", (Lights,), {"spec": other})(),
            agent="sac",
            preset="debug",
            progress=False,
        )


def test_an_actor_taken_over_by_a_task_ignores_what_it_has_not_seen_yet():
    from dusdi.pretraining import make_trainer, start_from

    config = configure("debug", {}, {"method": "extrinsic", "actor_parts": "whole"})
    small = dataclasses.replace(Lights.spec, observation_size=3, factors=Lights.spec.factors[:3])
    learner = Learner(small, config)
    old = learner.init(jax.random.PRNGKey(1), (), jax.numpy.zeros((config.num_envs, 3)))
    params = dusdi.policy.SkillParams(old.agent.actor, old.normaliser)
    trainer = make_trainer(Lights(), config)
    state = start_from(params, trainer.init(), config)
    observation = np.random.default_rng(0).uniform(size=(5, 6)).astype(np.float32)
    nothing = np.zeros((5, 0), np.int32)
    before = learner.agent.mean_action(old.agent.actor, observation[:, :3], nothing)
    after = trainer.learner.agent.mean_action(state.agent.actor, observation, nothing)
    np.testing.assert_allclose(before, after, atol=1e-6)
    later = trainer.advance(trainer.advance(state, 8, True), 50, False)
    unseen = jax.tree.map(
        lambda x: np.asarray(x[3:]), later.agent.actor["params"]["networks"]["state"]["kernel"]
    )
    assert np.abs(unseen).min(axis=(1, 2)).max() > 0  # but learns to use it


def test_a_policy_built_otherwise_can_not_be_taken_over():
    start = dusdi.pretrain(Lights(), method="extrinsic", preset="debug", steps=640, progress=False)
    tuned = dusdi.downstream(start, Lights(), agent="sac", preset="fast", steps=12_800, num_envs=64, steps_per_update=64,
                             replay_capacity=6_400, progress=False)  # fmt: skip
    assert (
        tuned.config.actor_hidden == start.config.actor_hidden
    )  # inherited, whatever the preset says
    with pytest.raises(UsageError, match="can't start from that policy"):
        dusdi.downstream(
            start, Lights(), agent="sac", preset="debug", input_gain=0.0, progress=False
        )


def test_the_causal_matrix_must_fit_channels_and_components():
    class Odd(Lights):
        causal = np.ones((2, 3), bool)

    with pytest.raises(UsageError, match="a row for each of 3 channels"):
        dusdi.downstream(Switches(), Odd(), agent="cpg", preset="debug", progress=False)
    Odd.causal = None
    with pytest.raises(UsageError, match="set its `causal`"):
        dusdi.downstream(Switches(), Odd(), agent="cpg", preset="debug", progress=False)


def test_tasks_on_the_host_are_learned_by_the_same_agent(tmp_path):
    """The sliders' own reward: how far to the right the first one is."""

    class Paid(Sliders):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return observation, float(observation[0]), *rest

    world = dusdi.from_gymnasium(Paid, SLIDERS)
    skills = dusdi.pretrain(
        world, preset="debug", steps=3_200, skill_length=5, mask_steps=0, progress=False
    )
    options = dict(
        preset="debug", progress=False, num_envs=2, rollout_length=4, batch_size=4, log_every=4_000
    )
    found = dusdi.downstream(skills, world, steps=4_000, out=tmp_path / "run", seeds=2, **options)
    rows = rows_of(tmp_path / "run")
    assert {row["seed"] for row in rows} == {"0", "1"}
    assert np.isfinite([float(row["return"]) for row in rows]).all()
    assert found.decide(np.zeros((3, 4), np.float32)).shape == (3, 3)
    again = load_controller(tmp_path / "run", 1)
    assert again.seed == 1


# --- runs ---


def start(arguments):
    command = [sys.executable, "-m", "dusdi.cli", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_killed_run_resumes_bit_for_bit(gunner, tmp_path):
    common = [str(gunner), "gunner-2d/limited", "--preset", "debug", "--steps", "64000", "--quiet"]
    assert main(["downstream", *common, "--out", str(tmp_path / "whole")]) == 0
    process = start(["downstream", *common, "--out", str(tmp_path / "cut")])
    until = time.monotonic() + 120
    while (
        not list((tmp_path / "cut" / "checkpoints").glob("*.safetensors"))
        and time.monotonic() < until
    ):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert main(["downstream", *common, "--out", str(tmp_path / "cut"), "--resume"]) == 0
    states = [checkpoint.load_newest(tmp_path / name / "checkpoints") for name in ("whole", "cut")]
    assert states[0].description["step"] == states[1].description["step"] == 64_000
    for name, array in states[0].arrays.items():
        np.testing.assert_array_equal(array, states[1].arrays[name], err_msg=name)
    first, second = (
        [{k: v for k, v in row.items() if k != "seconds"} for row in rows_of(tmp_path / n)]
        for n in ("whole", "cut")
    )
    assert first == second


def test_a_run_needs_nothing_but_its_folder(gunner, tmp_path, capsys):
    out = tmp_path / "run"
    assert (
        main(
            [
                "downstream",
                str(gunner),
                "gunner-2d/unlimited",
                "--preset",
                "debug",
                "--out",
                str(out),
                "--quiet",
            ]
        )
        == 0
    )
    os.rename(gunner, tmp_path / "elsewhere")
    try:
        assert main(["evaluate", str(out), "--episodes", "4", "--json"]) == 0
        report = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (
            report["hand_written"] == 20.0
            and 0 <= report["return"] <= 20
            and "random_skills" in report
        )
        assert (
            json.loads((out / "return.json").read_text())["run"]["skills"]["world"]["name"]
            == "gunner-2d"
        )
        assert main(["evaluate", str(out), "--episodes", "4"]) == 0
        assert "hand-written solution" in capsys.readouterr().out
        assert main(["render", str(out), "--out", str(tmp_path / "task.gif"), "--count", "1"]) == 0
        assert (tmp_path / "task.gif").stat().st_size > 10_000
        assert main(["render", str(out), "--out", str(tmp_path / "x.gif"), "--skill", "0,1,2"]) == 2
    finally:
        os.rename(tmp_path / "elsewhere", gunner)


def test_what_does_not_fit_is_refused_before_anything_is_computed(gunner, tmp_path, capsys):
    out = ["--preset", "debug", "--out", str(tmp_path / "run"), "--quiet"]

    def refused(*arguments):
        assert main(["downstream", *arguments, *out]) == 2
        assert not (tmp_path / "run").exists()
        return capsys.readouterr().err

    message = refused(str(gunner), "multi-particle/food-poison-easy")
    assert "gunner-2d" in message and "multi-particle/food-poison-easy" in message
    assert "several reward channels" in refused(str(gunner), "gunner-2d/limited", "--agent", "cpg")
    assert "did you mean gunner-2d/limited" in refused(str(gunner), "gunner-2d/limits")
    assert "fine-tunes flat policies" in refused(str(gunner), "gunner-2d/limited", "--agent", "sac")
    assert "name the run that learned them" in refused(
        "scratch", "gunner-2d/limited", "--agent", "ppo"
    )
    assert "is not a setting of agent ppo" in refused(
        str(gunner), "gunner-2d/limited", "--tau", "0.1"
    )
    assert "is not a setting of agent sac" in refused(
        "scratch", "gunner-2d/limited", "--clip", "0.1"
    )
    assert "did you mean ppo" in refused(str(gunner), "gunner-2d/limited", "--agent", "pppo")
    assert "batch_size (7) must divide" in refused(
        str(gunner), "gunner-2d/limited", "--batch-size", "7"
    )
    with pytest.raises(UsageError, match="without reward, not a task"):
        dusdi.downstream(gunner, dusdi.make("gunner-2d"), preset="debug", progress=False)


def test_a_run_is_not_taken_up_with_other_skills_or_as_another_kind(gunner, tmp_path, capsys):
    out = tmp_path / "run"
    assert (
        main(
            [
                "downstream",
                str(gunner),
                "gunner-2d/limited",
                "--preset",
                "debug",
                "--out",
                str(out),
                "--quiet",
            ]
        )
        == 0
    )
    other = tmp_path / "other"
    dusdi.pretrain("gunner-2d", preset="debug", seed=5, out=other, progress=False)
    common = ["gunner-2d/limited", "--out", str(out), "--quiet", "--resume"]
    assert main(["downstream", str(other), *common]) == 2
    assert "builds on other skills" in capsys.readouterr().err
    assert main(["pretrain", "gunner-2d", "--out", str(out), "--resume", "--quiet"]) == 2
    assert main(["downstream", "scratch", *common]) == 2
    assert "another kind" in capsys.readouterr().err
    assert (
        main(
            ["downstream", str(out), "gunner-2d/limited", "--out", str(tmp_path / "new"), "--quiet"]
        )
        == 2
    )
    assert "name the run that learned the skills" in capsys.readouterr().err


# --- other people's agents ---


def test_skill_env_is_a_sound_gymnasium_environment(gunner):
    env = dusdi.SkillEnv("gunner-2d/unlimited", gunner, render_mode="rgb_array")
    assert env.action_space == gymnasium.spaces.MultiDiscrete([5, 5, 5])
    check_env(env, skip_render_check=True)
    first, _ = env.reset(seed=3)
    second, _ = env.reset(seed=3)
    np.testing.assert_array_equal(first, second)
    over = [env.step(env.action_space.sample())[3] for _ in range(20)]
    assert over == [False] * 19 + [True]
    assert env.render().shape == (480, 480, 3)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step([0, 0, 0])
    env.reset()
    with pytest.raises(UsageError, match="0 to 4"):
        env.step([5, 0, 0])
    with pytest.raises(UsageError, match="rgb_array"):
        dusdi.SkillEnv("gunner-2d/unlimited", gunner, render_mode="human")


def test_a_single_component_is_a_plain_number():
    skills = dusdi.pretrain("gunner-2d", method="diayn", preset="debug", steps=640, progress=False)
    env = dusdi.SkillEnv("gunner-2d/limited", skills)
    assert env.action_space == gymnasium.spaces.Discrete(125)
    env.reset(seed=0)
    assert env.step(7)[0].shape == (12,)
    envs = dusdi.SkillVectorEnv("gunner-2d/limited", skills, num_envs=1)
    envs.reset(seed=0)
    assert envs.step(envs.action_space.sample())[0].shape == (1, 12)


def test_another_task_is_not_measured_in_place_of_the_runs_own(gunner, tmp_path):
    dusdi.downstream(
        gunner,
        "gunner-2d/limited",
        preset="debug",
        steps=4_000,
        out=tmp_path / "run",
        progress=False,
    )
    with pytest.raises(
        UsageError, match="not the task of the run, which has the name 'gunner-2d/limited'"
    ):
        measure_task(tmp_path / "run", "gunner-2d/unlimited", episodes=2)
    newest = next((tmp_path / "run" / "checkpoints").glob("*"))
    assert measure_task(newest, episodes=2)["hand_written"] == 20.0
    assert (tmp_path / "run" / "return.json").exists()


def test_the_vector_environment_says_the_same_as_the_hierarchy(gunner):
    envs = dusdi.SkillVectorEnv("gunner-2d/unlimited", gunner, num_envs=3)
    observation, _ = envs.reset(seed=0)
    assert observation.shape == (3, 12) and envs.action_space.shape == (3, 3)
    for t in range(20):
        observation, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
        np.testing.assert_allclose(info["reward/score"], reward)
        assert truncated.all() == (t == 19) and not terminated.any()
    assert (
        info["final_obs"][0][-1] == 20.0 and observation[0, -1] == 0.0
    )  # time: of the end, and of the new beginning
    envs.close()


def test_random_skills_earn_the_same_by_hand_and_in_the_hierarchy():
    """The floor that evaluation reports, against the lamps' known answer: half of what there is."""
    assert floor_returns(Lights(), Switches(), episodes=400).sum(1).mean() == pytest.approx(
        15, abs=1
    )


def test_measuring_counts_whole_episodes_only(tmp_path):
    found = dusdi.downstream(
        Switches(), Lights(), preset="debug", steps=3_200, progress=False, out=tmp_path / "run"
    )
    stepper = HostStepper(Lights(), 5, 10)
    observation, total = stepper.restart(0, stagger=False), np.zeros(5)
    decision = found.decide(observation)
    for t in range(10):
        decision = found.decide(observation) if t == 5 else decision
        step = stepper.step(found.act(observation, decision))
        observation, total = step.observation, total + step.reward.sum(1)
    measured = returns(Lights(), found.decide, found.act, interval=5, episodes=5, seed=0).sum(1)
    np.testing.assert_allclose(measured, total)
    with pytest.raises(UsageError, match="not one of dusdi's own tasks"):
        measure_task(tmp_path / "run", episodes=2)


def test_flat_learning_says_nothing_about_returns_that_are_not_there_yet(tmp_path, capfd):
    """Until an episode is over, its return is not a number, which TensorBoard's writer would complain about."""
    dusdi.downstream(
        None, "gunner-2d/limited", preset="debug", steps=3_200, out=tmp_path / "run", progress=False
    )
    with (tmp_path / "run" / "progress.csv").open() as file:
        assert "nan" in file.read()
    assert "NaN" not in "".join(capfd.readouterr())
