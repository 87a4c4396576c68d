"""Tables and figures from canned records: what is run, what is shown, and what a page says."""

import dataclasses
import re
import sys

import pandas as pd
import pytest

from dusdi import experiments
from dusdi.envs import WORLDS
from dusdi.errors import DusdiError, UsageError
from dusdi.experiments import Settings, ablation, fig3, reproduce
from dusdi.experiments.fig4 import cells as fig4_cells
from dusdi.experiments.provenance import mixed_settings
from dusdi.experiments.records import write_record
from dusdi.experiments.settings import Cell, paper_worlds
from dusdi.methods.dusdi import Dusdi
from dusdi.metrics.dci import NAMES
from dusdi.tasks import COMPARED_TASKS, SUSD_TASKS, make_task

FIRST, SECOND = "gunner-2d", "household"


class Fake:
    """Does jobs without any work: records come from functions of the job, by kind."""

    def __init__(self):
        self.done = []
        self.commit = "aaa"
        self.cores = 1
        self.scores = {
            "dci": lambda job: dci_scores(0.5 + 0.1 * job.settings["seed"]),
            "expert": lambda job: dci_scores(0.9),
            "return": lambda job: {"return": 5.0, "random_skills": 1.0, "scripted_reference": 9.0},
        }
        self.curve = lambda job: {"step": [10, 20], "return": [1.0, 3.0], "accuracy": [0.4, 0.6]}

    def __call__(self, job, folders, progress=False):
        self.done.append(f"{job.kind} {job.name}")
        made = {"commit": self.commit, "cores": self.cores}
        record = {"measured_with": made, "made_with": [made], "seconds": 2.0}
        if job.kind in self.scores:
            record["scores"] = self.scores[job.kind](job)
        else:
            job.folder(folders.runs).mkdir(parents=True, exist_ok=True)
            curve = self.curve(job)
            metric = "accuracy" if job.kind == "skills" else "return"
            seconds = [float(step) for step in curve["step"]]
            record["metric"] = metric
            record["curve"] = {"step": curve["step"], "seconds": seconds, metric: curve[metric]}
        return write_record(folders.records, job, record)

    def take(self):
        """Returns what was done since the last time."""
        done = self.done
        self.done = []
        return done


def dci_scores(value):
    each = dict.fromkeys(NAMES, value)
    return {"skills to states": each, "states to skills": each}


@pytest.fixture
def fake(monkeypatch):
    made = Fake()
    monkeypatch.setattr(experiments, "run", made)
    there = "dusdi.experiments.running.is_trained"
    monkeypatch.setattr(there, lambda job, runs: job.folder(runs).exists())
    return made


@pytest.fixture
def settings(tmp_path):
    options = {"seeds": 2, "preset": "debug", "worlds": (FIRST, SECOND), "progress": False}
    return Settings(tmp_path / "results", tmp_path / "runs", **options)


def page(settings, name):
    return (settings.out / f"{name}.md").read_text()


