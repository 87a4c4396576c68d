"""Decisions that are shorter than skills were learned with, and discounted returns."""

import copy
import json

import imageio.v2 as imageio
import numpy as np
import pytest
from lights import Lights, switches

import dusdi
from dusdi.cli.evaluate import return_rows
from dusdi.controller import SkillController, load_controller
from dusdi.envs.base import Discounting
from dusdi.errors import UsageError
from dusdi.policy import read_policy
from dusdi.rollouts import play_episodes
from dusdi.task_evaluation import controller_returns, measure_task, random_skill_returns

pytestmark = pytest.mark.filterwarnings("ignore:the skills were learned in another world")
DEBUG = {"preset": "debug", "progress": False}


class Discounted(Lights):
    """The mean reward of the second five steps counts half."""

    discounting = Discounting(0.5, 5)
    task_presets = {"fast": {"ppo": {"decision_length": 2}}}


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """PPO with decisions of five steps over skills of 50, in episodes of ten."""
    folder = tmp_path_factory.mktemp("decisions") / "run"
    fields = {"steps": 3_200, "decision_length": 5, "num_envs": 8, "rollout_length": 2}
    dusdi.downstream(switches(skill_length=50), Discounted(), out=folder, **DEBUG, **fields)
    return folder


def test_a_run_remembers_how_long_its_decisions_are(solved):
    found = load_controller(solved)
    assert found.skills.skill_length == 50 and found.interval == 5
    settings = json.loads((solved / "config.json").read_text())["settings"]
    assert settings["run"]["decision_length"] == 5
    assert found.step == 3_200  # 40 rollouts of 8 x 2 decisions of 5 steps
    description, arrays = read_policy(solved / "policy.safetensors")
    before = copy.deepcopy(description)
    del before["settings"]["run"]["decision_length"]  # as runs were described before
    assert SkillController(before, arrays).interval == 50
    before["settings"]["run"]["decision_length"] = -1
    with pytest.raises(dusdi.DusdiError, match="decision_length should be a whole number"):
        SkillController(before, arrays)


def test_decisions_are_made_as_often_in_evaluation(solved):
    found = load_controller(solved)
    asked = []
    decide = found.decide

    def counted(observation):
        asked.append(len(observation))
        return decide(observation)

    found.decide = counted
    controller_returns(Discounted(), found, episodes=3, seed=0)
    assert asked == [3, 3]  # at steps 0 and 5 of ten


@pytest.mark.parametrize(("interval", "draws"), [(0, 1), (5, 2), (2, 5)])
def test_random_skills_are_drawn_as_often_as_decisions_are_made(interval, draws):
    skills = switches(skill_length=50)
    drawn = []
    sample = skills.sample_skills
    skills.sample_skills = lambda count, seed: drawn.append(seed) or sample(count, seed)
    random_skill_returns(Lights(), skills, interval=interval, episodes=2)
    assert len(set(drawn)) == len(drawn) == draws


def test_a_report_has_the_discounted_return_beside_the_plain_one(solved):
    report = measure_task(solved, Discounted(), episodes=40)
    found = report["discounted"]
    assert (found["factor"], found["steps"]) == (0.5, 5)
    # Lamps stay as they are between two decisions, so that an episode of two that are alike
    # returns ten times, and discounted one and a half times, what its lamps earn in a step.
    alike = controller_returns(Lights(), load_controller(solved), episodes=40, seed=0)
    assert report["return"] == pytest.approx(alike.sum(1).mean())
    assert 0.15 * report["return"] == pytest.approx(found["return"], rel=0.2)
    assert report["random_skills"] == pytest.approx(15, abs=2)
    assert found["random_skills"] == pytest.approx(1.5 * 1.5, abs=0.3)
    assert [len(row) for row in return_rows(report)] == [3, 3]
    assert json.loads((solved / "return.json").read_text()) == report


def test_discounted_returns_by_hand():
    """All lamps are wrong for three steps, and right from then on."""
    task = Discounted()
    wrong = iter(range(10))

    def act(observation, decision, state):
        wanted = 2 * observation[:, 3:] - 1
        return -wanted if next(wrong) < 3 else wanted

    weights = np.stack([np.ones(10), task.discounting.weights(10)])
    options = {"interval": 1, "episodes": 2, "seed": 0, "weights": weights}
    earned = play_episodes(task, lambda observation: observation, act, **options)
    # Three lamps: 3 x 7 in all; means of 3 x 2 / 5 and of 3, which counts half.
    np.testing.assert_allclose(earned.sum(2), [[21, 21], [1.2 + 1.5] * 2])


def test_tasks_without_a_discount_have_no_discounted_return(solved):
    assert "discounted" not in measure_task(solved, Lights(), episodes=2)


@pytest.mark.parametrize(("given", "steps"), [({}, 5), ({"decision_length": 5}, 2)])
def test_skill_environments_take_the_tasks_length_or_another_one(given, steps):
    env = dusdi.SkillEnv(Discounted(), switches(skill_length=50), **given)
    wanted = env.reset(seed=0)[0][3:].astype(int)
    ends = [env.step(wanted)[1:4] for _ in range(steps)]
    assert ends == [(3.0, False, False)] * (steps - 1) + [(3.0, False, True)]
    envs = dusdi.SkillVectorEnv(Discounted(), switches(skill_length=50), 2, **given)
    envs.reset(seed=0)
    choice = np.zeros((2, 3), int)
    ends = [envs.step(choice)[3].all() for _ in range(steps)]
    assert ends == [False] * (steps - 1) + [True]


def test_by_default_a_decision_is_as_long_as_the_skills_were_learned_with():
    env = dusdi.SkillEnv(Lights(), switches(skill_length=5))
    env.reset(seed=0)
    assert [env.step([0, 0, 0])[3] for _ in range(2)] == [False, True]
    with pytest.raises(UsageError, match="decision_length must be at least 0"):
        dusdi.SkillEnv(Lights(), switches(), decision_length=-1)


def test_a_video_shows_so_many_decisions(solved, tmp_path):
    path = dusdi.render_task(solved, Discounted(), tmp_path / "task.gif", count=3)
    assert len(imageio.mimread(path)) == 3 * 5
