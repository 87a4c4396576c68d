"""Tables and figures from canned records: what is shown, and what a page says."""

import dataclasses
import re

import pandas as pd
from canned import FIRST, SECOND, dci_scores, page, row

from dusdi.envs import WORLDS
from dusdi.experiments import ablation, fig3, reproduce
from dusdi.experiments.provenance import mixed_settings
from dusdi.experiments.settings import Cell
from dusdi.methods.dusdi import Dusdi
from dusdi.metrics.dci import NAMES

# --- tables of DCI ---


def test_table1_has_means_over_seeds_beside_reference_and_paper(fake, settings):
    reproduce("table1", settings)
    text = page(settings, "table1")
    mean = "0.550 ± 0.071"  # 0.5 and 0.6, which deviate by 0.1 / √2
    assert row(text, "dusdi, skills to states") == [mean, mean, mean, "2"]
    assert row(text, "scripted reference, states to skills") == ["0.900"] * 3 + [""]
    assert row(text, "paper, dusdi") == ["0.864", "0.864", "0.897", ""]
    assert WORLDS[SECOND].published_note in text
    frame = pd.read_csv(settings.out / "table1.csv")
    assert len(frame) == 2 * (2 + 3 * 2 * 2)
    assert frame[frame["method"] == "dusdi"]["seed"].tolist()[:4] == [0, 0, 1, 1]
    records = {path.stem for path in (settings.out / "records").iterdir()}
    assert set(frame["key"]) <= records


def test_pictures_of_runs_are_copied_and_never_through_a_link(fake, settings, tmp_path):
    reproduce("table1", settings)
    for folder in settings.runs.iterdir():
        (folder / "dci.png").write_bytes(b"new")
    target = settings.out / f"table1-{FIRST}-dusdi.png"
    (tmp_path / "elsewhere").write_bytes(b"old")
    target.symlink_to(tmp_path / "elsewhere")
    reproduce("table1", settings)
    assert (tmp_path / "elsewhere").read_bytes() == b"old"
    assert target.read_bytes() == b"new" and not target.is_symlink()


def test_scores_that_were_not_measured_are_a_dash(fake, settings):
    def half(job):
        return dci_scores(0.5) | {"states to skills": dict.fromkeys(NAMES)}

    fake.scores["dci"] = half
    reproduce("table1", dataclasses.replace(settings, worlds=(FIRST,)))
    assert row(page(settings, "table1"), "dusdi, states to skills") == ["–"] * 3 + ["2"]


def test_more_than_four_methods_are_in_the_table_and_in_the_figure(fake, settings, monkeypatch):
    drawn = []
    monkeypatch.setattr("dusdi.report.style.save", lambda figure, path: drawn.append(figure))
    names = [f"method {i}" for i in range(6)]
    kinds = {name: type(name, (Dusdi,), {"name": name}) for name in names}
    monkeypatch.setattr("dusdi.methods.METHODS", kinds)
    monkeypatch.setattr(WORLDS[FIRST], "published_dci", dict.fromkeys(names, (0.1, 0.2, 0.3)))
    ours = dataclasses.replace(settings, worlds=(FIRST,), seeds=1, methods=tuple(names))
    reproduce("table1", ours)
    text = page(settings, "table1")
    assert all(row(text, f"{name}, skills to states")[0] == "0.500" for name in names)
    legend = {label.get_text() for label in drawn[0].legends[0].get_texts()}
    assert legend == {*names, "scripted reference", "paper"}
    assert all(len(axes.patches) == 6 * 3 for axes in drawn[0].axes)


def test_more_factors_are_measured_in_larger_worlds(fake, settings):
    larger = next(name for name in WORLDS if WORLDS[name].larger)
    reproduce("more-factors", dataclasses.replace(settings, worlds=(larger,), seeds=1))
    places = re.findall("^## (.*)$", page(settings, "more-factors"), re.M)
    options = [
        f"{k}={v}" for larger_options in WORLDS[larger].larger for k, v in larger_options.items()
    ]
    assert places == [f"{larger} {option}" for option in options]
    assert "paper, dusdi" not in page(settings, "more-factors")


# --- figure 3 and the ablation ---


