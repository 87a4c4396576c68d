"""The command line as a person uses it: in a process of its own where exit codes and output matter."""

import json
import subprocess
import sys

import imageio.v3 as imageio
import pytest

import dusdi
from dusdi.cli import main


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert (
        main(
            [
                "pretrain",
                "gunner-2d",
                "--preset",
                "debug",
                "--seeds",
                "2",
                "--out",
                str(folder),
                "--quiet",
            ]
        )
        == 0
    )
    return folder


def test_envs_lists_worlds_and_factors(capsys):
    assert main(["envs"]) == 0
    text = capsys.readouterr().out
    assert all(
        word in text
        for word in (
            "multi-particle",
            "gunner-2d",
            "agents=10",
            "station 0",
            "ammo state",
            "70",
            "50",
        )
    )


def test_pretrain_writes_what_it_promises(run):
    names = {path.name.split(".")[0] for path in run.iterdir()}
    assert {"config", "progress", "checkpoints", "events"} <= names
    header = (run / "progress.csv").read_text().splitlines()[0]
    for column in (
        "step,seed,seconds,accuracy,",
        "accuracy/agent position",
        "reward/ammo state",
        "entropy",
        "loss/critic",
    ):
        assert column in header
    described = json.loads((run / "config.json").read_text())
    assert described["config"]["preset"] == "debug" and described["world"]["name"] == "gunner-2d"
    assert described["made_with"]["jax"]


def test_evaluate_prints_json_and_draws_the_heat_map(run, capsys):
    assert main(["evaluate", str(run), "--steps", "2000", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    scores = ("disentanglement", "completeness", "informativeness")
    assert all(
        0 <= result[name] <= 1 and 0 <= result["states_to_skills"][name] <= 1 for name in scores
    )
    assert [len(result["importance"]), len(result["importance"][0])] == [3, 3]
    assert len(result["seeds"]) == 2
    assert (run / "dci-seed0.png").stat().st_size > 1000 and json.loads(
        (run / "dci.json").read_text()
    ) == result


def test_evaluate_prints_a_table(run, capsys):
    assert main(["evaluate", str(run), "--steps", "2000"]) == 0
    text = capsys.readouterr().out
    assert "disentanglement" in text and "±" in text and "states to skills" in text


def test_evaluate_shows_the_oracle_beside_the_skills(run, capsys):
    assert main(["evaluate", str(run), "--steps", "20000", "--oracle", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["oracle"]["disentanglement"] > 0.8


def test_evaluate_measures_the_checkpoint_that_is_named(run, capsys):
    older, _ = sorted((run / "checkpoints").iterdir())
    assert main(["evaluate", str(older), "--steps", "2000"]) == 0
    assert str(run / "dci.json") in capsys.readouterr().out.replace("\n", "")
    assert json.loads((run / "dci.json").read_text())["run"]["step"] == int(
        older.stem.removeprefix("step-")
    )


def test_evaluate_refuses_an_oracle_of_another_kind_of_skills(tmp_path, capsys):
    folder = str(tmp_path / "run")
    fields = ["--preset", "debug", "--steps", "640", "--skill-values", "3"]
    assert main(["pretrain", "gunner-2d", *fields, "--out", folder, "--quiet"]) == 0
    assert main(["evaluate", folder, "--oracle"]) == 2
    assert "oracles know discrete components of 5 values" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["skills.gif", "skills.mp4"])
def test_render_makes_a_video_with_the_skill_in_the_frame(run, tmp_path, name):
    out = tmp_path / "videos" / name
    assert main(["render", str(run), "--out", str(out), "--skill", "0,3,1"]) == 0
    frames = imageio.imread(out, index=None)
    assert frames.shape == (50, 480, 800, 3)
    assert (frames[0] != frames[-1]).any()
    other = tmp_path / name
    assert main(["render", str(run), "--out", str(other), "--skill", "0,3,2"]) == 0
    panel = (slice(None), slice(60, 240), slice(500, 800))
    assert (imageio.imread(other, index=None)[0][panel[1:]] != frames[0][panel[1:]]).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pretrain", "guner-2d"], "did you mean gunner-2d"),
        (["pretrain", "gunner-2d", "--method", "dusdy"], "did you mean dusdi"),
        (["pretrain", "gunner-2d", "--preset", "fst"], "did you mean fast"),
        (["pretrain", "gunner-2d", "--alhpa", "1"], "did you mean --alpha"),
        (["pretrain", "gunner-2d", "--alpha", "much"], "argument --alpha"),
        (["pretrain", "gunner-2d", "--alpha", "-1"], "alpha must be positive"),
        (["pretrain", "gunner-2d", "--env-option", "agents=3"], "does not take these options"),
        (["pretrain", "multi-particle", "--env-option", "agents=0"], "agents"),
        (["pretrain", "no.such.module:world"], "can't import"),
        (["evaluat", "x"], "evaluate"),
        (["render", "RUN", "--out", "x.avi"], ".mp4 or .gif"),
        (["render", "RUN", "--out", "x.gif", "--skill", "0,9,1"], "0 to 4"),
        (["render", "RUN", "--out", "x.gif", "--skill", "a,b"], "list of numbers"),
        (["pretrain", "gunner-2d", "--out", "RUN"], "already holds a run"),
    ],
)
def test_mistakes_are_explained_and_exit_with_2(
    run, capsys, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    try:
        code = main([str(run) if text == "RUN" else text for text in arguments])
    except SystemExit as error:
        code = error.code
    assert code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()  # nothing was started


def test_no_traceback_in_a_real_process(tmp_path):
    command = [sys.executable, "-m", "dusdi.cli", "evaluate", str(tmp_path / "nowhere")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (
        result.returncode == 1
        and "holds no run" in result.stderr
        and "Traceback" not in result.stderr
    )


def test_ctrl_c_outside_of_training_says_so(capsys, monkeypatch):
    def interrupt(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("dusdi.cli._envs", interrupt)
    assert main(["envs"]) == 130
    assert capsys.readouterr().err == "dusdi: interrupted\n"


def test_help_explains_every_field(capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["pretrain", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert exit_info.value.code == 0
    for field in dusdi.Config.fields().values():
        if field.name not in ("preset", "method"):
            assert f"--{field.name.replace('_', '-')}" in text
            assert " ".join(field.metadata["doc"].split())[:20] in text


def test_a_world_of_your_own_by_module_path(tmp_path, monkeypatch):
    (tmp_path / "my_world.py").write_text(
        "import dusdi\n"
        "def make():\n"
        "    return dusdi.from_gymnasium('Pendulum-v1', {'angle': [0, 1], 'speed': [2]}, render_mode='rgb_array')\n"
    )
    monkeypatch.chdir(tmp_path)
    fields = ["--preset", "debug", "--steps", "640", "--quiet"]
    assert main(["pretrain", "my_world:make", "--out", "run", *fields]) == 0
    assert (
        main(["evaluate", "run", "--steps", "1000"]) == 2
    )  # an untrusted file can't say what code to run
    assert main(["evaluate", "run", "--steps", "1000", "--env", "my_world:make"]) == 0
