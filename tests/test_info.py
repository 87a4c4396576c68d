"""`dusdi info` and `dusdi compare`: what a folder says, however damaged, and runs side by side."""

import json
import re
import shutil
import subprocess
import sys

import imageio.v3 as imageio
import pytest

import dusdi
from dusdi import compare as module
from dusdi.cli import main
from dusdi.compare import compare
from dusdi.errors import CheckpointError, UsageError
from dusdi.info import read_run
from dusdi.run import locked, run_title


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("info")


@pytest.fixture(scope="module")
def skills(folder):
    options = {"preset": "debug", "steps": 1_280, "alpha": 0.2, "progress": False}
    dusdi.pretrain("gunner-2d", seeds=2, seed=3, out=folder / "skills", **options)
    return folder / "skills"


@pytest.fixture(scope="module")
def task(folder, skills):
    options = {"preset": "debug", "steps": 8_000, "progress": False}
    dusdi.downstream(skills, "gunner-2d/limited", out=folder / "task", **options)
    return folder / "task"


@pytest.fixture(scope="module")
def flat(folder):
    options = {"preset": "debug", "steps": 640, "progress": False}
    dusdi.pretrain("gunner-2d", method="rnd", out=folder / "flat", **options)
    return folder / "flat"


@pytest.fixture
def own(skills, tmp_path):
    """A copy of the run that a test may damage."""
    return shutil.copytree(skills, tmp_path / "own")


def newest(run):
    return max((run / "checkpoints").iterdir())


def change_config(run, **fields):
    described = json.loads((run / "config.json").read_text())
    described["settings"]["run"] |= fields
    (run / "config.json").write_text(json.dumps(described))


