"""`dusdi config`: what a run would use, and where each value comes from."""

import json
import re

import pytest
from rich.console import Console

import dusdi.cli.config
from dusdi.cli import main
from dusdi.methods import METHODS
from dusdi.resolve import pretrain_groups


def config(capsys, *words):
    assert main(["config", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_value_says_where_it_comes_from(capsys):
    found = config(capsys, "pretrain", "multi-particle", "--penalty-weight", "0.1")
    settings = found["settings"]
    origins = found["origins"]
    assert (settings["method"], settings["preset"]) == ("dusdi", "fast")
    assert settings["sac"]["alpha"] == 0.02 and origins["alpha"] == "world multi-particle"
    assert settings["sac"]["tau"] == 0.05 and origins["tau"] == "preset fast"
    assert settings["objective"]["discriminator_hidden"] == []
    assert origins["discriminator_hidden"] == "dusdi's preset fast"
    assert settings["run"]["skill_length"] == 50 and origins["skill_length"] == "default"
    assert settings["objective"]["penalty_weight"] == 0.1 and origins["penalty_weight"] == "you"
    groups = ("run", "networks", "sac", "objective")
    assert {name for group in groups for name in settings[group]} == set(origins)


def test_only_what_is_not_a_default(capsys):
    found = config(capsys, "pretrain", "gunner-2d", "--preset", "paper", "--seed", "0", "--changed")
    assert found["origins"] == {"seed": "you"}
    assert found["settings"]["run"] == {"seed": 0} and found["settings"]["sac"] == {}


def test_tasks_have_settings_of_their_agent(capsys):
    found = config(capsys, "downstream", "walker/run", "--clip", "0.3")
    assert found["settings"]["agent"] == "ppo"
    assert found["settings"]["ppo"]["clip"] == 0.3 and found["origins"]["clip"] == "you"
    assert found["origins"]["steps"] == "task walker/run"
    found = config(capsys, "downstream", "walker/run", "--agent", "sac")
    assert found["settings"]["method"] == "sac"
    assert found["origins"]["actor_hidden"] == "task walker/run"
    assert found["origins"]["tau"] == "sac's preset fast"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_fits_the_terminal(capsys, monkeypatch, width):
    monkeypatch.setattr(dusdi.cli.config, "console", lambda: Console(width=width))
    words = ["multi-particle", "--components", "station 0=sphere:3", "station 1=box:2"]
    assert main(["config", "pretrain", *words[:1]]) == 0
    text = capsys.readouterr().out
    assert all(len(line) <= width for line in text.splitlines())
    assert re.search(r"^  alpha +0\.02 +world multi-particle( +.*)?$", text, re.M)
    assert re.search(r"^  discriminator_hidden +none +dusdi's preset fast", text, re.M)
    assert text.count("normalise_observations") == 1
    assert main(["config", "pretrain", *words]) == 0
    text = capsys.readouterr().out
    assert all(len(line) <= width for line in text.splitlines())
    assert "sphere:3" in text and "box:2" in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_meaning_of_each_setting_is_whole(capsys, monkeypatch, width):
    monkeypatch.setattr(dusdi.cli.config, "console", lambda: Console(width=width))
    assert main(["config", "pretrain", "gunner-2d"]) == 0
    lines = capsys.readouterr().out.splitlines()
    column = max(4, lines[1].find("meaning"))  # below the setting if there is no such column
    meanings = " ".join(" ".join(line[column:] for line in lines).split())
    for kind in pretrain_groups(METHODS["dusdi"]).values():
        for field in kind.fields().values():
            assert field.metadata["doc"] in meanings


def test_an_agent_that_can_not_learn_a_task_is_refused(capsys):
    assert main(["config", "downstream", "gunner-2d/limited", "--agent", "cpg"]) == 2
    assert "needs a task with several reward channels" in capsys.readouterr().err
