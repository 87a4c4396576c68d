"""`dusdi reproduce` end to end on the debug preset: what it writes, and that it goes on where it was stopped."""

import csv
import dataclasses
import json

import pytest

from dusdi.cli import main
from dusdi.envs import WORLDS
from dusdi.errors import UsageError
from dusdi.report import task_curves
from dusdi.reproduce import EXPERIMENTS, Job, Settings, _write_csv, reproduce

HERE = ("gunner-2d", "household")  # a world in JAX and one on the host


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """Tiny runs, shared by all experiments; one after the other, so that the second seed finds compiled what the first needed."""
    folder = tmp_path_factory.mktemp("reproduce")
    fields = {"steps": 1_280, "random_steps": 320}
    options = {"evaluation_steps": 4_000, "worlds": HERE, "progress": False}
    return Settings(folder / "results", folder / "runs", 2, "debug", fields, **options)


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_table1_holds_every_world_method_and_direction_beside_paper_and_oracle(settings):
    files = reproduce("table1", settings)
    assert all(path.stat().st_size for path in files)
    assert {path.name for path in files} >= {"table1.csv", "table1.md", "table1.json", "table1.png"}
    rows = rows_of(settings.out / "table1.csv")
    wanted = {
        (w, m, d)
        for w in HERE
        for m in WORLDS[w].paper_dci
        for d in ("skills to states", "states to skills")
    }
    assert {(row["world"], row["method"], row["direction"]) for row in rows} == wanted
    for row in rows:
        assert (
            float(row["disentanglement_paper"]) == WORLDS[row["world"]].paper_dci[row["method"]][0]
        )
        each = [float(value) for value in row["disentanglement_of_each_seed"].split()]
        assert len(each) == 2 and abs(sum(each) / 2 - float(row["disentanglement"])) < 1e-3
    markdown = (settings.out / "table1.md").read_text()
    assert "oracle" in markdown and "0.864" in markdown and "0.833" in markdown
    runs = json.loads((settings.out / "table1.json").read_text())["runs"]
    assert len(runs) == 2 * len(wanted) / 2
    assert all(
        run["config"]["steps"] == 1_280 and run["seconds"] > 0 and "commit" in run["made_with"]
        for run in runs.values()
    )


def test_what_is_there_is_not_made_again(settings, monkeypatch):
    before = reproduce("table1", settings)[0].read_text()

    def refuse(*args, **kwargs):
        raise AssertionError("trained or measured again")

    monkeypatch.setattr("dusdi.reproduce.pretrain", refuse)
    monkeypatch.setattr("dusdi.reproduce.measure", refuse)
    assert reproduce("table1", settings)[0].read_text() == before


def test_more_factors_measures_larger_worlds_beside_their_oracle(settings, monkeypatch):
    monkeypatch.setattr(WORLDS["multi-particle"], "larger", ({"agents": 3},))
    files = reproduce("more-factors", dataclasses.replace(settings, worlds=("multi-particle",)))
    assert all(path.exists() for path in files)
    rows = rows_of(settings.out / "more-factors.csv")
    assert [row["world"] for row in rows] == ["multi-particle agents=3"] * 2
    assert all(row["disentanglement_oracle"] and not row["disentanglement_paper"] for row in rows)


def test_fig4_has_the_curves_of_skills_beside_floor_and_ceiling_and_shares_their_runs(settings):
    few = dataclasses.replace(
        settings, seeds=1, tasks=("gunner-2d/limited",), task_fields={"steps": 8_000}, jobs=2
    )
    files = reproduce("fig4", few)
    assert all(path.exists() for path in files)
    ends = rows_of(few.out / "fig4-final.csv")
    assert [row["method"] for row in ends] == ["dusdi", "diayn", "diayn-mc", "sac"]
    assert all(float(row["hand_written"]) == 20.0 for row in ends) and ends[0]["random_skills"]
    assert {row["step"] for row in rows_of(few.out / "fig4.csv") if row["method"] == "dusdi"} == {
        "4000",
        "8000",
    }
    curve = [
        float(row["return"]) for row in rows_of(few.out / "fig4.csv") if row["method"] == "dusdi"
    ]
    line = next(
        line
        for line in (few.out / "fig4.md").read_text().splitlines()
        if line.startswith("| dusdi |")
    )
    assert line.split(" | ")[3] == f"{sum(curve) / len(curve):,.1f}"  # while learning
    with pytest.raises(UsageError, match="the first 320 are random"):
        reproduce(
            "fig4",
            dataclasses.replace(
                few, task_fields={"steps": 300}, runs=few.runs / "other", out=few.out / "other"
            ),
        )
    assert not (few.runs / "other").exists()  # refused before skills were trained


