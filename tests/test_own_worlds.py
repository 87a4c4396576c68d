"""Users' own worlds in training, on the command line and under skills."""

import json
import sys

import gymnasium
import jax
import numpy as np
import pytest
from conftest import SLIDERS, Sliders, train

import dusdi
from dusdi.errors import NonFiniteError, UsageError, WorldError
from dusdi.hierarchy import SkillStepper

DEBUG = ["--preset", "debug", "--steps", "640", "--quiet"]


@pytest.fixture(scope="module")
def skills():
    world = dusdi.from_gymnasium(Sliders, SLIDERS)
    return dusdi.pretrain(world, preset="debug", steps=640, progress=False)


def test_a_gymnasium_id_on_the_command_line(tmp_path, monkeypatch, capsys):
    from dusdi.cli import main

    monkeypatch.chdir(tmp_path)
    world = ["gym:Pendulum-v1", "--env-option", "g=9.0"]
    factors = ["--factor", "angle=0:2", "--factor", "speed=2"]
    assert main(["pretrain", *world, *factors, *DEBUG]) == 0
    folder = "runs/gym.Pendulum-v1-dusdi-seed0"
    assert f"evaluate {folder} --env gym:Pendulum-v1 --env-option g=9.0" in capsys.readouterr().out
    described = json.loads((tmp_path / folder / "config.json").read_text())["world"]
    assert (described["name"], described["options"]) == ("Pendulum-v1", {"g": 9.0})
    assert [factor["indices"] for factor in described["factors"]] == [[0, 1], [2]]
    other = ["gym:Pendulum-v1", "--env-option", "g=1"]
    assert main(["pretrain", *other, *factors, *DEBUG, "--resume"]) == 2
    assert main(["pretrain", *world, *factors, *DEBUG, "--resume"]) == 0
    assert main(["evaluate", folder, "--steps", "1000"]) == 2  # a run's file can't say what to make
    env = ["--env", *world]
    assert main(["evaluate", folder, "--steps", "1000", *env]) == 0
    assert main(["render", folder, "--out", "x.gif", "--skill", "0,1", *env]) == 0
    downstream = ["--preset", "debug", "--steps", "2000", "--rollout-length", "4", "--quiet"]
    assert main(["downstream", folder, *world, "--out", "task", *downstream]) == 0
    assert main(["evaluate", "task", "--episodes", "2", *env]) == 0


def test_a_run_of_a_function_goes_on_by_the_name_that_it_has(tmp_path, monkeypatch, capsys):
    from dusdi.cli import main

    def make():
        return Sliders()

    source = "from conftest import Sliders\ndef make(): return Sliders()\n"
    (tmp_path / "slides.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    world = dusdi.from_gymnasium(make, SLIDERS)
    dusdi.downstream(None, world, preset="debug", steps=640, out="run", progress=False)
    words = ["scratch", "./slides.py:make", "--factor", "left=0", "--factor", "middle=1"]
    words += ["--factor", "right=2", *DEBUG]
    assert main(["downstream", *words, "--out", "run", "--resume"]) == 0
    assert main(["evaluate", "run", "--episodes", "1", "--env", "./slides.py:make"]) == 0
    assert main(["downstream", *words]) == 0
    assert "evaluate runs/slides-sac-seed0 --env ./slides.py:make" in capsys.readouterr().out
    written = (tmp_path / "runs/slides-sac-seed0/config.json").read_text()
    assert json.loads(written)["world"]["name"] == "slides"


@pytest.mark.parametrize("env", [gymnasium.make("Pendulum-v1"), Sliders, None, 3])
def test_training_says_how_to_make_a_world(env):
    with pytest.raises(UsageError, match="from_gymnasium"):
        dusdi.pretrain(env)


class Drawn(Sliders):
    """Can be drawn if it is made with a render mode."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def render(self):
        return np.zeros((6, 8, 3), np.uint8) if self.render_mode else None


def test_an_environment_over_skills_is_rendered_without_being_told_the_render_mode(skills):
    world = dusdi.from_gymnasium(Drawn, SLIDERS)
    task = dusdi.SkillEnv(world, skills, render_mode="rgb_array")
    task.reset(seed=0)
    assert task.render().shape == (6, 8, 3)
    task.close()


def test_the_checkpoint_before_a_failure_is_kept(tmp_path):
    class Late(Sliders):
        steps = 0

        def step(self, action):
            Late.steps += 1
            if Late.steps > 1000:
                raise RuntimeError("a bug")
            return super().step(action)

    world = dusdi.from_gymnasium(Late, SLIDERS)
    with pytest.raises(WorldError, match=r"step 63 of environment 8 raised RuntimeError"):
        dusdi.pretrain(world, preset="debug", out=tmp_path / "run", progress=False)
    assert dusdi.load(tmp_path / "run").step == 640


def test_a_policy_with_nans_is_blamed(skills, monkeypatch):
    world = dusdi.from_gymnasium(Sliders, SLIDERS)
    broken = jax.tree.map(lambda x: x * np.nan if x.dtype.kind == "f" else x, skills.params)
    monkeypatch.setattr(skills, "params", broken)
    hierarchy = SkillStepper(world, skills, 2)
    hierarchy.reset(0)
    problem = "the policy for 'Sliders' gives actions that are not finite"
    with pytest.raises(NonFiniteError, match=problem):
        hierarchy.step(np.zeros((2, 3), int))


def test_a_world_is_blamed_for_nans_at_a_reset_in_the_middle_of_a_skill(skills):
    class Ends(Sliders):
        resets = 0

        def reset(self, *, seed=None, options=None):
            observation, info = super().reset(seed=seed)
            self.steps = 0
            self.resets += 1
            return (observation if self.resets < 2 else observation * np.nan), info

        def step(self, action):
            self.steps += 1
            observation, reward, _, truncated, info = super().step(action)
            return observation, reward, self.steps == 3, truncated, info

    class Two:
        made = 0

        def __call__(self):
            self.made += 1
            return Ends() if self.made == 2 else Sliders()

    hierarchy = SkillStepper(dusdi.from_gymnasium(Two(), SLIDERS), skills, 2)
    hierarchy.reset(0)
    with pytest.raises(WorldError, match="non-finite observation"):
        hierarchy.step(np.zeros((2, 3), int))


def test_skills_of_a_world_with_other_factors_are_refused_with_the_reason(skills):
    task = dusdi.from_gymnasium(Sliders, {"left": [0], "middle": [2], "right": [1]})
    with pytest.raises(UsageError, match="in one with factor 'middle' of entries 2, not 1"):
        dusdi.downstream(skills, task, preset="debug", progress=False)


def test_skills_of_a_world_with_other_options_are_said_to_be_so():
    factors = {"angle": [0, 1], "speed": [2]}
    heavy = dusdi.from_gymnasium("Pendulum-v1", factors, g=10.0)
    light = dusdi.from_gymnasium("Pendulum-v1", factors, g=1.0)
    skills = train(None, heavy, seeds=1, steps=640)
    message = r"learned in another world, one with option g = 10\.0, not 1\.0"
    with pytest.warns(UserWarning, match=message):
        dusdi.SkillEnv(light, skills).close()
    with pytest.warns(UserWarning, match=message):
        dusdi.evaluate(skills, light, steps=2_000)


def test_ppo_learns_often_on_own_worlds():
    settings = dusdi.from_gymnasium(Sliders, SLIDERS).task_presets["fast"]["ppo"]
    assert settings["steps"] == 256_000
    assert settings["num_envs"] * settings["rollout_length"] == 128
