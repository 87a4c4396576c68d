"""The command line as a person uses it, from pretraining to videos, on one small run."""

import json
import subprocess
import sys
from types import SimpleNamespace

import imageio.v3 as imageio
import pytest

import dusdi
from dusdi.cli import main
from dusdi.errors import UsageError
from dusdi.evaluation import check_expert
from dusdi.skill_space import Component, SkillSpace
from dusdi.spaces import Categorical
from dusdi.tasks import TASKS, make_task


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    words = ["--preset", "debug", "--seeds", "2", "--out", str(folder), "--quiet"]
    assert main(["pretrain", "gunner-2d", *words]) == 0
    return folder


def test_envs_lists_worlds_and_factors(capsys):
    assert main(["envs"]) == 0
    text = capsys.readouterr().out
    words = ("multi-particle", "gunner-2d", "agents=10", "station 0", "ammo state", "70", "50")
    assert all(word in text for word in words)
    one_line = " ".join(text.split())
    assert all(make_task(name).about in one_line for name in TASKS)


def test_pretrain_writes_what_it_promises(run):
    names = {path.name.split(".")[0] for path in run.iterdir()}
    assert {"config", "progress", "checkpoints", "events", "policy-seed0", "policy-seed1"} <= names
    header = (run / "progress.csv").read_text().splitlines()[0]
    assert header.startswith("step,seed,seconds,accuracy,")
    for column in ("accuracy/agent position", "reward/ammo state", "entropy", "loss/critic"):
        assert column in header
    described = json.loads((run / "config.json").read_text())
    assert described["settings"]["preset"] == "debug"
    assert described["settings"]["run"]["seeds"] == 2
    assert described["world"]["name"] == "gunner-2d"


def test_a_default_that_is_asked_for_must_not_contradict_a_run_that_is_resumed(run, capsys):
    resume = ["pretrain", "gunner-2d", "--out", str(run), "--resume", "--quiet"]
    assert main([*resume, "--seeds", "1"]) == 2
    assert "was run with seeds = 2, not 1" in capsys.readouterr().err
    assert main([*resume, "--method", "diayn"]) == 2
    assert "was run with method = dusdi, not diayn" in capsys.readouterr().err
    assert main([*resume, "--seeds", "2"]) == 0