def test_a_run_in_short(skills, capsys):
    assert main(["info", str(skills), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["method"], told["world"]["name"]) == ("skills", "dusdi", "gunner-2d")
    assert (told["step"], told["steps"], told["settings"]["run"]["seeds"]) == (1_280, 1_280, 2)
    assert told["changes"] == {"steps": 1_280, "alpha": 0.2}
    assert [row["seed"] for row in told["metrics"]] == [3, 4]
    assert told["made_with"][0]["jax"] and told["seconds"] > 0 and told["steps_per_second"] > 0
    assert not told["running"] and not told["problems"] and told["scores"] is None
    assert "config.json" in told["files"]
    assert told["bytes"] > newest(skills).stat().st_size
    assert told["next"] == [f"dusdi evaluate {skills}"]


def test_words_and_metrics_of_each_component(skills, capsys):
    assert main(["info", str(skills)]) == 0
    text = capsys.readouterr().out
    for word in ("agent position (2)", "alpha 0.2", "3 and the 1 after it", "logged at step"):
        assert word in text
    assert "penalty accuracy" in text
    assert re.search(r"^files +\d+, [\d.]+ MB in all *$", text, re.M)


def test_components_are_listed_in_the_order_of_the_world(own, capsys):
    described = json.loads((own / "config.json").read_text())
    described["world"]["factors"].reverse()
    (own / "config.json").write_text(json.dumps(described))
    assert main(["info", str(own)]) == 0
    table = capsys.readouterr().out.split("logged at step")[1]
    names = re.findall(r"^(agent position|target state|ammo state)", table, re.M)
    assert names == ["target state", "ammo state", "agent position"]


def test_components_at_chance_are_named(own):
    header, *rows = (own / "progress.csv").read_text().splitlines()
    names, values = header.split(","), rows[-1].split(",")
    values[names.index("accuracy/agent position")] = "0.9"
    values[names.index("accuracy/ammo state")] = "0.21"
    values[names.index("accuracy/target state")] = "0.27"
    (own / "progress.csv").write_text(f"{header}\n{','.join(values)}\n")
    assert read_run(own).at_chance == ["ammo state", "target state"]


def test_components_at_chance_of_continuous_skills(own):
    """Discriminators that know nothing explain none of the variance and have a cosine of 0."""
    described = json.loads((own / "config.json").read_text())
    spaces = {"a": "box:1", "b": "box:1", "c": "sphere:3"}
    described["skill_space"] = [{"name": n, "space": space} for n, space in spaces.items()]
    (own / "config.json").write_text(json.dumps(described))
    header = "step,seed,seconds,score,explained_variance/a,explained_variance/b,cosine/c"
    (own / "progress.csv").write_text(f"{header}\n100,0,1.0,0.2,0.02,0.7,0.05\n")
    assert read_run(own).at_chance == ["a", "c"]


@pytest.mark.slow
def test_a_measured_run_has_scores_and_goes_on_to_a_video_and_a_task(own, capsys):
    assert main(["evaluate", str(own), "--steps", "6000", "--quiet"]) == 0
    run = read_run(own)
    assert 0 <= run.score("disentanglement") <= 1 and run.score("return") is None
    assert run.next_commands[0] == f"dusdi render {own} --out skills.mp4"
    assert run.next_commands[1].startswith(f"dusdi downstream {own} gunner-2d/")


def test_a_run_of_a_task(task, capsys):
    run = read_run(task)
    assert (run.is_task, run.method, run.world) == (True, "ppo over dusdi", "gunner-2d/limited")
    assert run.changes == {"steps": 8_000} and run.metric == "return"
    assert run.next_commands == [f"dusdi evaluate {task}"]
    assert main(["info", str(task)]) == 0
    assert "solution of a task" in capsys.readouterr().out


def test_a_policy_without_skills_is_there_for_tasks_to_start_from(flat, capsys):
    assert main(["pretrain", "gunner-2d", "--out", str(flat), "--resume", "--quiet"]) == 0
    said = capsys.readouterr().out
    tuning = f"dusdi downstream {flat} gunner-2d/unlimited --agent sac"
    assert f"steps done; policy in {flat}" in said and f"next: {tuning}\n" in said
    assert "evaluate" not in said
    assert main(["info", str(flat)]) == 0
    assert re.search(r"^kind +policy without skills *$", capsys.readouterr().out, re.M)
    assert read_run(flat).next_commands[0] == tuning
    assert main(["evaluate", str(flat)]) == 2
    assert "no skills whose disentanglement" in capsys.readouterr().err


def test_a_fine_tuned_policy_says_what_it_started_from(flat, tmp_path, capsys):
    options = {"preset": "debug", "steps": 640}
    dusdi.downstream(flat, "gunner-2d/limited", out=tmp_path / "tuned", **options)
    dusdi.downstream(None, "gunner-2d/limited", out=tmp_path / "sac", **options)
    titles = dict.fromkeys(line.split(":")[0] for line in capsys.readouterr().err.splitlines())
    assert list(titles) == ["sac from rnd on gunner-2d/limited", "sac on gunner-2d/limited"]
    assert read_run(tmp_path / "tuned").method == "sac from rnd"
    assert read_run(tmp_path / "sac").method == "sac"


def test_titles_say_what_learns_and_where(skills, task):
    assert run_title(read_run(skills).description) == "dusdi in gunner-2d"
    assert run_title(read_run(task).description) == "ppo over dusdi on gunner-2d/limited"


def test_an_unfinished_run_can_be_resumed(own):
    change_config(own, steps=1_000_000)
    run = read_run(own)
    assert (run.step, run.steps) == (1_280, 1_000_000)
    assert run.next_commands == [f"dusdi pretrain gunner-2d --out {own} --resume"]


def test_a_run_that_is_being_trained_is_not_to_be_resumed(own, capsys):
    change_config(own, steps=1_000_000)
    with locked(own):
        assert main(["info", str(own), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["running"] and found["next"] == []
        assert ("state", "a process is training it now") in read_run(own).lines()
    assert not read_run(own).running


def test_the_lock_of_a_process_that_was_killed_does_not_count(own):
    code = "from pathlib import Path; from dusdi.run import locked; import os, sys\n"
    code += "with locked(Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code, str(own)], check=False)
    assert (own / ".lock").exists()
    assert not read_run(own).running


def test_the_headline_is_the_first_metric_whatever_its_name(own):
    header = "step,seed,seconds,distance,accuracy,distance/a"
    (own / "progress.csv").write_text(f"{header}\n100,0,1.0,0.2,0.3,0.2\n")
    assert read_run(own).metric == "distance"


def test_a_world_of_ones_own_has_to_be_named(own):
    described = json.loads((own / "config.json").read_text())
    described["world"]["name"] = "[/x]"
    (own / "config.json").write_text(json.dumps(described))
    assert read_run(own).next_commands == [f"dusdi evaluate {own} --env YOUR_WORLD"]
    assert main(["info", str(own)]) == 0


def test_arrays_are_not_read(own):
    data = bytearray(newest(own).read_bytes())
    data[-1] ^= 1
    newest(own).write_bytes(data)
    assert read_run(own).problems == []


def empty_config(run):
    (run / "config.json").write_text("")


def forged_config(run):
    (run / "config.json").write_text('{"settings": {"run": {"steps": "many"}}, "world": []}')


def cut_checkpoint(run):
    newest(run).write_bytes(newest(run).read_bytes()[:1_000])


def no_checkpoint(run):
    shutil.rmtree(run / "checkpoints")


def torn_table(run):
    lines = (run / "progress.csv").read_text().splitlines(keepends=True)
    (run / "progress.csv").write_text("".join([*lines[:2], "640.5,x\n", *lines[2:], "1280,3"]))


def table_is_a_folder(run):
    (run / "progress.csv").unlink()
    (run / "progress.csv").mkdir()


def damaged_scores(run):
    (run / "dci.json").write_text("[1, 2")


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (empty_config, "config.json can't be read"),
        (forged_config, "config.json does not describe a run"),
        (cut_checkpoint, "is damaged"),
        (no_checkpoint, "no checkpoint that can be read"),
        (torn_table, "1 rows of progress.csv can't be read"),
        (table_is_a_folder, "progress.csv can't be read"),
        (damaged_scores, "dci.json can't be read"),
    ],
)
def test_damage_is_told_beside_what_is_left(own, capsys, damage, problem):
    damage(own)
    assert main(["info", str(own), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert problem in " ".join(told["problems"])
    assert told["world"]["name"] == "gunner-2d" and told["steps"] == 1_280
    assert told["step"] == (640 if damage is cut_checkpoint else 1_280)
    assert main(["info", str(own)]) == 0


def test_no_run_is_no_run(tmp_path, own, capsys):
    with pytest.raises(CheckpointError, match="holds no run"):
        read_run(tmp_path / "nowhere")
    empty_config(own)
    no_checkpoint(own)
    assert main(["info", str(own)]) == 1
    assert "holds no run: config.json can't be read" in capsys.readouterr().err


# --- side by side ---


def test_runs_are_put_side_by_side_each_kind_in_a_panel(skills, task, own, capsys, monkeypatch):
    panels = []
    monkeypatch.setattr(module, "run_curves", lambda found, path: panels.extend(found))
    change_config(own, steps=1_000_000)
    arguments = [str(skills), str(own), str(task)]
    assert main(["compare", *arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["run"] for row in rows] == ["skills", "own", "task"]
    assert [row["method"] for row in rows] == ["dusdi", "dusdi", "ppo over dusdi"]
    assert [row["steps"] for row in rows] == ["1,280", "1,280 of 1,000,000", "8,000"]
    assert rows[0]["last logged"].startswith("accuracy 0.") and "±" in rows[0]["last logged"]
    assert rows[2]["last logged"].startswith("return ")
    kinds = [(panel.title, panel.metric, panel.chance) for panel in panels]
    assert kinds == [("gunner-2d", "accuracy", 0.2), ("gunner-2d/limited", "return", None)]
    assert {row["run"] for row in panels[0].rows} == {"skills", "own"}


def test_learning_curves_are_drawn(skills, task, tmp_path, capsys):
    twin = shutil.copytree(skills, tmp_path / "skills")
    out = tmp_path / "compare.png"
    arguments = [str(skills), str(twin), str(task), "--out", str(out)]
    assert main(["compare", *arguments]) == 0
    text = capsys.readouterr().out.replace("\n", "")
    assert "logged" in text and str(out) in text
    assert str(skills) in text and str(twin) in text  # whole, whatever the width
    assert imageio.imread(out).ndim == 3
    labels = [row["run"] for row in compare([skills, twin], out)]
    assert labels == [str(skills), str(twin)]  # both are called skills


def test_what_cannot_be_compared_is_said(own, tmp_path):
    with pytest.raises(UsageError, match=r"written as \.png"):
        compare([own], tmp_path / "x.txt")
    (own / "progress.csv").unlink()
    with pytest.raises(UsageError, match="nothing was logged in own"):
        compare([own], tmp_path / "x.png")