def test_fig3_tells_the_median_of_steps_to_a_level(fake, settings):
    def curve(job):
        slow = "seed1" in job.name or "False" in job.name
        return {"step": [10, 20], "accuracy": [0.4, 0.45 if slow else 0.6], "return": [0, 0]}

    fake.curve = curve
    reproduce("fig3", dataclasses.replace(settings, worlds=(FIRST,), seeds=3))
    text = page(settings, "fig3")
    lines = [line for line in text.splitlines() if line.startswith(f"| {FIRST}")]
    assert "| 0.550 ± 0.087 | 20 (2 of 3) | 20 |" in lines[0]
    assert "| 0.450 ± 0.000 | never (0 of 3) | 20 |" in lines[1]
    assert len(pd.read_csv(settings.out / "fig3.csv")) == 2 * 3 * 2


def test_the_ablation_tells_differences_to_the_preset_of_the_same_seed(fake, settings, monkeypatch):
    decisions = {"other alpha": {"alpha": 0.5}, "as it is": {"num_envs": 16}}
    monkeypatch.setattr(ablation, "DECISIONS", decisions)
    scores = {"dusdi-seed100": 0.9, "dusdi-seed101": 0.8}
    scores |= {"dusdi-alpha=0.5-seed100": 0.7, "dusdi-alpha=0.5-seed101": 0.7}
    fake.scores["dci"] = lambda job: dci_scores(scores[job.name.removeprefix(f"{FIRST}-")])
    reproduce("ablation", dataclasses.replace(settings, worlds=(FIRST,)))
    text = page(settings, "ablation")
    assert row(text, "debug")[0] == "0.850 ± 0.071"
    # The differences are −0.2 and −0.1.
    assert row(text, "other alpha")[0] == "-0.150 ± 0.071"
    assert "as it is" not in text  # the preset has that number already
    assert "seeds 100 to 101" in text


def test_every_decision_of_the_ablation_is_possible_and_changes_some_world(settings):
    cells = ablation.cells(dataclasses.replace(settings, preset="fast", worlds=(), seeds=1))
    labels = {cell.labels["method"] for cell in cells}
    assert labels >= {"fast", *ablation.DECISIONS}  # and what single worlds say


# --- what a page says of where it comes from ---


def test_parts_of_different_commits_are_told(fake, settings):
    reproduce("table1", dataclasses.replace(settings, seeds=1))
    assert "Mixed" not in page(settings, "table1")
    fake.commit = "bbb"
    fake.cores = 2
    reproduce("table1", settings)
    text = page(settings, "table1")
    assert "- Trained at commit aaa, bbb." in text
    assert "- **Mixed commits**: parts of this were made by different code." in text
    assert "- **Mixed cores**: 1, 2." in text


def test_settings_in_which_compared_runs_differ_are_told(fake, settings, monkeypatch):
    ours = dataclasses.replace(settings, worlds=(FIRST,), seeds=1)
    reproduce("fig3", ours)
    assert "Mixed" not in page(settings, "fig3")  # Q decomposition differs on purpose
    job = fig3.cells(ours)[0].job
    other = {**job.settings, "sac": {**job.settings["sac"], "tau": 0.5}}
    cells = [
        Cell({"world": FIRST, "method": "a", "seed": 0}, job),
        Cell({"world": FIRST, "method": "b", "seed": 0}, dataclasses.replace(job, settings=other)),
    ]
    usual = job.settings["sac"]["tau"]
    expected = f"**Mixed settings** in {FIRST}: tau {usual} (a), 0.5 (b)."
    assert mixed_settings(cells) == [expected]


def test_methods_have_settings_of_their_own_but_as_many_steps(settings):
    def cell(method, **changes):
        job = settings.skills(FIRST, method, 0, fields=changes)
        return Cell({"world": FIRST, "method": method, "seed": 0}, job)

    assert mixed_settings([cell("dusdi"), cell("diayn", tau=0.5)]) == []
    told = f"**Mixed settings** in {FIRST}: steps 2560 (dusdi), 1280 (diayn)."
    assert mixed_settings([cell("dusdi"), cell("diayn", steps=1280)]) == [told]
    told = f"**Mixed settings** in {FIRST}: tau 0.05 (dusdi), 0.5 (dusdi)."
    assert mixed_settings([cell("dusdi"), cell("dusdi", tau=0.5)]) == [told]