def row(text, start):
    """Returns the cells of the first row of a table that starts like this."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in line.split("|")[2:-1]]


# --- what is run ---


def test_every_method_is_measured_right_after_its_run(fake, settings):
    files = reproduce("table1", dataclasses.replace(settings, worlds=(FIRST,), seeds=1))
    assert fake.take() == [
        f"expert {FIRST}-expert",
        f"skills {FIRST}-dusdi-seed0",
        f"dci {FIRST}-dusdi-seed0",
        f"skills {FIRST}-diayn-mc-seed0",
        f"dci {FIRST}-diayn-mc-seed0",
    ]
    assert {path.name for path in files} == {"table1.csv", "table1.md", "table1.png"}
    assert all(path.stat().st_size for path in files)


def test_what_has_a_record_is_not_done_again_even_without_its_run(fake, settings):
    reproduce("table1", settings)
    assert len(fake.take()) == 2 * (1 + 2 * 2 * 2)
    before = (settings.out / "table1.csv").read_text()
    elsewhere = dataclasses.replace(settings, runs=settings.runs / "other")
    reproduce("table1", elsewhere)
    assert fake.take() == []
    assert (settings.out / "table1.csv").read_text() == before


def test_a_table_is_extended_by_a_method_and_by_seeds(fake, settings):
    ours = dataclasses.replace(settings, worlds=(FIRST,), methods=("dusdi", "diayn-mc"))
    reproduce("table1", ours)
    fake.take()
    reproduce("table1", dataclasses.replace(ours, methods=("dusdi", "diayn-mc", "diayn")))
    assert fake.take() == [
        f"{kind} {FIRST}-diayn-seed{seed}" for seed in (0, 1) for kind in ("skills", "dci")
    ]
    frame = pd.read_csv(settings.out / "table1.csv")
    assert list(frame["method"].unique()) == ["dusdi", "diayn-mc", "diayn", "scripted reference"]
    reproduce("table1", dataclasses.replace(ours, seeds=3))
    assert {name.split("-seed")[1] for name in fake.take()} == {"2"}


def test_records_of_other_settings_are_not_used(fake, settings):
    reproduce("table1", settings)
    count = len(fake.take())
    reproduce("table1", dataclasses.replace(settings, fields={"alpha": 0.5}))
    assert len(fake.take()) == count - 2  # but for the scripted experts
    measured_longer = dataclasses.replace(settings, evaluation_steps=5_000)
    reproduce("table1", measured_longer)
    assert {name.split()[0] for name in fake.take()} == {"dci", "expert"}


def test_figures_share_runs_with_tables_and_with_each_other(fake, settings):
    ours = dataclasses.replace(settings, worlds=(FIRST,), seeds=1)
    reproduce("table1", ours)
    fake.take()
    reproduce("fig3", ours)
    assert fake.take() == [f"skills {FIRST}-dusdi-decompose_q=False-seed0"]
    task = f"{FIRST}/limited"
    methods = ("dusdi", "diayn", "diayn-mc", "sac")
    reproduce("fig4", dataclasses.replace(ours, worlds=(), tasks=(task,), methods=methods))
    name = f"{FIRST}-limited"
    assert fake.take() == [
        f"task {name}-dusdi-ppo-seed0",
        f"return {name}-dusdi-ppo-seed0",
        f"skills {FIRST}-diayn-seed0",
        f"task {name}-diayn-ppo-seed0",
        f"return {name}-diayn-ppo-seed0",
        f"task {name}-diayn-mc-ppo-seed0",
        f"return {name}-diayn-mc-ppo-seed0",
        f"task {name}-sac-seed0",
        f"return {name}-sac-seed0",
    ]


def test_other_worlds_are_shown_if_they_have_records_and_named_if_not(fake, settings):
    reproduce("table1", dataclasses.replace(settings, worlds=(SECOND,)))
    reproduce("table1", dataclasses.replace(settings, worlds=(FIRST,)))
    text = page(settings, "table1")
    assert re.findall("^## (.*)$", text, re.M) == [FIRST, SECOND]
    (third,) = set(paper_worlds()) - {FIRST, SECOND}
    assert f"- Not shown, since there are no records: {third}.\n" in text
    reproduce("table1", dataclasses.replace(settings, worlds=(FIRST,), methods=("dusdi", "diayn")))
    left = f"- Not shown, since there are no records: {third}; {SECOND} (diayn).\n"
    assert left in page(settings, "table1")


def test_a_failure_is_told_at_the_end_and_what_is_done_is_kept(fake, settings, capsys):
    def fail(job):
        raise ZeroDivisionError("no luck")

    works = fake.scores["dci"]
    fake.scores["dci"] = lambda job: fail(job) if "diayn" in job.name else works(job)
    ours = dataclasses.replace(settings, progress=True, worlds=(FIRST,))
    with pytest.raises(DusdiError, match=r"2 of 9 jobs failed; the first, dci gunner-2d-diayn-mc"):
        reproduce("table1", ours)
    assert len(fake.take()) == 9
    assert "failed (dci: gunner-2d-diayn-mc-seed0): " in capsys.readouterr().err
    assert not (settings.out / "table1.csv").exists()
    fake.scores["dci"] = works
    reproduce("table1", ours)
    assert fake.take() == [f"dci {FIRST}-diayn-mc-seed{seed}" for seed in (0, 1)]


def test_with_several_jobs_at_a_time_progress_is_told_in_lines(fake, settings, capsys):
    ours = dataclasses.replace(settings, worlds=(FIRST,), seeds=1, progress=True)
    reproduce("fig3", ours)
    said = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in said] == ["1 of 2 done", "2 of 2 done"]
    assert said[-1].endswith(f"(skills: {FIRST}-dusdi-decompose_q=False-seed0)")


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
    assert len(frame) == 2 * (2 + 2 * 2 * 2)
    assert frame[frame["method"] == "dusdi"]["seed"].tolist()[:4] == [0, 0, 1, 1]
    records = {path.stem for path in (settings.out / "records").iterdir()}
    assert set(frame["key"]) <= records


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
    ours = dataclasses.replace(settings, worlds=(FIRST,), seeds=1)
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


# --- figures of tasks ---


def fig4(settings, **changes):
    reproduce(
        "fig4", dataclasses.replace(settings, worlds=(), tasks=(f"{FIRST}/limited",), **changes)
    )
    return page(settings, "fig4")


def test_fig4_measures_from_each_methods_own_floor(fake, settings):
    def scores(job):
        floors = {"dusdi": 1.0, "diayn": -3.0}
        method = next((name for name in floors if f"-{name}-ppo" in job.name), None)
        return {"return": 5.0, "random_skills": floors.get(method), "scripted_reference": 9.0}

    fake.scores["return"] = scores
    text = fig4(settings, methods=("dusdi", "diayn", "sac"))
    assert "Scripted reference 9.0." in text
    # (5 − 1) / (9 − 1) and (5 + 3) / (9 + 3); soft actor-critic has no skills to choose at random
    assert row(text, "dusdi")[:3] == ["5.0 [5.0, 5.0]", "1.0", "50%"]
    assert row(text, "diayn")[:3] == ["5.0 [5.0, 5.0]", "-3.0", "67%"]
    assert row(text, "sac")[:3] == ["5.0 [5.0, 5.0]", "–", "–"]
    finals = pd.read_csv(settings.out / "fig4-final.csv")
    assert finals.groupby("method", sort=False).size().to_dict() == {
        "dusdi": 2,
        "diayn": 2,
        "sac": 2,
    }


def seeded(**returns):
    """Scores of a return job: what its method has by seed, of a scripted reference of 10."""

    def scores(job):
        method = next(name for name in returns if f"-{name}-" in job.name)
        value = returns[method][job.settings["seed"]]
        return {"return": value, "random_skills": 2.0, "scripted_reference": 10.0}

    return scores


def test_fig4_shows_the_interquartile_mean_with_its_interval(fake, settings):
    fake.scores["return"] = seeded(dusdi=[4.0, 4.0, 4.0, 4.0, 13.0], sac=[1.0, 2.0, 4.0, 8.0, 99.0])
    text = fig4(settings, methods=("dusdi", "sac"), seeds=5)
    # The middle three are all 4; of five draws three are 13 in 5.8 % of cases, four in 0.7 %.
    assert row(text, "dusdi")[:3] == ["4.0 [4.0, 10.0]", "2.0", "25%"]
    assert row(text, "sac")[0].startswith("4.7 [")  # (2 + 4 + 8) / 3
    # 4 is above 1 and 2 and equal to 4, 13 is above all but 99: (4 · 2.5 + 4) / 25
    assert row(text, "dusdi")[-1] == "" and row(text, "sac")[-1] == "0.56"
    assert re.findall("^##+ (.*)$", text, re.M) == [f"{FIRST}/limited", "Over tasks", FIRST]
    assert "- sac: intervals overlap in limited." in text
    assert "Scripted reference 10.0. Seeds of each method: 5." in text
    assert "With fewer than" not in text


def test_fig4_tells_if_methods_have_different_numbers_of_seeds(fake, settings):
    fig4(settings, methods=("dusdi",), seeds=3)
    fig4(settings, methods=("dusdi", "sac"), seeds=2)
    other = {"worlds": (), "tasks": (f"{FIRST}/unlimited",), "seeds": 3}
    reproduce("fig4", dataclasses.replace(settings, methods=("dusdi", "sac"), **other))
    text = page(settings, "fig4")
    assert "Seeds of each method: 2 to 3." in text.split("## Over tasks")[0]
    assert "With fewer than 5 seeds, intervals are far too narrow." in text
    assert text.count("Seeds of each method: 3.") == 1


def test_methods_that_are_not_chosen_stay_in_a_figure(fake, settings):
    fig4(settings, methods=("dusdi", "sac"), seeds=2)
    text = fig4(settings, methods=("cic",), seeds=2)
    assert all(row(text, method) for method in ("dusdi", "sac", "cic"))


def test_fig4_compares_learning_on_common_steps(fake, settings):
    def curve(job):
        if "sac" in job.name:
            return {"step": [20, 40], "return": [2.0, 8.0]}
        return {"step": [10, 20, 30], "return": [0.0, 4.0, 2.0]}

    fake.curve = lambda job: {**curve(job), "accuracy": [0.0] * len(curve(job)["step"])}
    text = fig4(settings, methods=("dusdi", "sac"))
    # From step 20, where the later one starts, to 30, where the other ends
    assert row(text, "dusdi")[3] == "2.0 [2.0, 2.0]"
    assert row(text, "sac")[3] == "8.0 [8.0, 8.0]"


def test_fig4_survives_curves_without_an_episode(fake, settings):
    empty = {"step": [], "return": [], "accuracy": []}
    full = {"step": [10, 20], "return": [1.0, 3.0], "accuracy": [0.5, 0.5]}
    fake.curve = lambda job: empty if "-dusdi-ppo" in job.name else full
    text = fig4(settings, methods=("dusdi", "sac"))
    assert row(text, "dusdi")[3:5] == ["–", "2"]
    assert row(text, "sac")[3:5] == ["3.0 [3.0, 3.0]", "2"]
    fake.curve = lambda job: empty
    text = fig4(settings, methods=("dusdi", "sac"), task_fields={"steps": 9_600})
    assert row(text, "sac")[3:5] == ["–", "2"]


def test_fig4_without_a_scripted_reference_has_no_share(fake, settings):
    ends = {"return": 5.0, "random_skills": 1.0, "scripted_reference": None}
    fake.scores["return"] = lambda job: ends
    text = fig4(settings, methods=("dusdi",))
    assert "There is no scripted reference." in text and row(text, "dusdi")[2] == "–"


def test_fig6_compares_both_policy_gradients(fake, settings):
    reproduce("fig6", dataclasses.replace(settings, worlds=(), seeds=1))
    assert row(page(settings, "fig6"), "dusdi + cpg")[0] == "5.0"
    done = fake.take()
    assert len([name for name in done if name.startswith("skills")]) == 1
    assert len([name for name in done if "-cpg-" in name]) == 4


# --- SUSD's tasks ---


def test_susds_table_has_published_and_measured_returns_side_by_side(fake, settings):
    def scores(job):
        own = {"return": 50.0, "random_skills": 1.0, "scripted_reference": 99.0}
        seed = job.settings["seed"]
        discounted = {"return": 10.0 + 2 * seed, "random_skills": 0.5, "scripted_reference": 18.3}
        return own | {f"discounted_{name}": value for name, value in discounted.items()}

    fake.scores["return"] = scores
    tasks = (SUSD_TASKS[0], SUSD_TASKS[4])
    files = reproduce("susd", dataclasses.replace(settings, worlds=(), tasks=tasks))
    assert [path.name for path in files] == ["susd.csv", "susd.md"]
    done = fake.take()
    assert len(done) == 2 * 2 + 2 * 2 * 2 * 2  # skills; tasks of each, and their returns
    assert all("layout=0" in name for name in done if name.startswith("skills"))
    text = page(settings, "susd")
    assert "Σ_t 0.99^t times the mean reward of decision t, of 5 steps each" in text
    assert row(text, "published, susd") == ["16.6", "55.6"]
    assert row(text, "published, dusdi") == ["8.0", "-3.7"]
    assert row(text, "ours, susd") == row(text, "ours, dusdi") == ["11.0 ± 1.4"] * 2
    assert row(text, "ours, random skills of susd") == ["0.5"] * 2
    assert row(text, "scripted reference") == ["18.3"] * 2
    assert make_task(tasks[0]).published_note in text and "evaluated wrongly" in text


def test_fig4_leaves_susds_tasks_alone(settings):
    shown = fig4_cells(dataclasses.replace(settings, worlds=(), seeds=1, methods=("sac",)))
    assert tuple(dict.fromkeys(cell.labels["task"] for cell in shown)) == COMPARED_TASKS


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


# --- mistakes ---


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("table9", {}, "did you mean table1"),
        ("fig3", {"seeds": 0}, "seeds must be at least 1"),
        ("tuning", {"seeds": 11}, "at most 10, not 11: 0 to 9 are for reporting"),
        ("fig3", {"fields": {"steps": 300}}, "the first 320 are random"),
        ("fig4", {"task_fields": {"steps": 300}, "worlds": ()}, "the first 320 are random"),
        ("table1", {"evaluation_steps": 100}, "evaluation_steps must be at least 2,000"),
        ("table1", {"jobs": 0}, "jobs must be at least 1"),
        ("table1", {"worlds": ("houshold",)}, "did you mean household"),
        ("fig4", {"tasks": ("household/inspec",)}, "did you mean household/inspect"),
        ("fig3", {"worlds": ("walker",)}, "nothing to do with these worlds"),
        ("table1", {"methods": ("dusd",)}, "did you mean dusdi"),
        ("table1", {"preset": "slow"}, "unknown preset 'slow'"),
    ],
)
def test_mistakes_are_explained_before_anything_is_done(fake, settings, name, changes, message):
    with pytest.raises(UsageError, match=message):
        reproduce(name, dataclasses.replace(settings, **changes))
    assert fake.take() == [] and not settings.out.exists()


def test_without_pandas_the_command_to_install_it_is_told(settings, monkeypatch):
    for name in ("table1", "dci_table", "results"):
        monkeypatch.delitem(sys.modules, f"dusdi.experiments.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match=r"pip install 'dusdi\[reproduce\]'"):
        reproduce("table1", settings)


def test_nothing_is_nan_in_a_page(fake, settings):
    for name in ("table1", "fig3"):
        reproduce(name, settings)
        assert not re.search(r"\bnan\b|\bNone\b", page(settings, name))
