"""Tasks solved with skills or without: learning, resuming bit for bit, refusing what can't fit."""

import dataclasses
import json
import os
import shutil

import numpy as np
import pytest
from conftest import SLIDERS, Sliders, assert_same_result, log_rows, train
from lights import LAMPS, Lights, switches
from test_pretrain import Killed, kill_after_save

import dusdi
from dusdi.cli import main
from dusdi.controller import FlatController, SkillController, load_controller
from dusdi.errors import CheckpointError, UsageError, WorldError
from dusdi.stepping import HostStepper
from dusdi.task_evaluation import (
    controller_returns,
    measure_task,
    random_skill_returns,
    task_for,
)

DEBUG = {"preset": "debug", "progress": False}
pytestmark = pytest.mark.filterwarnings("ignore:the skills were learned in another world")


# --- learning ---


@pytest.mark.parametrize(("agent", "seeds"), [("ppo", 2), ("cpg", 1)])
def test_it_learns_to_choose_the_right_skills(tmp_path, agent, seeds):
    fields = dict(
        steps=30_000,
        num_envs=32,
        rollout_length=2,
        batch_size=64,
        learning_rate=1e-2,
        log_every=3_200,
        epochs=4,
    )
    dusdi.downstream(
        switches(), Lights(), agent=agent, seeds=seeds, out=tmp_path, **DEBUG, **fields
    )
    for seed in range(seeds):
        found = load_controller(tmp_path, seed)
        assert isinstance(found, SkillController) and found.seed == seed
        earned = controller_returns(Lights(), found, episodes=20, seed=1)
        assert earned.sum(1).mean() > 27  # of 30; random skills earn 15
    rows = log_rows(tmp_path)
    assert len({row["seed"] for row in rows}) == seeds
    assert float(rows[0]["return"]) < 25 < float(rows[-1]["return"])
    channels = [float(rows[-1][f"return/{name}"]) for name in "abc"]
    assert sum(channels) == pytest.approx(float(rows[-1]["return"]), rel=1e-4)


@pytest.mark.slow
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
    found = dusdi.downstream(None, Lights(), out=tmp_path, **DEBUG, **fields)
    assert isinstance(found, FlatController)
    assert controller_returns(Lights(), found, episodes=20, seed=1).sum(1).mean() > 27
    rows = [row for row in log_rows(tmp_path) if float(row["episodes"])]
    assert float(rows[0]["return"]) < 20 < float(rows[-1]["return"])
    again = load_controller(tmp_path)
    observation = np.random.default_rng(0).uniform(size=(5, 6)).astype(np.float32)
    nothing = again.decide(observation)
    np.testing.assert_array_equal(again.act(observation, nothing), found.act(observation, nothing))


def test_the_causal_matrix_must_fit_channels_and_components():
    class Odd(Lights):
        causal = np.ones((2, 3), bool)

    with pytest.raises(WorldError, match="a row for each of 3 channels"):
        dusdi.downstream(switches(), Odd(), agent="cpg", **DEBUG)
    Odd.causal = None
    with pytest.raises(UsageError, match="set its `causal`"):
        dusdi.downstream(switches(), Odd(), agent="cpg", **DEBUG)


class PaysItsPlace(Sliders):
    """Pays how far to the right the first slider is."""

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float(observation[0]), *rest


class PaysNothingSensible(Sliders):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float("nan"), *rest


@pytest.fixture(scope="module")
def slider_skills():
    world = dusdi.from_gymnasium(PaysItsPlace, SLIDERS, name="Sliders")
    return train(None, world, seeds=1, steps=640, skill_length=5, mask_steps=0)


def test_tasks_on_the_host_resume_bit_for_bit(slider_skills, tmp_path, monkeypatch):
    """Two seeds; the world can't be saved, so its episodes begin anew at each checkpoint."""
    world = dusdi.from_gymnasium(PaysItsPlace, SLIDERS, name="Sliders")
    fields = dict(num_envs=2, rollout_length=4, batch_size=4, seeds=2, steps=200)
    options = {**DEBUG, **fields, "log_every": 40, "checkpoint_every": 80}
    dusdi.downstream(slider_skills, world, out=tmp_path / "whole", **options)
    kill_after_save(monkeypatch, 2)
    with pytest.raises(Killed):
        dusdi.downstream(slider_skills, world, out=tmp_path / "killed", **options)
    monkeypatch.undo()
    dusdi.downstream(slider_skills, world, out=tmp_path / "killed", resume=True, progress=False)
    assert_same_result(tmp_path / "killed", tmp_path / "whole")
    assert {row["seed"] for row in log_rows(tmp_path / "whole")} == {"0", "1"}


