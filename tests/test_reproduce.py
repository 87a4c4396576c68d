"""`dusdi reproduce` with real training, as small as it can be."""

import json

import pandas as pd
import pytest

from dusdi.experiments import Settings, reproduce
from dusdi.metrics.dci import NAMES
from dusdi.tasks import SUSD_TASKS

WORLDS = ("gunner-2d", "household")  # a world in JAX and one on the host
TASK = "gunner-2d/limited"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduce")


def make(folder, name, **choice):
    """Reproduces an experiment, as small as it can be."""
    sizes = {"seeds": 1, "preset": "debug", "evaluation_steps": 2_000, "progress": False}
    fields = {"fields": {"steps": 1_280}, "task_fields": {"steps": 8_000}}
    settings = Settings(folder / "results", folder / "runs", **sizes, **fields, **choice)
    return [path.name for path in reproduce(name, settings)]


def records_of(folder, kind):
    paths = (folder / "results" / "records").iterdir()
    found = [json.loads(path.read_text()) for path in paths]
    return {record["name"]: record for record in found if record["job"]["kind"] == kind}


@pytest.mark.filterwarnings("ignore:measured on")
def test_a_table_and_its_records(folder):
    pictures = [f"table1-{world}-dusdi.png" for world in WORLDS]
    files = make(folder, "table1", worlds=WORLDS, methods=("dusdi",))
    assert files == ["table1.csv", "table1.md", "table1.png", *pictures]
    scores = pd.read_csv(folder / "results" / "table1.csv")
    assert len(scores) == 2 * 2 * 2  # worlds, directions, method and scripted reference
    values = scores[list(NAMES)].to_numpy()
    assert values.min() >= 0 and values.max() <= 1
    skills = records_of(folder, "skills")
    record = skills["gunner-2d-dusdi-seed0"]
    assert record["metric"] == "accuracy" and record["curve"]["step"][-1] == 1_280
    assert record["seconds"] > 0 and "commit" in record["made_with"][0]
    runs = {path.name for path in (folder / "runs").iterdir()}
    assert runs == {f"{found['name']}-{found['key']}" for found in skills.values()}


def test_a_figure_of_tasks_uses_the_skills_of_the_table(folder, monkeypatch):
    monkeypatch.setattr("dusdi.experiments.task_figure.EPISODES", 4)
    written = {path: path.stat().st_mtime_ns for path in (folder / "runs").glob("*/config.json")}
    assert len(written) == 2
    make(folder, "fig4", tasks=(TASK,), methods=("dusdi",))
    assert all(path.stat().st_mtime_ns == time for path, time in written.items())
    finals = pd.read_csv(folder / "results" / "fig4-final.csv")
    assert finals["method"].tolist() == ["dusdi"]
    assert finals["scripted_reference"].tolist() == [20.0]
    assert finals["random_skills"].notna().tolist() == [True]
    points = pd.read_csv(folder / "results" / "fig4.csv")
    assert points["step"].tolist()[-1] == 8_000 and points["return"].notna().all()


def test_susds_table_has_discounted_returns(tmp_path, monkeypatch):
    monkeypatch.setattr("dusdi.experiments.susd.EPISODES", 4)
    task = SUSD_TASKS[0]
    assert make(tmp_path, "susd", tasks=(task,), methods=("dusdi",)) == ["susd.csv", "susd.md"]
    found = pd.read_csv(tmp_path / "results" / "susd.csv").iloc[0]
    assert found["task"] == task and found["discounted_scripted_reference"] > 17
    # Two stations, one point each in each of 50 steps; discounted, of 9.562 in all.
    assert abs(found["return"]) <= 100 and abs(found["discounted_return"]) <= 2 * 9.562
    assert [record["job"]["options"] for record in records_of(tmp_path, "skills").values()] == [
        {"layout": 0}
    ]


@pytest.mark.filterwarnings("ignore:measured on")
def test_a_run_that_was_stopped_goes_on_when_it_is_needed(folder):
    """It is put back to its first checkpoint, and measured again."""
    before = records_of(folder, "dci")["gunner-2d-dusdi-seed0"]
    (folder / "results" / "records" / f"{before['key']}.json").unlink()
    run = next((folder / "runs").glob("gunner-2d-dusdi-seed0-*"))
    max((run / "checkpoints").iterdir()).unlink()
    (run / "policy.safetensors").unlink()
    make(folder, "table1", worlds=WORLDS, methods=("dusdi",))
    after = records_of(folder, "dci")["gunner-2d-dusdi-seed0"]
    assert after["scores"] == before["scores"] and after["step"] == 1_280  # resuming is exact