def test_a_part_is_made_anew_beside_what_is_kept(settings, tmp_path, monkeypatch):
    ours = dataclasses.replace(settings, out=tmp_path)
    reproduce("table1", ours)
    whole, first, last = rows_of(tmp_path / "table1.csv"), HERE[0], HERE[-1]
    markdown = (tmp_path / "table1.md").read_text()
    kept = json.loads((tmp_path / "table1.json").read_text())["runs"]
    changed = [
        {**row, "disentanglement": "0.5"} for row in whole
    ]  # as if other runs were behind it
    _write_csv(tmp_path / "table1.csv", changed)
    reproduce("table1", dataclasses.replace(ours, worlds=(first,)))
    rows = rows_of(tmp_path / "table1.csv")
    assert [row for row in rows if row["world"] == first] == [
        row for row in whole if row["world"] == first
    ]
    assert [row for row in rows if row["world"] != first] == [
        row for row in changed if row["world"] != first
    ]
    assert json.loads((tmp_path / "table1.json").read_text())["runs"] == kept
    reproduce("table1", dataclasses.replace(ours, worlds=HERE[1:]))
    assert (
        rows_of(tmp_path / "table1.csv") == whole
        and (tmp_path / "table1.md").read_text() == markdown
    )
    monkeypatch.setattr("dusdi.reproduce._train", lambda *args: pytest.fail("trained"))
    with pytest.raises(UsageError, match="evaluation_steps = 4000, but 5000 is wanted"):
        reproduce("table1", dataclasses.replace(ours, worlds=(last,), evaluation_steps=5_000))
    with pytest.raises(UsageError, match="did you mean household"):
        reproduce("table1", dataclasses.replace(ours, worlds=("houshold",)))
    with pytest.raises(UsageError, match="nothing to do with these worlds"):
        reproduce("fig3", dataclasses.replace(ours, worlds=("walker",)))


def test_fig3_has_both_critics_and_shares_the_runs_of_table1(settings):
    reproduce("table1", settings)
    shared = {path.name for path in settings.runs.iterdir()}
    files = reproduce("fig3", settings)
    assert {path.name for path in files} == {"fig3.csv", "fig3.md", "fig3.json", "fig3.png"}
    rows = rows_of(settings.out / "fig3.csv")
    assert {(row["world"], row["critic"]) for row in rows} == {
        (world, critic) for world in HERE for critic in ("with Q decomposition", "without")
    }
    new = {path.name for path in settings.runs.iterdir()} - shared
    assert len(new) == 2 * len(HERE) and all("decompose_q=False" in name for name in new)


def test_a_run_whose_end_is_damaged_is_trained_and_measured_again(settings):
    reproduce("table1", settings)
    job = Job(HERE[-1], 1, {"method": "dusdi"})
    folder = job.folder(settings)
    before = json.loads((folder / "dci.json").read_text())
    newest = max((folder / "checkpoints").iterdir())
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(data)
    with pytest.warns(UserWarning, match="damaged"):
        reproduce("table1", settings)
    after = json.loads((folder / "dci.json").read_text())
    assert (
        after["run"]["step"] == 1_280 and after["importance"] == before["importance"]
    )  # resuming is exact


def test_runs_of_other_settings_are_refused_before_anything_is_trained(settings, monkeypatch):
    reproduce("table1", settings)
    monkeypatch.setattr("dusdi.reproduce.pretrain", lambda *args, **kwargs: pytest.fail("trained"))
    other = Settings(
        settings.out, settings.runs, 3, "debug", {**settings.fields, "alpha": 0.5}, progress=False
    )
    with pytest.raises(UsageError, match=r"holds a run with alpha = .* but 0.5 is wanted"):
        reproduce("table1", other)


def test_the_command_explains_mistakes(capsys, tmp_path):
    assert main(["reproduce", "table9", "--out", str(tmp_path)]) == 2
    assert "did you mean table1" in capsys.readouterr().err
    assert main(["reproduce", "fig3", "--seeds", "0", "--out", str(tmp_path)]) == 2
    assert "seeds" in capsys.readouterr().err
    assert (
        main(
            [
                "reproduce",
                "fig3",
                "--steps",
                "10000",
                "--out",
                str(tmp_path),
                "--runs",
                str(tmp_path),
            ]
        )
        == 2
    )
    assert "random" in capsys.readouterr().err
    assert main(["reproduce", "table1", "--evaluation-steps", "100", "--out", str(tmp_path)]) == 2
    assert "evaluation_steps" in capsys.readouterr().err
    assert main(["reproduce", "table1", "--jobs", "0", "--out", str(tmp_path)]) == 2
    assert "jobs" in capsys.readouterr().err
    assert set(EXPERIMENTS) == {"table1", "fig3", "fig4", "fig6", "more-factors"}


def test_panels_without_a_task_are_left_blank(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("dusdi.report.Figure.savefig", lambda figure, path: drawn.append(figure))
    tasks = "abcde"
    rows = [
        {"task": task, "method": "dusdi", "seed": 0, "step": step, "return": 1.0}
        for task in tasks
        for step in (1, 2)
    ]
    ends = [{"task": task, "hand_written": "", "random_skills": 0.0} for task in tasks]
    task_curves(rows, ends, tmp_path / "x.png", title="five")
    assert [axes.get_title() for axes in drawn[0].axes if axes.axison] == list(tasks)
