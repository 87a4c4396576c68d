"""Figure 5: which runs see the world through which encoder, and that all of it runs."""

from functools import partial

import pandas as pd
import pytest

from dusdi.experiments import Settings, fig5, reproduce
from dusdi.experiments.jobs import encoder_job, is_trained, make_environment
from dusdi.experiments.provenance import mixed_settings
from dusdi.experiments.records import read_record
from dusdi.experiments.results import Results

TASK = "multi-particle/food-poison-medium"


def by_name(cells, kind):
    return {cell.labels["method"]: cell.job for cell in cells if cell.job.kind == kind}


def test_all_seeds_share_two_encoders_and_states_need_none():
    cells = fig5.cells(Settings(tasks=(TASK,), seeds=2))
    encoders = by_name(cells, "encoder")
    assert set(encoders) == {"pictures, labels", "pictures, no labels"}
    assert encoders["pictures, labels"].key != encoders["pictures, no labels"].key
    tasks = by_name(cells, "task")
    assert list(tasks) == [
        "dusdi, states", "dusdi, pictures, labels", "dusdi, pictures, no labels",
        "diayn, pictures, labels", "cic, pictures, labels",
    ]  # fmt: skip
    assert tasks["dusdi, states"].encoder is None
    for seen in ("pictures, labels", "pictures, no labels"):
        job = tasks[f"dusdi, {seen}"]
        assert job.encoder == encoders[seen] and job.key != tasks["dusdi, states"].key
    assert set(by_name(cells, "dci")) == {name for name in tasks if name.startswith("dusdi")}


def test_skills_from_states_are_those_of_the_other_figures():
    settings = Settings(tasks=(TASK,), seeds=1)
    states = by_name(fig5.cells(settings), "task")["dusdi, states"]
    assert states.inputs[0].key == settings.skills("multi-particle", "dusdi", 0).key


@pytest.mark.slow
def test_figure_5_from_training_to_table(tmp_path, monkeypatch):
    monkeypatch.setattr(fig5, "encoder_job", partial(encoder_job, updates=2, batch_size=4))
    monkeypatch.setattr(fig5, "SEEN", {"dusdi": ("pictures, no labels",)})
    monkeypatch.setattr("dusdi.experiments.task_figure.EPISODES", 1)
    settings = Settings(
        out=tmp_path / "results", runs=tmp_path / "runs", seeds=1, preset="debug",
        fields={"steps": 640}, task_fields={"steps": 8_000}, evaluation_steps=2_000,
        tasks=(TASK,), methods=("dusdi",), progress=False,
    )  # fmt: skip
    files = reproduce("fig5", settings)
    assert {path.name for path in files} >= {"fig5.md", "fig5.png", "fig5-dci.csv"}
    text = (tmp_path / "results" / "fig5.md").read_text()
    assert "| pictures, no labels | station |" in text
    scores = pd.read_csv(tmp_path / "results" / "fig5-dci.csv")
    assert "skills to states, true factors" in set(scores["direction"])
    cells = fig5.cells(settings)
    encoder = by_name(cells, "encoder")["pictures, no labels"]
    assert is_trained(encoder, settings.runs)
    seen = make_environment(by_name(cells, "task")["dusdi, pictures, no labels"], settings.runs)
    record = read_record(settings.folders.records, encoder)
    assert record["digest_of_encoder"] == seen.spec.options["encoder"]
    # Nothing is trained again, and other encoders are other runs.
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.safetensors")}
    reproduce("fig5", settings)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.safetensors")}
    assert after == before
    # What is damaged is trained again, to the same encoder; runs behind it count as not trained.
    (encoder.folder(settings.runs) / "encoder.safetensors").write_bytes(b"damaged")
    skills = by_name(cells, "dci")["dusdi, pictures, no labels"].run
    assert not is_trained(encoder, settings.runs) and not is_trained(skills, settings.runs)
    (settings.folders.records / f"{encoder.key}.json").unlink()
    reproduce("fig5", settings)
    assert is_trained(encoder, settings.runs) and is_trained(skills, settings.runs)


def test_without_disentangled_skills_there_is_no_dci(tmp_path):
    settings = Settings(out=tmp_path, tasks=(TASK,), methods=("diayn",), seeds=1)
    cells = fig5.cells(settings)
    assert not by_name(cells, "dci")
    assert fig5.write(Results("fig5", settings, [], {}, cells)) == [tmp_path / "fig5.md"]
    assert mixed_settings(fig5.cells(Settings(seeds=1))) == []
