"""`dusdi reproduce` with real training, as small as it can be."""

import json

import pandas as pd
import pytest

from dusdi.cli import main
from dusdi.metrics.dci import NAMES

WORLDS = ("gunner-2d", "household")  # a world in JAX and one on the host
TASK = "gunner-2d/limited"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduce")


def reproduce(folder, *words):
    places = ["--out", str(folder / "results"), "--runs", str(folder / "runs")]
    sizes = ["--steps", "1280", "--task-steps", "4000", "--evaluation-steps", "2000"]
    common = ["--preset", "debug", "--seeds", "1", "--quiet"]
    return main(["reproduce", *words, *common, *sizes, *places])


def records_of(folder, kind):
    paths = (folder / "results" / "records").iterdir()
    found = [json.loads(path.read_text()) for path in paths]
    return {record["name"]: record for record in found if record["job"]["kind"] == kind}


@pytest.mark.filterwarnings("ignore:measured on")
def test_a_table_a_figure_and_their_records(folder, capsys):
    assert reproduce(folder, "table1", "--worlds", *WORLDS, "--methods", "dusdi") == 0
    printed = capsys.readouterr().out.split()
    pictures = [f"table1-{world}-dusdi.png" for world in WORLDS]
    names = [path.rsplit("/", 1)[1] for path in printed]
    assert names == ["table1.csv", "table1.md", "table1.png", *pictures]
    scores = pd.read_csv(folder / "results" / "table1.csv")
    assert len(scores) == 2 * 2 * 2  # worlds, directions, method and scripted reference
    assert scores[list(NAMES)].to_numpy().min() >= 0 and scores[list(NAMES)].to_numpy().max() <= 1
    skills = records_of(folder, "skills")
    record = skills["gunner-2d-dusdi-seed0"]
    assert record["metric"] == "accuracy" and record["curve"]["step"][-1] == 1280
    assert record["seconds"] > 0 and record["cores"] >= 1 and "commit" in record["made_with"]
    runs = {path.name for path in (folder / "runs").iterdir()}
    assert runs == {f"{found['name']}-{found['key']}" for found in skills.values()}


def test_a_figure_of_tasks_uses_the_skills_of_the_table(folder, monkeypatch):
    monkeypatch.setattr("dusdi.experiments.task_figure.EPISODES", 4)
    written = {path: path.stat().st_mtime_ns for path in (folder / "runs").glob("*/config.json")}
    assert len(written) == 2
    assert reproduce(folder, "fig4", "--tasks", TASK, "--methods", "dusdi", "sac") == 0
    assert all(path.stat().st_mtime_ns == time for path, time in written.items())
    finals = pd.read_csv(folder / "results" / "fig4-final.csv")
    assert finals["method"].tolist() == ["dusdi", "sac"]
    assert finals["scripted_expert"].tolist() == [20.0, 20.0]
    assert finals["random_skills"].notna().tolist() == [True, False]
    points = pd.read_csv(folder / "results" / "fig4.csv")
    assert "dusdi" in set(points["method"]) and points["return"].notna().all()


@pytest.mark.filterwarnings("ignore:measured on")
def test_a_run_whose_end_is_damaged_is_finished_again_when_it_is_needed(folder, capsys):
    before = records_of(folder, "dci")["gunner-2d-dusdi-seed0"]
    (folder / "results" / "records" / f"{before['key']}.json").unlink()
    run = next((folder / "runs").glob("gunner-2d-dusdi-seed0-*"))
    newest = max((run / "checkpoints").iterdir())
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(data)
    words = ("table1", "--worlds", *WORLDS, "--methods", "dusdi")
    assert reproduce(folder, *words) == 0
    assert "damaged" in capsys.readouterr().err
    after = records_of(folder, "dci")["gunner-2d-dusdi-seed0"]
    assert after["scores"] == before["scores"] and after["step"] == 1280  # resuming is exact