def test_a_reward_that_is_not_finite_is_refused_where_it_counts(slider_skills):
    world = dusdi.from_gymnasium(PaysNothingSensible, SLIDERS, name="Sliders")
    message = r"reward that is not finite \(nan\) in environment 0 after 1 steps"
    with pytest.raises(WorldError, match=message):
        dusdi.downstream(slider_skills, world, **DEBUG)
    train(None, world, seeds=1, steps=640, skill_length=5, mask_steps=0)  # skills ignore it


# --- fine-tuning a flat policy ---


@pytest.fixture(scope="module")
def flat_run(tmp_path_factory):
    """Soft actor-critic on the lamps' reward, hardly trained."""
    folder = tmp_path_factory.mktemp("lights") / "flat"
    train(folder, Lights(), method="sac", seeds=1, steps=640, checkpoint_every=320)
    return folder


def test_fine_tuning_keeps_how_the_policy_is_built(flat_run, tmp_path):
    fields = dict(num_envs=64, steps_per_update=64, replay_capacity=6_400, steps=12_800)
    dusdi.downstream(
        flat_run, Lights(), agent="sac", preset="fast", progress=False, out=tmp_path, **fields
    )
    described = json.loads((tmp_path / "config.json").read_text())
    assert described["settings"]["networks"]["actor_hidden"] == [16, 16]  # the preset has 64, 64
    assert described["start"]["id"] == dusdi.load(flat_run).description["id"]


def test_a_policy_that_can_not_be_fine_tuned_is_refused(flat_run, gunner_run):
    with pytest.raises(UsageError, match="can't start from that policy"):
        dusdi.downstream(flat_run, Lights(), agent="sac", actor_hidden=(8, 16), **DEBUG)
    with pytest.raises(UsageError, match="fine-tunes flat policies, but this run holds skills"):
        dusdi.downstream(gunner_run, "gunner-2d/limited", agent="sac", **DEBUG)
    with pytest.raises(UsageError, match="holds a flat policy and no skills"):
        dusdi.downstream(flat_run, Lights(), agent="ppo", **DEBUG)
    less = type("Less", (Lights,), {"spec": LAMPS})
    with pytest.raises(UsageError, match="without reward, not a task"):
        dusdi.downstream(flat_run, less(), agent="sac", **DEBUG)


def test_a_checkpoint_of_another_step_than_the_policy_is_not_started_from(flat_run, tmp_path):
    copy = shutil.copytree(flat_run, tmp_path / "copy")
    older = sorted((copy / "checkpoints").iterdir())[:-1]
    assert older
    sorted((copy / "checkpoints").iterdir())[-1].unlink()
    with pytest.raises(CheckpointError, match="but the policy beside it of step 640"):
        dusdi.downstream(copy, Lights(), agent="sac", **DEBUG)


# --- runs ---


def test_a_killed_run_resumes_bit_for_bit(gunner_run, task_run, tmp_path, monkeypatch):
    options = {**DEBUG, "steps": 8_000, "checkpoint_every": 4_000, "out": tmp_path / "run"}
    kill_after_save(monkeypatch, 1)
    with pytest.raises(Killed):
        dusdi.downstream(gunner_run, "gunner-2d/limited", **options)
    monkeypatch.undo()
    found = dusdi.downstream(gunner_run, "gunner-2d/limited", resume=True, **options)
    assert found.step == 8_000
    assert_same_result(tmp_path / "run", task_run)