def test_evaluate_prints_json_and_draws_the_heat_map(run, capsys):
    assert main(["evaluate", str(run), "--steps", "2000", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    for name in ("disentanglement", "completeness", "informativeness"):
        assert 0 <= result[name] <= 1
        assert 0 <= result["states_to_skills"][name] <= 1
    assert len(result["seeds"]) == 2
    assert (run / "dci-seed0.png").exists() and (run / "values-seed1.png").exists()
    assert json.loads((run / "dci.json").read_text()) == result


def test_evaluate_prints_a_table(run, capsys):
    assert main(["evaluate", str(run), "--steps", "2000"]) == 0
    text = capsys.readouterr().out
    assert "disentanglement" in text and "±" in text and "states to skills" in text
    assert "ammo state" in text and "nothing to disentangle" not in text


def test_evaluate_says_that_scores_of_one_component_mean_little(tmp_path, capsys):
    words = ["--method", "diayn", "--preset", "debug", "--steps", "640", "--quiet"]
    assert main(["pretrain", "gunner-2d", "--out", str(tmp_path), *words]) == 0
    assert main(["evaluate", str(tmp_path), "--steps", "2000", "--quiet"]) == 0
    assert "with a single component there is nothing to disentangle" in capsys.readouterr().out


def test_evaluate_measures_the_policy_that_is_named_and_the_scripted_expert(run, capsys):
    policy = run / "policy-seed1.safetensors"
    assert main(["evaluate", str(policy), "--steps", "20000", "--expert", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [seed["seed"] for seed in result["seeds"]] == [1]
    assert result["expert"]["disentanglement"] > 0.8


@pytest.mark.parametrize("name", ["skills.gif", "skills.mp4"])
def test_render_makes_a_video_with_the_skill_in_the_frame(run, tmp_path, name):
    out = tmp_path / "videos" / name
    assert main(["render", str(run), "--out", str(out), "--skill", "0,3,1"]) == 0
    frames = imageio.imread(out, index=None)
    assert frames.shape == (50, 480, 800, 3)
    assert (frames[0] != frames[-1]).any()
    other = tmp_path / name
    assert main(["render", str(run), "--out", str(other), "--skill", "0,3,2"]) == 0
    panel = (slice(60, 240), slice(500, 800))
    assert (imageio.imread(other, index=None)[0][panel] != frames[0][panel]).any()


def test_info_and_compare(run, tmp_path, capsys):
    assert main(["info", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["world"]
    picture = tmp_path / "compare.png"
    assert main(["compare", str(run), "--out", str(picture), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["run"] for row in rows] == ["run"] and picture.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["render", "RUN", "--out", "x.avi"], ".mp4 or .gif"),
        (["render", "RUN", "--out", "x.gif", "--skill", "0,9,1"], "0 to 4"),
        (["render", "RUN", "--out", "x.gif", "--skill", "a,b"], "list of numbers"),
        (["pretrain", "gunner-2d", "--out", "RUN"], "already holds a run"),
        (["evaluate", "RUN", "--env-option", "a=1"], "are for a world that is named here"),
        (
            ["downstream", "RUN", "gunner-2d/unlimited", "--epochs", "1e11"],
            "epochs must be at most",
        ),
        (["downstream", "RUN", "gunner-2d/unlimited", "--clip", "nan"], "clip must be a finite"),
        (["downstream", "RUN", "gunner-2d/unlimited", "--run-seed", "5"], "seeds 0 to 1"),
        (
            ["downstream", "RUN", "walker/run"],
            "dusdi: that run learned in 'gunner-2d', but the task is set in 'walker', which has 26 "
            "observations, not 7; name a task in 'gunner-2d', or a run that learned in 'walker'\n",
        ),
    ],
)
def test_mistakes_with_a_run_are_explained(run, capsys, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    assert main([str(run) if word == "RUN" else word for word in words]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []  # nothing was started


def test_experts_know_one_kind_of_skills():
    space = SkillSpace((Component("agent position", Categorical(3)),))
    with pytest.raises(UsageError, match="scripted experts know categorical components of 5"):
        check_expert(SimpleNamespace(space=space), dusdi.make("gunner-2d"))


def test_no_traceback_in_a_real_process(tmp_path):
    command = [sys.executable, "-m", "dusdi", "evaluate", str(tmp_path / "nowhere")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert "holds no run" in result.stderr and "Traceback" not in result.stderr


def test_ctrl_c_outside_of_training_says_so(capsys, monkeypatch):
    def interrupt(words):
        raise KeyboardInterrupt

    monkeypatch.setattr("dusdi.cli.envs.run", interrupt)
    assert main(["envs"]) == 130
    assert capsys.readouterr().err == "dusdi: interrupted\n"


def test_an_unforeseen_error_is_one_sentence_and_a_traceback_if_asked_for(monkeypatch, capsys):
    def fail(words):
        raise KeyError("x")

    monkeypatch.setattr("dusdi.cli.envs.run", fail)
    assert main(["envs"]) == 1
    said = capsys.readouterr().err
    assert "Traceback (in your code)" in said and "in fail" in said  # tests are not the package's
    assert main(["envs", "--debug"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


OWN_WORLD = """
import dusdi

def make():
    factors = {"angle": [0, 1], "speed": [2]}
    return dusdi.from_gymnasium("Pendulum-v1", factors, render_mode="rgb_array")
"""


def test_a_world_of_your_own_by_module_path(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_world.py").write_text(OWN_WORLD)
    monkeypatch.chdir(tmp_path)
    fields = ["--preset", "debug", "--steps", "640", "--quiet"]
    assert main(["pretrain", "my_world:make", "--out", "run", *fields]) == 0
    assert "dusdi evaluate run --env my_world:make" in capsys.readouterr().out
    # a policy file can't say what code to run
    assert main(["evaluate", "run", "--steps", "1000"]) == 2
    assert main(["evaluate", "run", "--steps", "1000", "--env", "./my_world.py:make"]) == 0