def test_a_run_needs_nothing_but_its_folder(gunner, tmp_path, capsys):
    out = tmp_path / "run"
    dusdi.downstream(gunner, "gunner-2d/unlimited", out=out, steps=4_000, **DEBUG)
    os.rename(gunner, tmp_path / "elsewhere")
    assert main(["evaluate", str(out), "--episodes", "4", "--json"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["scripted_reference"] == 20.0
    assert 0 <= report["return"] <= 20 and 0 <= report["random_skills"] <= 20
    written = json.loads((out / "return.json").read_text())
    assert written["run"]["skills"]["world"]["name"] == "gunner-2d"
    assert main(["evaluate", str(out), "--episodes", "4"]) == 0
    assert "scripted reference" in capsys.readouterr().out
    assert main(["render", str(out), "--out", str(tmp_path / "task.gif"), "--count", "1"]) == 0
    assert (tmp_path / "task.gif").read_bytes().startswith(b"GIF8")
    assert main(["render", str(out), "--out", str(tmp_path / "x.gif"), "--skill", "0,1,2"]) == 2


def test_what_does_not_fit_is_refused_before_anything_is_computed(gunner_run, tmp_path):
    def refused(skills, task, **options):
        with pytest.raises(UsageError) as info:
            dusdi.downstream(skills, task, out=tmp_path / "run", **(DEBUG | options))
        assert not (tmp_path / "run").exists()
        return str(info.value)

    limited = "gunner-2d/limited"
    message = refused(gunner_run, "multi-particle/food-poison-easy")
    assert "learned in 'gunner-2d'" in message and "set in 'multi-particle'" in message
    assert "several reward channels" in refused(gunner_run, limited, agent="cpg")
    assert "did you mean gunner-2d/limited" in refused(gunner_run, "gunner-2d/limits")
    assert "name the run that learned them" in refused(None, limited, agent="ppo")
    assert "unknown setting 'tau'" in refused(gunner_run, limited, tau=0.1)
    assert "unknown setting 'clip'" in refused(None, limited, clip=0.1)
    assert "did you mean ppo" in refused(gunner_run, limited, agent="pppo")
    message = refused(gunner_run, limited, batch_size=700)
    assert "batch_size (700) must not be more than the 80 high-level steps" in message
    assert "without reward, not a task" in refused(gunner_run, dusdi.make("gunner-2d"))
    assert "is not a task" in refused(gunner_run, Sliders())


def test_a_run_is_not_resumed_with_other_skills_or_as_another_kind(gunner_run, task):
    limited = "gunner-2d/limited"
    options = {"out": task, "resume": True, "progress": False}
    with pytest.raises(UsageError, match=rf"builds on other skills.* or remove {task} to begin"):
        dusdi.downstream(dusdi.load(gunner_run, seed=1), limited, **options)
    with pytest.raises(UsageError, match="a run of another kind"):
        dusdi.downstream(None, limited, **options)
    with pytest.raises(UsageError, match="a run of another kind"):
        dusdi.pretrain("gunner-2d", **options)
    with pytest.raises(UsageError, match=r"in another world: .*limited"):
        dusdi.downstream(gunner_run, "gunner-2d/unlimited", **options)
    with pytest.raises(UsageError, match="agent = ppo, not cpg"):
        dusdi.downstream(gunner_run, limited, agent="cpg", **options)
    with pytest.raises(UsageError, match="name the run that learned the skills"):
        dusdi.downstream(task, limited, progress=False)


# --- measuring ---


def test_another_task_is_not_measured_in_place_of_the_runs_own(task):
    message = "not the task of the run, which has the name 'gunner-2d/limited'"
    with pytest.raises(UsageError, match=message):
        measure_task(task, "gunner-2d/unlimited", episodes=2)
    wider = dataclasses.replace(dusdi.make_task("gunner-2d/limited").spec, observation_size=99)
    with pytest.raises(UsageError, match=r"which has 99 observations, not .*; name that \(--env"):
        task_for(wider)  # learned in a wrapper, which no name makes
    report = measure_task(task / "policy.safetensors", episodes=2)
    assert dusdi.evaluate_task(task, episodes=2) == pytest.approx(report["return"])
    solution = dusdi.load_controller(task)
    assert dusdi.evaluate_task(solution, episodes=2) == pytest.approx(report["return"])
    with pytest.raises(UsageError, match=r"are no skills; dusdi.evaluate_task says"):
        dusdi.evaluate(solution)
    assert report["scripted_reference"] == 20.0
    assert json.loads((task / "return.json").read_text()) == report


def test_random_skills_earn_half_of_what_the_lamps_pay():
    """Of 10 steps x 3 lamps, half are as wanted: 15, with a standard error of 0.3."""
    earned = random_skill_returns(Lights(), switches(), episodes=400)
    assert earned.sum(1).mean() == pytest.approx(15, abs=1)


def test_measuring_counts_whole_episodes_only(tmp_path):
    found = dusdi.downstream(switches(), Lights(), steps=3_200, out=tmp_path, **DEBUG)
    stepper = HostStepper(Lights(), 5)
    observation = stepper.reset(0)
    total = np.zeros(5)
    for t in range(10):
        if t % 5 == 0:
            decision = found.decide(observation)
        step = stepper.step(found.act(observation, decision))
        observation = step.observation
        total += step.reward.sum(1)
    measured = controller_returns(Lights(), found, episodes=5, seed=0).sum(1)
    np.testing.assert_allclose(measured, total)
    with pytest.raises(UsageError, match="not one of dusdi's own tasks"):
        measure_task(tmp_path, episodes=2)


def test_flat_learning_says_nothing_about_returns_that_are_not_there_yet(tmp_path, capfd):
    """Until an episode is done, its return is not a number, which TensorBoard would warn of."""
    dusdi.downstream(None, "gunner-2d/limited", out=tmp_path, steps=640, **DEBUG)
    assert [row["return"] for row in log_rows(tmp_path)] == ["nan"]
    assert "NaN" not in "".join(capfd.readouterr())
